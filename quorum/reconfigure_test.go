package quorum

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// dynamicBench is a requester with dynamic membership, with the voters' part played by the test.
type dynamicBench struct {
	t      *testing.T
	q      *Requester
	now    vote.Now
	outbox map[string][]vote.Message // sent to each voter, and not read by the test yet
	// The version applied by a voter; zero: the newest known to the requester.
	goes   map[string]uint64
	events []Event
	serial vote.Serial
}

func follow(t *testing.T, e string) *dynamicBench {
	f := &dynamicBench{t: t, now: vote.Now{Fast: 1e9, Slow: 1e9, Wall: 1_000_000}, outbox: map[string][]vote.Message{}, goes: map[string]uint64{}}
	f.q = New(Config{Self: vote.SessionID{Node: "me", Incarnation: 1}, Electorate: *version(e), Dynamic: true, TTL: ttl}, f.now)
	f.link(names(f.q.places))
	return f
}

func names(voters []vote.Elector) string {
	var all []string
	for _, v := range voters {
		all = append(all, string(v.Name))
	}
	return strings.Join(all, " ")
}

func connOf(v string) vote.Conn { return vote.Conn(v[0]-'a') + 1 }

func (f *dynamicBench) drain() {
	out, ev := f.q.Drain(nil, nil)
	f.events = append(f.events, ev...)
	for _, o := range out {
		v := string(rune('a' + o.Conn - 1))
		if o.Close {
			o.Message = vote.Message{Kind: vote.KindNone}
		}
		f.outbox[v] = append(f.outbox[v], o.Message)
	}
}

// link opens links to voters, which answer the syncs without votes.
func (f *dynamicBench) link(list string) {
	for _, v := range strings.Fields(list) {
		f.q.Link(f.now, connOf(v), vote.SessionID{Node: vote.NodeID(v), Incarnation: 5})
		f.answer(v, nil)
		f.sentTo(v)
	}
}

func (f *dynamicBench) peer(v string) *peer { return f.q.peerOf(vote.NodeID(v)) }

func (f *dynamicBench) sends(v string, m vote.Message) {
	f.drain()
	if m.Stream == 0 && f.peer(v) != nil {
		m.Stream = f.peer(v).stream
	}
	if m.Epoch == 0 {
		if m.Epoch = f.goes[v]; m.Epoch == 0 {
			m.Epoch = f.q.newest.version
		}
	}
	f.q.Deliver(f.now, connOf(v), vote.SessionID{Node: vote.NodeID(v), Incarnation: 5}, &m)
	f.drain()
}

func (f *dynamicBench) answer(v string, change func(*vote.Message), votes ...vote.Entry) {
	m := vote.Message{Kind: vote.KindAnswer, Entries: votes, End: true, Sent: f.peer(v).syncSent, Incarnation: 5, Generation: 1, Wall: f.now.Wall, Dir: elector(v).Dir}
	if change != nil {
		change(&m)
	}
	f.sends(v, m)
}

// ack has voters acknowledge the newest refresh, each with the expected digest.
func (f *dynamicBench) ack(list string) {
	for _, v := range strings.Fields(list) {
		p := f.peer(v)
		want := p.digest.base
		for _, c := range slices.Concat(p.digest.sent, p.digest.received) {
			want = want.Plus(c.delta)
		}
		f.sends(v, vote.Message{
			Kind: vote.KindAck, Sent: p.refreshed, Incarnation: 5, Generation: 1, Processed: p.sent, Pushed: p.received, Count: want.Count, Hash: want.Hash, Wall: f.now.Wall,
		})
	}
}

// sentTo returns the kinds of the messages sent to a voter since the last call.
func (f *dynamicBench) sentTo(v string) string {
	f.drain()
	var kinds []string
	for _, m := range f.outbox[v] {
		kinds = append(kinds, m.Kind.String())
	}
	f.outbox[v] = nil
	return strings.Join(kinds, " ")
}

func (f *dynamicBench) lock(try bool) vote.Number {
	n, err := f.q.Lock(f.now, Exclusive("k", try))
	if err != nil {
		f.t.Fatal(err)
	}
	f.drain()
	return n
}

// promise has voters vote for a request.
func (f *dynamicBench) promise(n vote.Number, list string) {
	for _, v := range strings.Fields(list) {
		f.serial++
		f.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: f.serial, Token: 100})
	}
}

func (f *dynamicBench) held(list string) vote.Number {
	n := f.lock(false)
	f.promise(n, list)
	f.want(n, EventGranted)
	return n
}

func (f *dynamicBench) reconfigureTo(e string) {
	f.q.Reconfigure(f.now, version(e))
	f.drain()
}

func (f *dynamicBench) pass(d time.Duration) {
	f.now.Fast, f.now.Slow, f.now.Wall = f.now.Fast.Add(d), f.now.Slow.Add(d), f.now.Wall+vote.Micros(d.Microseconds())
	f.q.Tick(f.now)
	f.drain()
}

// outcome returns the kind of the last event about a request.
func (f *dynamicBench) outcome(n vote.Number) EventKind {
	f.drain()
	for _, e := range slices.Backward(f.events) {
		switch e.Kind {
		case EventGranted, EventFailed, EventLost, EventReleased:
			if e.Number == n {
				return e.Kind
			}
		}
	}
	return EventNone
}

func (f *dynamicBench) want(n vote.Number, kind EventKind) {
	f.t.Helper()
	if got := f.outcome(n); got != kind {
		f.t.Fatalf("the last that was told of %d is %d, want %d; %s", n, got, kind, f.q.describeVoters())
	}
}

func (f *dynamicBench) last(kind EventKind) *Event {
	f.drain()
	for i := len(f.events) - 1; i >= 0; i-- {
		if f.events[i].Kind == kind {
			return &f.events[i]
		}
	}
	return nil
}

func TestNothingChangesItsMeaningWhenPlacesMove(t *testing.T) {
	for _, next := range []string{"2: a c m n o (m n o)", "2: m n o x y (m n o)", "2: a m n nn o (m n o)", "2: b m n (m n o)", "2: a b n (m n o)"} {
		t.Run(next, func(t *testing.T) {
			f := follow(t, "1: m n o")
			held := f.held("m o")
			other, _ := f.q.Lock(f.now, Exclusive("l", false))
			f.promise(other, "n")
			given, _ := f.q.Lock(f.now, Exclusive("g", false))
			f.promise(given, "n")
			f.q.Release(f.now, given)
			f.sends("m", vote.Message{Kind: vote.KindReleased, Number: given})
			look := f.q.Query(f.now, "k")
			f.sends("n", vote.Message{Kind: vote.KindQueryResult, Nonce: look, End: true, TTL: time.Hour, Views: []vote.View{viewEntry(vote.Holding, "z", 7, vote.Exclusive, 300)}})
			watch := f.q.Watch(f.now, "k", false)
			f.sends("o", vote.Message{Kind: vote.KindEvents, Nonce: watch, Incarnation: 5, Seq: 40, Gap: true})
			f.sends("n", vote.Message{Kind: vote.KindEvents, Nonce: watch, Incarnation: 5, Seq: 30, Gap: true})
			until := f.q.requests[held].group.until
			for _, v := range []string{"m", "n", "o"} {
				f.sentTo(v)
			}

			f.reconfigureTo(next)
			for _, v := range []string{"m", "n", "o"} {
				if got := f.sentTo(v); got != "" {
					t.Errorf("%s is told %q", v, got)
				}
				if p := f.peer(v); !p.reachable() || string(p.name) != v || f.q.peers[p.place] != p || f.q.places[p.place] != elector(v) {
					t.Errorf("%s stands wrong: %+v", v, p)
				}
			}
			if got := f.q.requests[held].group.until; got != until {
				t.Errorf("the lease now ends at %d, not at %d", got, until)
			}
			if e := f.last(EventMoved); e != nil {
				t.Errorf("the same voters stand behind it, and it is told that others do: %+v", e)
			}
			places := f.last(EventElectorate)
			if places == nil || len(places.Places) != 3 || f.q.places[places.Places[1]] != elector("n") || places.Electorate.Version() != 2 {
				t.Errorf("%+v", places)
			}

			// Each vote still belongs to its voter.
			f.sends("o", vote.Message{Kind: vote.KindInquire, Number: held, Serial: 2})
			f.sends("n", vote.Message{Kind: vote.KindInquire, Number: other, Serial: 3})
			f.sends("n", vote.Message{Kind: vote.KindInquire, Number: held, Serial: 2})
			f.sends("m", vote.Message{Kind: vote.KindInquire, Number: other, Serial: 3})
			if m, n, o := f.sentTo("m"), f.sentTo("n"), f.sentTo("o"); m != "" || n != "yield" || o != "confirm" {
				t.Errorf("m is told %q, n %q, o %q", m, n, o)
			}
			// The watches go on from the last event received.
			f.sends("o", vote.Message{Kind: vote.KindEvents, Nonce: watch, Incarnation: 5, Seq: 39, Views: []vote.View{{}}})
			f.sends("n", vote.Message{Kind: vote.KindEvents, Nonce: watch, Incarnation: 5, Seq: 31, Views: []vote.View{{}}})
			if e := f.last(EventNews); e.Place != f.peer("n").place {
				t.Errorf("news of place %d, want that of n, %d", e.Place, f.peer("n").place)
			}
			if f.outbox["n"][0].Seq != 31 || f.sentTo("o") != "" {
				t.Error("what was told before is told again")
			}
			// The digests match, those of the deferred voters included.
			f.pass(maxHedgeDelay)
			f.pass(maxHedgeDelay)
			f.pass(ttl / 5)
			f.ack("m n o")
			if c := f.q.Counters().Mismatches; c != 0 {
				t.Errorf("%d mismatches", c)
			}
			// Every voter receives the release, and the query counts n's answer once.
			for _, v := range []string{"m", "n", "o"} {
				f.sentTo(v)
			}
			f.q.Release(f.now, held)
			for _, v := range []string{"m", "n", "o"} {
				if got := f.sentTo(v); got != "release" {
					t.Errorf("%s is told %q", v, got)
				}
			}
			f.sends("n", vote.Message{Kind: vote.KindReleased, Number: given})
			f.sends("n", vote.Message{Kind: vote.KindQueryResult, Nonce: look, End: true, TTL: time.Hour})
			if f.last(EventQueryDone) != nil {
				t.Error("one voter is enough for a look")
			}
			f.link(newcomers(f.q))
			for _, v := range strings.Fields(names(f.q.Peers())) {
				if v != "n" {
					f.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: look, End: true, TTL: time.Hour})
				}
			}
			if e := f.last(EventQueryDone); e == nil || e.Result == nil || len(e.Result.Views) != 1 || e.Result.Views[0].Owner.Node != "z" {
				t.Errorf("the look shows %+v", e)
			}
			if f.q.requests[given] != nil && f.outcome(given) != EventReleased {
				t.Error("the release is never told")
			}
		})
	}
}

// newcomers returns the voters without a link.
func newcomers(q *Requester) string {
	var all []string
	for _, p := range q.peers {
		if !p.up() {
			all = append(all, string(p.name))
		}
	}
	return strings.Join(all, " ")
}

func TestAWaitingRequestIsSentToNewVoters(t *testing.T) {
	f := follow(t, "1: m n o")
	n := f.lock(false)
	f.promise(n, "m n")
	f.want(n, EventGranted)
	w, _ := f.q.Lock(f.now, Exclusive("w", false))
	f.promise(w, "n")
	f.reconfigureTo("2: a b m n o (m n o)")
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5})
	f.drain()
	if m := f.outbox["a"][1]; m.Kind != vote.KindSync || len(m.Entries) != 2 || m.Entries[0].Token != 100 || m.Entries[1].Number != w {
		t.Fatalf("%+v", m)
	}
	f.answer("a", nil, vote.Entry{Number: n, Serial: 90, Token: 100})
	f.promise(w, "a")
	f.want(w, EventNone) // a vote of a single old voter, and of two new voters
	f.goes["o"] = 1
	f.promise(w, "o")
	f.want(w, EventGranted) // old: n, o; new: a, n, o
}

func TestOfAJointElectorateBothHalvesMustVote(t *testing.T) {
	f := follow(t, "2: a b c d e (a b c)")
	n := f.lock(false)
	f.promise(n, "a d e")
	f.want(n, EventNone)
	f.promise(n, "b")
	f.want(n, EventGranted)
}

func TestALeaseKeepsItsInstantWhenTheElectorateChanges(t *testing.T) {
	for _, next := range []string{"2: a b c d e (a b c)", "2: a b (a b c)", "2: c (a b c)", "9: c d e", "1048577: d"} {
		f := follow(t, "1: a b c")
		n := f.held("a b")
		until := f.q.requests[n].group.until
		f.pass(ttl / 2)
		f.reconfigureTo(next)
		for f.now.Fast < until-1 {
			f.pass(min(ttl/50, until.Sub(f.now.Fast)-1))
			f.want(n, EventGranted)
		}
		f.pass(1)
		f.want(n, EventLost) // no voter has sent anything
	}
}

// A voter that can't store the newest version still counts under the previous version for a while.
// Afterwards the requester must not report this voter as counting.
func TestAVoterThatStaysBehindIsToldToBe(t *testing.T) {
	f := follow(t, "1: a b c")
	f.goes["b"], f.goes["c"] = 1, 1
	f.reconfigureTo("2: a b c d e (a b c)")
	f.link("d e")
	for range 10 {
		f.pass(ttl / 5)
		f.ack("a b c d e")
	}
	n := f.lock(true)
	f.promise(n, "a b c d e")
	f.pass(ttl / 5)
	f.ack("a b c d e")
	f.want(n, EventNone)
	if f.q.Ready() {
		t.Error("it says that it is ready")
	}
	if c := f.q.describeVoters(); !strings.HasPrefix(c, "3 of 5 voters count: b behind (it votes under electorate 1), c behind") {
		t.Error(c)
	}
}

func TestUnderWhichVersionAnAcknowledgementCounts(t *testing.T) {
	for _, c := range []struct {
		goes           uint64
		newest, before bool
	}{{8, true, false}, {7, false, true}, {6, false, false}, {9, false, false}, {1 << 40, false, false}} {
		f := follow(t, "7: a b c")
		f.reconfigureTo("8: a b c d e (a b c)")
		f.pass(ttl / 5)
		was := f.peer("a").validity
		if was.newest != 0 || was.before == 0 {
			t.Fatalf("after the change: %+v", was)
		}
		f.goes["a"] = c.goes
		f.ack("a")
		now := f.peer("a").validity
		if now.newest > was.newest != c.newest || now.before > was.before != c.before {
			t.Errorf("acknowledged by a voter that applies %d: %+v, before that %+v", c.goes, now, was)
		}
	}
	f := follow(t, "7: a b c")
	f.reconfigureTo("9: a b c")
	if c := f.peer("a").validity; c != (validity{}) || f.q.before.Known() {
		t.Errorf("of the last but one something counts: %+v", c)
	}
	f.goes["a"] = 7
	f.pass(ttl / 5)
	f.ack("a")
	if c := f.peer("a").validity; c != (validity{}) {
		t.Errorf("of the last but one something counts: %+v", c)
	}
}

func TestAcknowledgementsUnderTwoVersionsDontAddUp(t *testing.T) {
	for _, c := range []struct {
		name             string
		a, b, d          uint64
		heldAfterTheOnly bool
	}{
		{"both by the new", 2, 2, 2, true},
		{"both by the old", 1, 1, 1, true},
		{"one by each", 1, 2, 2, false},
	} {
		f := follow(t, "1: a b c")
		n := f.held("a b")
		f.pass(ttl / 10)
		f.reconfigureTo("2: a b d (a b c)")
		f.goes["a"], f.goes["b"], f.goes["d"] = c.a, c.b, c.d
		f.link("d")
		for range 4 {
			f.pass(ttl / 5)
			f.ack("a b")
		}
		// The first validities are over; at most validity under the old version still counts.
		f.pass(ttl / 4)
		if got := f.outcome(n) == EventGranted; got != c.heldAfterTheOnly {
			t.Errorf("%s: held: %v", c.name, got)
		}
	}
}

func TestALeaseMayBeWonUnderTheVersionBefore(t *testing.T) {
	f := follow(t, "1: a b c")
	n := f.lock(false)
	f.promise(n, "a")
	f.goes["a"], f.goes["b"] = 1, 1 // both have yet to apply the new version
	f.reconfigureTo("2: c d e (a b c)")
	f.promise(n, "b")
	f.want(n, EventGranted)

	f = follow(t, "1: a b c")
	n = f.lock(false)
	f.promise(n, "a")
	f.reconfigureTo("3: c d e") // the first version doesn't count any more
	if f.q.Knows("a") {
		t.Fatal("a is spoken to")
	}
	f.reconfigureTo("4: a b c (c d e)")
	f.promise(n, "b")
	f.want(n, EventNone)
}

func TestAfterATTLTheVersionBeforeIsForgotten(t *testing.T) {
	f := follow(t, "1: a b c")
	n := f.held("a b")
	f.reconfigureTo("2: b c d (a b c)")
	if got := names(f.q.Peers()); got != "a b c d" {
		t.Fatal(got)
	}
	f.link("d")
	f.promise(n, "c") // of the new voters b and c, of the old voters all
	end := f.now.Fast.Add(vote.Validity(ttl))
	for f.now.Fast < end-1 {
		f.pass(min(ttl/20, end.Sub(f.now.Fast)-1))
		f.ack("a b c d")
	}
	if !f.q.before.Known() || f.q.Next() > end {
		t.Fatal("forgotten too soon, or nothing wakes it")
	}
	f.pass(1)
	if f.q.before.Known() || f.q.Next() <= f.now.Fast {
		t.Fatal("not forgotten")
	}
	f.want(n, EventGranted)
	// Then the joint electorate ends, and a leaves.
	f.reconfigureTo("3: b c d")
	if got := names(f.q.Peers()); got != "a b c d" {
		t.Fatal(got)
	}
	for range 12 {
		f.pass(ttl / 10)
		f.ack("b c d")
	}
	if got := names(f.q.Peers()); got != "b c d" {
		t.Fatal(got)
	}
	f.want(n, EventGranted)
	if c := f.q.Counters().Mismatches; c > 0 {
		t.Fatalf("%d mismatches", c)
	}
}

func TestAVoterThatDoesNotKnowThatItVotesIsSyncedOnceItDoes(t *testing.T) {
	f := follow(t, "1: a b c")
	f.lock(false)
	f.reconfigureTo("2: a b c d e (a b c)")
	f.q.Link(f.now, connOf("d"), vote.SessionID{Node: "d", Incarnation: 5})
	if got := f.sentTo("d"); got != "open sync" {
		t.Fatalf("d is told %q", got)
	}
	f.sends("d", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonNotVoter})
	// The answer to the sync behind the refused opening.
	f.sends("d", vote.Message{Kind: vote.KindUnknown})
	f.pass(ttl / 5)
	if got := f.sentTo("d"); got != "" {
		t.Fatalf("d is told %q", got)
	}
	f.q.AckEpoch(f.now, connOf("d"), 1)
	f.q.AckEpoch(f.now, connOf("e"), 2) // another voter, without a link
	if got := f.sentTo("d"); got != "" {
		t.Fatalf("d applies an older one and is told %q", got)
	}
	f.q.AckEpoch(f.now, connOf("d"), 2)
	if got := f.sentTo("d"); got != "open sync" {
		t.Fatalf("d applies it and is told %q", got)
	}
	f.answer("d", nil)
	// A voter with a session is refreshed, so that its votes count under the new version at once.
	f.q.AckEpoch(f.now, connOf("d"), 2)
	if got := f.sentTo("d"); got != "refresh" {
		t.Fatalf("d is told %q", got)
	}
}

func TestTheSyncNamesItsVersion(t *testing.T) {
	f := follow(t, "7: a b c")
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5})
	f.drain()
	if m := f.outbox["a"][0]; m.Kind != vote.KindOpen || m.Epoch != 7 {
		t.Fatalf("%+v", m)
	}
	f.answer("a", nil)
	f.sentTo("a")
	f.pass(ttl / 5)
	if m := f.outbox["a"][0]; m.Kind != vote.KindRefresh || m.Epoch != 7 {
		t.Fatalf("%+v", m)
	}
}

func TestAnotherDirectoryIsNoVoter(t *testing.T) {
	f := follow(t, "1: a b c")
	n := f.lock(false)
	f.q.Unlink(f.now, connOf("a"))
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5})
	f.sentTo("a")
	f.answer("a", func(m *vote.Message) { m.Dir = 77 }, vote.Entry{Number: n, Serial: 9, Token: 100})
	if got := f.sentTo("a"); got != "none" {
		t.Fatalf("a is told %q", got)
	}
	if p := f.peer("a"); p.reachable() || !strings.Contains(p.text, "wiped or replaced") {
		t.Fatalf("%+v", p)
	}
	f.promise(n, "b")
	f.want(n, EventNone)
}

func TestWhileNoElectorateIsKnown(t *testing.T) {
	f := follow(t, "0:")
	try := f.lock(true)
	f.want(try, EventFailed)
	if e := f.last(EventFailed); e.Wait.Reason != WaitNoQuorum || !strings.HasPrefix(e.Wait.Text, "no electorate is known") {
		t.Fatalf("%+v", e.Wait)
	}
	gone := f.lock(false)
	f.q.Release(f.now, gone)
	f.want(gone, EventReleased)
	n := f.lock(false)
	f.want(n, EventNone)
	if w := f.q.PendingReason(f.now, n); w.Reason != WaitNoQuorum {
		t.Fatalf("%+v", w)
	}
	if f.q.Ready() {
		t.Fatal("ready for what?")
	}
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5}) // d may be a voter
	if got := f.sentTo("a"); got != "none" {
		t.Fatal(got)
	}
	f.reconfigureTo("1: a b c")
	f.link("a b")
	f.promise(n, "a b")
	f.want(n, EventGranted)
}

func TestAnOlderElectorateIsNoNews(t *testing.T) {
	f := follow(t, "7: a b c")
	f.reconfigureTo("6: a")
	f.reconfigureTo("7: a")
	if e := f.q.Electorate(); e.Version() != 7 || e.Size() != 3 {
		t.Fatalf("%+v", e)
	}
}

// When a voter is removed and added again, its stream is new and no earlier message counts.
func TestAVoterThatComesBackIsSpokenToOnANewStream(t *testing.T) {
	f := follow(t, "1: a b c")
	was := f.peer("c").stream
	f.reconfigureTo("2: a b (a b c)")
	f.reconfigureTo("3: a b")
	f.pass(ttl)
	if f.q.Knows("c") {
		t.Fatal("c is known yet")
	}
	f.reconfigureTo("4: a b c (a b)")
	f.q.Link(f.now, connOf("c"), vote.SessionID{Node: "c", Incarnation: 5})
	if now := f.peer("c").stream; now <= was {
		t.Fatalf("stream %d comes after %d", now, was)
	}
}

func TestVotesOfTheirOwnLengthAreCoveredUnderTheirVersion(t *testing.T) {
	f := follow(t, "1: a b c")
	n, _ := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: ttl}})
	f.promise(n, "a b")
	for _, v := range []string{"a", "b"} {
		f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[f.peer(v).place].serial, Sent: f.now.Fast})
	}
	f.want(n, EventGranted)
	f.reconfigureTo("2: a b d (a b c)")
	until := f.q.requests[n].group.until
	if c := f.q.requests[n].cold.votes[0].validity; c.newest != 0 || c.before == 0 {
		t.Fatalf("what was extended by the old one counts by the new: %+v", c)
	}
	f.pass(ttl / 4)
	extended := func(v string, by uint64) {
		f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[f.peer(v).place].serial, Sent: f.now.Fast, Epoch: by})
	}
	extended("a", 2)
	extended("b", 1)
	if f.q.requests[n].group.until != until {
		t.Fatal("one by each is no majority")
	}
	extended("b", 2)
	if f.q.requests[n].group.until <= until {
		t.Fatal("a and b have extended it by the new version")
	}
}

// Confirmations by fewer than a majority of a large electorate are enough once the electorate is
// smaller.
func TestWhatIsEnoughForTheNewOnesIsDoneWhenTheOldOnesGo(t *testing.T) {
	f := follow(t, "2: a b c (a b c d e)")
	n := f.held("a b c")
	valued, _ := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "v", Mode: vote.Exclusive}, Value: []byte("x")})
	f.promise(valued, "a b c")
	look, revoke := f.q.Query(f.now, "k"), f.q.Revoke(f.now, "x", "")
	f.q.Release(f.now, n)
	for _, v := range []string{"a", "b"} {
		f.sends(v, vote.Message{Kind: vote.KindReleased, Number: n})
		f.sends(v, vote.Message{Kind: vote.KindValueStored, Number: valued, Version: 1})
		f.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: look, End: true, TTL: time.Hour})
		f.sends(v, vote.Message{Kind: vote.KindRevokeForwarded, Nonce: revoke, Count: 1})
	}
	f.want(n, EventGranted)
	for _, kind := range []EventKind{EventQueryDone, EventRevokeForwarded, EventValueSet} {
		if f.last(kind) != nil {
			t.Fatalf("event %d: two of the old ones are enough", kind)
		}
	}
	f.reconfigureTo("3: a b c")
	f.want(n, EventReleased)
	if e := f.last(EventValueSet); e == nil || e.Version != 1 {
		t.Errorf("the value is never noted: %+v", e)
	}
	if e := f.last(EventQueryDone); e == nil || e.Result == nil {
		t.Errorf("the look isn't over: %+v", e)
	}
	if e := f.last(EventRevokeForwarded); e == nil || e.Count != 1 {
		t.Errorf("the revocation isn't over: %+v", e)
	}
}

// A voter with a slow disk applies an older version for a while. Its extensions are of no use then,
// and the same answer would follow if the voter were asked again at once: a node and its own voter
// would go on indefinitely. (Found by TestAnythingWhileTheElectorateChanges.)
func TestAVoteExtendedUnderAnotherVersionIsNotExtendedAgainAtOnce(t *testing.T) {
	f := follow(t, "7: a b c")
	f.goes["a"], f.goes["b"] = 5, 5
	n, _ := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: ttl}})
	f.promise(n, "a b")
	f.sentTo("b")
	extended := func() {
		f.sends("b", vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[1].serial, Sent: f.now.Fast})
		f.sends("a", vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[0].serial, Sent: f.now.Fast})
	}
	extended()
	if got := f.sentTo("b"); got != "" {
		t.Fatalf("b is told %q", got)
	}
	f.want(n, EventNone)
	f.pass(ttl / 5) // at the regular time
	if got := f.sentTo("b"); !strings.Contains(got, "extend") {
		t.Fatalf("b is told %q", got)
	}
	f.goes["a"], f.goes["b"] = 7, 7
	extended()
	f.want(n, EventGranted)
}

// A node that votes no more, and counts only under the previous version, receives no requests on a
// new stream, so there is nothing to release at this node.
func TestAVoterOfTheVersionBeforeHasNothingToRelease(t *testing.T) {
	f := follow(t, "2: b c d (a b c)")
	n := f.held("a b c")
	f.reconfigureTo("3: b c d")
	f.q.Unlink(f.now, connOf("a"))
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5})
	f.answer("a", nil)
	f.sentTo("a")
	f.q.Release(f.now, n)
	if got := f.sentTo("a"); got != "" {
		t.Errorf("a is told %q", got)
	}
	f.pass(ttl / 5)
	p := f.peer("a")
	f.sends("a", vote.Message{Kind: vote.KindAck, Sent: p.refreshed, Incarnation: 5, Generation: 1, Processed: p.sent, Pushed: p.received, Wall: f.now.Wall})
	if c := f.q.Counters().Mismatches; c > 0 {
		t.Errorf("%d mismatches", c)
	}
}

// A voter may be removed and added again before receiving either change. The voter keeps its
// session then, and hasn't received the requests made in between.
func TestAVoterThatIsVotedInAgainHearsOfWhatWasAskedForMeanwhile(t *testing.T) {
	f := follow(t, "2: b c d (a b c)")
	f.goes["a"] = 2
	f.reconfigureTo("3: b c d")
	n := f.lock(false)
	f.q.ackSchedule.at = vote.Never // or else the voters were asked for acknowledgements
	f.pass(maxHedgeDelay)
	if got := f.sentTo("a"); got != "" {
		t.Fatalf("a was told %q though it votes no more", got)
	}
	f.reconfigureTo("4: a b c (b c d)")
	f.goes["a"] = 0
	f.q.AckEpoch(f.now, connOf("a"), 4)
	if got := f.sentTo("a"); !strings.HasPrefix(got, "open sync") {
		t.Fatalf("a was told %q", got)
	}
	f.answer("a", nil)
	f.pass(ttl / 5)
	f.ack("a b d")
	f.promise(n, "b d") // c is dead
	f.want(n, EventNone)
	f.promise(n, "a")
	f.want(n, EventGranted)
}

// A voter without a link receives a sync once the link is up.
func TestAVoterThatIsVotedInAgainIsSyncedOnceItIsConnected(t *testing.T) {
	f := follow(t, "2: b c d (a b c)")
	f.reconfigureTo("3: b c d")
	f.q.Unlink(f.now, connOf("a"))
	f.sentTo("a")
	f.reconfigureTo("4: a b c (b c d)")
	f.drain()
	for conn := range f.outbox {
		if got := f.sentTo(conn); strings.Contains(got, "sync") {
			t.Errorf("%q was said to %q", got, conn)
		}
	}
	f.q.Link(f.now, connOf("a"), vote.SessionID{Node: "a", Incarnation: 5})
	if got := f.sentTo("a"); got != "open sync" {
		t.Errorf("a was told %q", got)
	}
}

// A node that remains removed receives no message.
func TestAVoterThatStaysAwayHearsNothing(t *testing.T) {
	f := follow(t, "2: b c d (a b c)")
	f.reconfigureTo("3: b c d")
	f.sentTo("a")
	f.reconfigureTo("4: b c e (b c d)")
	if got := f.sentTo("a"); got != "" {
		t.Errorf("a was told %q", got)
	}
}

// permit requests one of two permits, and slot has voters vote for a slot.
func (f *dynamicBench) permit() vote.Number {
	n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 2}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.drain()
	return n
}

func (f *dynamicBench) slot(n vote.Number, slot vote.Slot, list string) {
	for _, v := range strings.Fields(list) {
		f.serial++
		f.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: f.serial, Slot: slot, Token: 100})
	}
}

// staysBehind has c vote for a slot, and then apply an older version until no vote of c counts.
func staysBehind(t *testing.T) (f *dynamicBench, n vote.Number) {
	f = follow(t, "2: a b c")
	n = f.permit()
	f.pass(maxHedgeDelay)
	f.slot(n, 1, "c")
	f.goes["c"] = 2
	f.q.AckEpoch(f.now, connOf("c"), 2)
	f.reconfigureTo("3: a b c d")
	for range 2 * vote.RefreshesPerTTL {
		f.pass(ttl / vote.RefreshesPerTTL)
		f.ack("a b c")
	}
	f.link("d")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.ack("a b d")
	f.want(n, EventNone)
	return f, n
}

// The vote of a voter that stays behind decides no slot.
func TestASlotOfALaggingVotersVoteDelaysNoRequest(t *testing.T) {
	f, n := staysBehind(t)
	f.slot(n, 1, "a b")
	f.want(n, EventNone)
	f.sentTo("d")
	f.slot(n, 2, "d")
	if got := f.sentTo("d"); got != "yield" {
		t.Fatalf("d was told %q", got)
	}
	f.sentTo("a")
	f.sentTo("b")
	f.slot(n, 2, "d") // d can't move its vote
	if a, b := f.sentTo("a"), f.sentTo("b"); a != "yield" || b != "yield" {
		t.Fatalf("a was told %q, and b %q", a, b)
	}
	f.slot(n, 2, "a b")
	f.want(n, EventGranted)
}

// A vote decides as soon as its voter has applied the newest version, without a further message of
// another voter.
func TestAVoteDecidesWhenItsVoterIsBehindNoMore(t *testing.T) {
	f, n := staysBehind(t)
	f.slot(n, 1, "a b")
	f.q.Unlink(f.now, connOf("a"))
	f.slot(n, 2, "d")
	f.q.Unlink(f.now, connOf("b"))
	f.q.Unlink(f.now, connOf("d"))
	f.goes["c"] = 0
	f.q.AckEpoch(f.now, connOf("c"), 3)
	f.want(n, EventNone)
	f.ack("c")
	f.want(n, EventGranted)
}

// A vote under the previous version decides a slot while this version counts, even if the voter is
// out of reach.
func TestASlotIsDecidedUnderTheVersionBefore(t *testing.T) {
	f := follow(t, "1: a b c")
	n := f.permit()
	f.pass(maxHedgeDelay)
	f.slot(n, 1, "b")
	f.q.Unlink(f.now, connOf("b"))
	f.goes["a"] = 1
	f.reconfigureTo("2: a b c d e (a b c)")
	f.slot(n, 1, "a")
	f.want(n, EventGranted)
}
