package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// renewed has a voter acknowledge the newest refresh, and returns the reported renewal.
func (f *dynamicBench) renewed(v string) Renewal {
	f.t.Helper()
	f.drain()
	before := len(f.events)
	f.ack(v)
	var found []Renewal
	for _, e := range f.events[before:] {
		if e.Kind == EventRenewed {
			if string(e.Who) != v {
				f.t.Errorf("reported %s, want %s", e.Who, v)
			}
			found = append(found, *e.Renewal)
		}
	}
	if len(found) != 1 {
		f.t.Fatalf("%d reports of an acknowledgement by %s", len(found), v)
	}
	return found[0]
}

// The margin belongs to the acknowledgement by which a majority extends the leases: not to the
// first, which alone extends nothing, and not to the last.
func TestARenewalReportsWhatWasLeft(t *testing.T) {
	f := follow(t, "1: a b c")
	f.q.renewals.report = true
	f.held("a b c")
	const every, trip = ttl / vote.RefreshesPerTTL, 3 * time.Millisecond
	whole := vote.Validity(ttl) - vote.Margin(ttl)
	f.pass(every)
	f.pass(trip)
	want := []Renewal{
		{RoundTrip: trip},
		{RoundTrip: trip, Leases: 1, Left: whole - every - trip, TTL: ttl},
		{RoundTrip: trip},
	}
	for i, v := range []string{"b", "c", "a"} {
		if got := f.renewed(v); got != want[i] {
			t.Errorf("%s: %+v, want %+v", v, got, want[i])
		}
	}

	// The voters answer late: less is left.
	const late = every * 3 / 4
	f.pass(every)
	f.pass(late)
	if got := f.renewed("a"); got != (Renewal{RoundTrip: late}) {
		t.Errorf("%+v", got)
	}
	if got, want := f.renewed("b"), (Renewal{RoundTrip: late, Leases: 1, Left: whole - every - late - trip, TTL: ttl}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// If there are several groups, the least margin counts.
func TestARenewalReportsTheLeastMargin(t *testing.T) {
	f := follow(t, "1: a b c")
	f.q.renewals.report = true
	f.held("a b c")
	n, err := f.q.Lock(f.now, Exclusive("other", false))
	if err != nil {
		t.Fatal(err)
	}
	f.promise(n, "b c")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.renewed("a")
	f.renewed("b") // extends the lease with three votes
	f.pass(10 * time.Millisecond)
	whole := vote.Validity(ttl) - vote.Margin(ttl)
	if got, want := f.renewed("c"), (Renewal{RoundTrip: 10 * time.Millisecond, Leases: 1, Left: whole - ttl/5 - 10*time.Millisecond, TTL: ttl}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// leaseOf returns a requester that reports renewals, and a granted lease with a length of its own.
func leaseOf(t *testing.T, length time.Duration, fixed bool) (*bench, vote.Number) {
	t.Helper()
	b := newBench(t, 3)
	b.q.renewals.report = true
	b.all()
	n := b.short(length, fixed)
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
		b.extended(v, n, 1, b.now.Fast)
	}
	b.granted(n, true)
	return b, n
}

// A lease with a length of its own is extended on its own.
func TestARenewalOfALeaseWithALength(t *testing.T) {
	const length = 100 * time.Millisecond
	b, n := leaseOf(t, length, false)
	b.pass(length / vote.RefreshesPerTTL)
	b.events = nil
	for _, v := range b.names {
		b.extended(v, n, 1, b.now.Fast)
	}
	var got []Renewal
	for _, e := range b.events {
		if e.Kind == EventRenewed {
			got = append(got, *e.Renewal)
		}
	}
	left := vote.Validity(length) - vote.Margin(length) - length/vote.RefreshesPerTTL
	if want := []Renewal{{}, {Leases: 1, Left: left, TTL: length}, {}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An extension of a lease WithoutRenewal is the application's: its margin says nothing about the
// voters.
func TestAnExtensionByTheApplicationIsNoRenewal(t *testing.T) {
	const length = 100 * time.Millisecond
	b, n := leaseOf(t, length, true)
	b.pass(length / 2)
	if held, confirmed := b.q.Extend(b.now, n, length, length); !held || confirmed == 0 {
		t.Fatal(held, confirmed)
	}
	b.events = nil
	for _, v := range b.names {
		b.extended(v, n, 1, b.now.Fast)
	}
	renewed, confirmed := 0, 0
	for _, e := range b.events {
		switch e.Kind {
		case EventRenewed:
			renewed += e.Renewal.Leases
		case EventExtended:
			confirmed++
		}
	}
	if renewed != 0 || confirmed != 1 {
		t.Errorf("%d leases renewed, %d extensions confirmed", renewed, confirmed)
	}
}

func TestNoRenewalIsReportedUnlessWanted(t *testing.T) {
	f := follow(t, "1: a b c")
	f.held("a b c")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.ack("a b c")
	if e := f.last(EventRenewed); e != nil {
		t.Errorf("%+v", e)
	}
}

// TestSpareVoters compares spare with its definition: how many voters may fail, whichever they are.
func TestSpareVoters(t *testing.T) {
	for _, c := range []string{"1: a", "1: a b", "1: a b c", "1: a b c d e", "2: a b c d e (a b c)", "2: d e f (a b c)", "2: a (a b)", "0:"} {
		e := version(c)
		d := NewElectorate(e, e.All())
		for s := range Set(1) << d.Size() {
			want := 0
			if d.Decides(s) {
				want = d.Size()
				for fail := range Set(1) << d.Size() {
					if !d.Decides(s &^ fail) {
						want = min(want, (s&fail).Len()-1)
					}
				}
			}
			if got := d.spare(s); got != want {
				t.Errorf("%s: of %b, %d are to spare, want %d", c, s, got, want)
			}
		}
	}
}

// If an answer extends two groups, the least margin counts, whichever group comes first.
func TestARenewalOfTwoGroupsReportsTheLeastMargin(t *testing.T) {
	b := newBench(t, 3)
	b.q.renewals.report = true
	start := b.now.Fast
	for _, v := range b.names { // each voter's validity begins later than the validity before
		b.link(v)
		b.pass(time.Millisecond)
	}
	for i, key := range []vote.Key{"two", "all"} {
		n := b.ask(Exclusive(key, false))
		for _, v := range b.names[:2+i] {
			b.promise(v, n, vote.Serial(n), 100)
		}
		b.granted(n, true)
	}
	b.pass(b.q.refreshAt.Sub(b.now.Fast))
	b.ack("v0", nil)
	left := start.Add(vote.Validity(ttl) - vote.Margin(ttl)).Sub(b.now.Fast)
	if got, want := *b.last(EventRenewed).Renewal, (Renewal{Leases: 2, Left: left, TTL: ttl}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An answer may shorten the validity: here the session at the voter is new, and the answer is void.
// Leases that end sooner aren't part of the report.
func TestARenewalReportsNoLeaseThatEndsSooner(t *testing.T) {
	b := newBench(t, 3)
	b.q.renewals.report = true
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.gen++
	b.sends("v0", vote.Message{
		Kind: vote.KindAnswer, Entries: []vote.Entry{{Number: n, Serial: 1, Token: 100}}, End: true, Void: true,
		Sent: b.q.peerOf("v0").syncSent, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall,
	})
	if e := b.last(EventLost); e == nil || e.Number != n {
		t.Fatal("the lease goes on")
	}
	if e := b.last(EventRenewed); e == nil || *e.Renewal != (Renewal{}) {
		t.Errorf("%+v", e.Renewal)
	}
}
