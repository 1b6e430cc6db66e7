package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// lapsing returns a dynamicBench shortly before the previous version of the electorate is
// forgotten, with the time left, and a pending request. All voters have applied the newest version,
// so no new acknowledgement counts under the previous version, and the last acknowledgements cover
// a lease for the time left.
func lapsing(t *testing.T, left time.Duration) (f *dynamicBench, n vote.Number) {
	f = follow(t, "1: a b c")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.goes["a"], f.goes["b"], f.goes["c"] = 1, 1, 1
	f.reconfigureTo("2: a b c d e (a b c)")
	f.ack("a b c")
	clear(f.goes)
	f.link("d e")
	until := f.q.deadline(nil, Set(0).With(f.peer("a").place).With(f.peer("c").place))
	for f.now.Fast < until.Add(-left) {
		f.pass(min(ttl/vote.RefreshesPerTTL, until.Sub(f.now.Fast)-left))
		f.ack("a b c d e")
	}
	return f, f.lock(false)
}

// A lease won under the previous version lasts at most as long as the previous version counts. A
// lease won in the last moment would be lost at once, though the votes that it needs under the
// newest version are on their way. (Found by TestTheElectorateChangesWithTheMembers of
// internal/proctest.)
func TestALeaseIsNotWonInTheLastMomentOfTheVersionBefore(t *testing.T) {
	f, n := lapsing(t, ttl/100)
	f.promise(n, "a c")
	f.want(n, EventNone)
	f.promise(n, "d")
	f.want(n, EventGranted)
	f.pass(ttl / 2)
	f.want(n, EventGranted)
}

// If enough time is left, the majority of the previous version is enough.
func TestALeaseIsWonUnderTheVersionBeforeWhileThatCounts(t *testing.T) {
	f, n := lapsing(t, ttl/vote.RefreshesPerTTL+1)
	f.promise(n, "a c")
	f.want(n, EventGranted)
}

// A lease with a length of its own is extended more often, so less time is enough.
func TestAShortLeaseIsWonUnderTheVersionBefore(t *testing.T) {
	const length = ttl / vote.RefreshesPerTTL / 2
	f := follow(t, "1: a b c")
	n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: length}})
	if err != nil {
		t.Fatal(err)
	}
	f.promise(n, "a b")
	f.goes["a"], f.goes["b"] = 1, 1
	f.reconfigureTo("2: a b c d e (a b c)")
	f.now.Fast++
	for _, v := range []string{"a", "b"} {
		f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[f.peer(v).place].serial, Sent: f.now.Fast - 1})
	}
	f.want(n, EventGranted)
}
