package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// lapsing is shortly before the version before is forgotten. All go by the newest one already, so nothing that the voters acknowledge counts under the old one any more, and what they
// acknowledged last covers a lease for the time left.
func lapsing(t *testing.T, left time.Duration) (f *follower, n vote.Number) {
	f = follow(t, "1: a b c")
	f.pass(ttl / vote.RefreshesPerTTL)
	f.goes["a"], f.goes["b"], f.goes["c"] = 1, 1, 1
	f.reelect("2: a b c d e (a b c)")
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

// A lease that is won under the version before lasts at most as long as that counts. Won in its last moment it would be lost as it is granted, though the
// votes that make it one of the newest version are on their way. (Found by TestTheElectorateFollowsTheLiving of internal/proctest.)
func TestALeaseIsNotWonInTheLastMomentOfTheVersionBefore(t *testing.T) {
	f, n := lapsing(t, ttl/100)
	f.promise(n, "a c")
	f.want(n, EventNone)
	f.promise(n, "d")
	f.want(n, EventGranted)
	f.pass(ttl / 2)
	f.want(n, EventGranted)
}

// While there is time the old majority is enough.
func TestALeaseIsWonUnderTheVersionBeforeWhileThatCounts(t *testing.T) {
	f, n := lapsing(t, ttl/vote.RefreshesPerTTL+1)
	f.promise(n, "a c")
	f.want(n, EventGranted)
}

// A lease with a length of its own is extended more often, so it needs less.
func TestAShortLeaseIsWonUnderTheVersionBefore(t *testing.T) {
	const length = ttl / vote.RefreshesPerTTL / 2
	f := follow(t, "1: a b c")
	n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: length}})
	if err != nil {
		t.Fatal(err)
	}
	f.promise(n, "a b")
	f.goes["a"], f.goes["b"] = 1, 1
	f.reelect("2: a b c d e (a b c)")
	f.now.Fast++
	for _, v := range []string{"a", "b"} {
		f.say(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[f.peer(v).place].serial, Sent: f.now.Fast - 1})
	}
	f.want(n, EventGranted)
}
