package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// decided returns an electorate that has decided the maximum TTL d; old is the maximum TTL of the
// previous version, and zero unless the electorate is joint.
func decided(e string, d, old time.Duration) *vote.Electorate {
	v := version(e)
	v.MaxTTL, v.OldMaxTTL = d, old
	return v
}

// tuned returns a dynamicBench configured with a TTL of a second, under an electorate that has
// decided the maximum TTL d.
func tuned(t *testing.T, d time.Duration) *dynamicBench {
	f := follow(t, "6: a b c")
	f.reconfigure(decided("7: a b c", d, 0))
	f.q.forgetBefore()
	f.ack("a b c")
	return f
}

func (f *dynamicBench) reconfigure(e *vote.Electorate) {
	f.q.Reconfigure(f.now, e)
	f.drain()
}

// A node that is configured with a longer maximum TTL than it finds decided, or under which the
// maximum TTL is lowered, refreshes its sessions at once, since they end sooner than it has planned
// with. Until the answers are overdue, no voter counts as silent.
func TestSessionsAreRefreshedSoonerUnderAShorterMaxTTL(t *testing.T) {
	const short = ttl / 20
	f := follow(t, "6: a b c")
	f.ack("a b c")
	f.pass(2 * short) // within the interval of refreshes, and longer than a voter may be silent below
	for _, v := range []string{"a", "b", "c"} {
		f.sentTo(v)
	}
	f.reconfigure(decided("7: a b c", short, 0))
	f.pass(0)
	for _, v := range []string{"a", "b", "c"} {
		if got := f.sentTo(v); got != "refresh" {
			t.Errorf("%s is told %q", v, got)
		}
	}
	if next := f.q.Next(); next.Sub(f.now.Fast) > short/vote.RefreshesPerTTL {
		t.Errorf("the next refresh is planned %v later", next.Sub(f.now.Fast))
	}
	f.pass(short / 10)
	for _, s := range f.q.Voters(f.now) {
		if s.State != Reachable {
			t.Errorf("%+v", s)
		}
	}
}

// A refresh is under way when the maximum TTL falls: the voters have had no time to answer it yet.
func TestARefreshUnderWayIsAwaitedUnderAShorterMaxTTL(t *testing.T) {
	const short = ttl / 20
	f := follow(t, "6: a b c")
	f.ack("a b c")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.pass(time.Millisecond)
	f.reconfigure(decided("7: a b c", short, 0))
	f.pass(short / 10)
	for _, s := range f.q.Voters(f.now) {
		if s.State != Reachable {
			t.Errorf("%+v", s)
		}
	}
	f.pass(short)
	for _, s := range f.q.Voters(f.now) {
		if s.State == Reachable {
			t.Errorf("%s hasn't answered for a TTL: %+v", s.Name, s)
		}
	}
}

// TestARequesterCountsOnWhatIsGranted shows that an acknowledgement counts for the TTL granted by
// voters under the acknowledgement's version, which may be less than the requester's TTL.
func TestARequesterCountsOnWhatIsGranted(t *testing.T) {
	const short = ttl / 4
	type counted struct{ newest, before time.Duration }
	for _, c := range []struct {
		name         string
		first        time.Duration
		joint, final *vote.Electorate
		goes         uint64
		afterJoint   counted // of an acknowledgement under the previous version
		afterFinal   counted
	}{
		{
			"raised", short, decided("8: a b c (a b c)", 4*ttl, short), decided("9: a b c", 4*ttl, 0), 0,
			counted{0, short}, counted{0, short},
		},
		{
			"lowered", 4 * ttl, decided("8: a b c (a b c)", short, 4*ttl), decided("9: a b c", short, 0), 0,
			counted{0, ttl}, counted{0, short},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tuned(t, c.first)
			until := func(by uint64) (got counted) {
				f.goes["a"] = by
				p := f.peer("a")
				p.validity = validity{}
				f.pass(ttl / 50)
				f.q.refresh(p)
				f.drain()
				f.ack("a")
				left := func(i vote.Instant) time.Duration {
					if i == 0 {
						return 0
					}
					return i.Sub(f.now.Fast)
				}
				return counted{left(p.validity.newest), left(p.validity.before)}
			}
			want := func(by uint64, want counted) {
				t.Helper()
				valid := func(d time.Duration) time.Duration {
					if d == 0 {
						return 0
					}
					return vote.Validity(d)
				}
				if got := until(by); got != (counted{valid(want.newest), valid(want.before)}) {
					t.Errorf("acknowledged under version %d: for %+v, want the validity of %+v", by, got, want)
				}
			}
			want(7, counted{min(ttl, c.first), 0})
			f.reconfigure(c.joint)
			want(8, counted{short, 0}) // the smaller value
			want(7, c.afterJoint)
			f.reconfigure(c.final)
			want(9, counted{min(ttl, c.final.MaxTTL), 0})
			want(8, c.afterFinal)
		})
	}
}

// TestARequesterRefreshesAsOftenAsIsGranted demands five refreshes in the shortest time for which a
// voter may extend the session.
func TestARequesterRefreshesAsOftenAsIsGranted(t *testing.T) {
	f := tuned(t, ttl/4)
	for _, step := range []struct {
		e    *vote.Electorate
		want time.Duration
	}{
		{nil, ttl / 4},
		{decided("8: a b c (a b c)", 4*ttl, ttl/4), ttl / 4},
		{decided("9: a b c", 4*ttl, 0), ttl / 4}, // voters may still apply the previous version
		{nil, ttl},
		{decided("10: a b c (a b c)", ttl/2, 4*ttl), ttl / 2},
	} {
		if step.e != nil {
			f.reconfigure(step.e)
		} else {
			f.pass(2 * ttl)
		}
		if got := f.q.every(); got != step.want/vote.RefreshesPerTTL {
			t.Errorf("version %d: a refresh every %v, want five per %v", f.q.newest.version, got, step.want)
		}
	}
}

// TestALengthCountsForWhatIsGranted shows the same for the votes of a lease with a length of its
// own: the shorter the granted time, the more often the votes are extended.
func TestALengthCountsForWhatIsGranted(t *testing.T) {
	f := tuned(t, ttl/4)
	n, _ := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: ttl / 2}})
	f.promise(n, "a b")
	r := f.q.requests[n]
	extended := func(v string) {
		f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: r.votes[f.peer(v).place].serial, Sent: f.now.Fast})
	}
	extended("a")
	extended("b")
	f.want(n, EventGranted)
	want := vote.Validity(ttl/4) - vote.Margin(ttl/4)
	if got := r.group.until.Sub(f.now.Fast); got != want {
		t.Errorf("the lease lasts for %v, want %v", got, want)
	}
	if got := f.q.extendEvery(r); got != ttl/4/vote.RefreshesPerTTL {
		t.Errorf("extended every %v", got)
	}
}

// TestALeaseIsHandedOffByItsLongestSupport shows that supportedAt allows for the longest TTL that
// any electorate has granted: the result is never later than the last acknowledged refresh.
func TestALeaseIsHandedOffByItsLongestSupport(t *testing.T) {
	f := tuned(t, 4*ttl)
	n := f.held("a b")
	sent := f.now.Fast
	f.ack("a b c")
	f.pass(ttl / 10)
	f.reconfigure(decided("8: a b c (a b c)", ttl/2, 4*ttl))
	check := func() {
		t.Helper()
		if at := f.q.supportedAt(f.q.requests[n]); at > sent {
			t.Errorf("supported %v after the last acknowledgements were asked for", at.Sub(sent))
		}
	}
	check()
	// Voters that haven't received the change still grant the longer TTL, and the granted time
	// outlasts the previous electorate.
	f.goes["a"], f.goes["b"], f.goes["c"] = 7, 7, 7
	f.pass(ttl / 10)
	sent = f.now.Fast
	for _, p := range f.q.peers {
		f.q.refresh(p)
	}
	f.drain()
	f.ack("a b c")
	f.pass(f.q.lapsesAt.Sub(f.now.Fast))
	if f.q.before.Known() {
		t.Fatal("the electorate before counts yet")
	}
	check()
}

// TestAMinimumHoldIsKeptByTheDecidedQuietTime shows that a restarted voter is taken to be quiet for
// the decided maximum TTL and no longer.
func TestAMinimumHoldIsKeptByTheDecidedQuietTime(t *testing.T) {
	f := tuned(t, ttl/4)
	if got := f.q.maxTTL(); got != ttl/4 {
		t.Errorf("a restarted voter is taken to be quiet for %v", got)
	}
	f.reconfigure(decided("8: a b c (a b c)", 4*ttl, ttl/4))
	if got := f.q.maxTTL(); got != ttl/4 {
		t.Errorf("while it is raised, a restarted voter is taken to be quiet for %v", got)
	}
}

// TestAMinimumHoldIsGrantedWhileTheMaxTTLIsLowered shows that an acknowledgement counts for the
// quiet time under the electorate of the acknowledgement.
func TestAMinimumHoldIsGrantedWhileTheMaxTTLIsLowered(t *testing.T) {
	f := tuned(t, 4*ttl)
	f.reconfigure(decided("8: a b c (a b c)", ttl/2, 4*ttl))
	for range 9 {
		f.pass(ttl / 10)
		f.ack("a b c") // under the joint electorate
	}
	n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, MinHold: ttl / 5}})
	if err != nil {
		t.Fatal(err)
	}
	f.drain()
	f.promise(n, "a b c")
	f.pass(ttl / 100)
	for _, p := range f.q.peers {
		f.q.refresh(p)
	}
	f.drain()
	f.ack("a b c")
	f.want(n, EventGranted)
}
