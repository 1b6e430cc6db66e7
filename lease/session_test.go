package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// A session longer than the maximum TTL would outlast the startup quarantine of a restarted voter;
// a very short session would be lost between two refreshes.
func TestASessionOutsideOfTheLimitsIsRefused(t *testing.T) {
	for _, ttl := range []string{"199ms", "1001ms"} {
		c := newTalk()
		c.all(t, "awake 3")
		wants(t, c.said(t, "a opens ttl="+ttl), "a: refused", vote.ReasonTTL.String())
		if n := c.v.Size().Sessions; n != 0 {
			t.Errorf("ttl=%s: %d sessions", ttl, n)
		}
	}
	for _, ttl := range []string{"200ms", "1s"} {
		c := newTalk()
		c.all(t, "awake 3")
		wants(t, c.said(t, "a opens ttl="+ttl), "a: answer")
	}
}

// A key, with its highest token, is remembered until the key has been unused for S (vote.Skew).
func TestAKeyThatIsUsedAgainRestsAnew(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "a releases 1")
	half := vote.Skew / 2
	c.all(t, "pass "+half.String(), "a opens", "a asks 2:k at=20", "a releases 2")
	c.all(t, "pass "+(half+100*time.Millisecond).String())
	if c.v.Keys() != 1 {
		t.Error("the key was forgotten half of S after it was used")
	}
	c.all(t, "pass "+half.String())
	if c.v.Keys() != 0 {
		t.Error("the key was never forgotten")
	}
}

// Before its sync the contents of a session are unknown, so the voter may extend no part of the
// session.
func TestARefreshBeforeTheSyncExtendsNothing(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens")
	deadline := c.now.Slow.Add(time.Second)
	c.all(t, "a asks 1:k at=10", "pass 900ms")
	conn, from := vote.Conn(1), vote.SessionID{Node: "a", Incarnation: 1}
	c.buf.Reset()
	for _, m := range []vote.Message{
		{Kind: vote.KindOpen, Stream: 2, TTL: time.Second},
		{Kind: vote.KindRefresh, Stream: 2},
	} {
		c.hear(c.v.Step(c.now, conn, from, &m, nil))
	}
	if strings.Contains(c.buf.String(), "ack") {
		t.Errorf("a refresh was acknowledged before the sync:\n%s", c.buf.String())
	}
	if d := c.v.Votes("k")[0].Deadline; d != deadline {
		t.Errorf("the deadline moved to %v", d)
	}
}

// The voter keeps a digest of each session, for comparison with the requester's digest. A vote that
// outlived its session and was reclaimed is part of the digest.
func TestAReclaimedVoteIsPartOfTheDigest(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "a asks 1:k at=10 length=900ms",
		"a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won", "a breaks", "pass 300ms")
	wants(t, c.said(t, "a syncs 1:k:won=2000001:length=900ms"), "[1 serial=1 token=2000001]")
	want := vote.Digest{}.Plus(vote.DigestOfRequest(1)).Plus(vote.DigestOfVote(1))
	if got := c.v.sessions.byID[vote.SessionID{Node: "a", Incarnation: 1}].digest; got != want {
		t.Errorf("the voter keeps %+v for the session, want %+v", got, want)
	}
}

// A stream with unacknowledged pushes is closed after half a TTL, even if the session has no other
// timer before its deadline.
func TestAPushWithoutReceiptClosesTheStream(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "pass 100ms", "a refreshes received=0", "pass 100ms")
	wants(t, c.said(t, "a asks 1:k at=10"), "a: promise 1")
	if said := c.said(t, "pass 490ms"); strings.Contains(said, "connection closed") {
		t.Fatalf("closed before half a TTL was over:\n%s", said)
	}
	wants(t, c.said(t, "pass 20ms"), "a: connection closed")
}

// The demotion of requests is undone once; then the session forgets the demoted requests.
func TestASessionWithItsRoundsResetRemembersNothing(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10", "b asks 1:k at=20", "pass 400ms",
		"a refreshes received=1", "b refreshes received=0", "a yields 1 serial=1")
	s := c.v.sessions.byID[vote.SessionID{Node: "a", Incarnation: 1}]
	if len(s.demoted) == 0 {
		t.Fatal("a had its proposal timeout, and isn't passed over")
	}
	c.all(t, "a refreshes received=1 trip=1")
	if len(s.demoted) != 0 {
		t.Errorf("%d requests count as passed over after their rounds were reset", len(s.demoted))
	}
}

// The number of remembered events for watches is bounded.
func TestEventsAreRememberedUpToABound(t *testing.T) {
	sampled.Computes(t)
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a watches 9:other")
	for n := vote.Number(1); len(c.v.news.ring) < newsMax; n++ {
		c.hear(c.v.Step(c.now, 1, vote.SessionID{Node: "a", Incarnation: 1}, &vote.Message{
			Kind: vote.KindRequest, Stream: c.streams["a"], Number: n,
			Spec: vote.Spec{Key: "k", Mode: vote.Exclusive},
		}, nil))
		if n > 2*newsMax {
			t.Fatalf("%d events of %d requests", len(c.v.news.ring), n)
		}
	}
	c.all(t, "a asks 99999:k at=10")
	if n := len(c.v.news.ring); n > newsMax {
		t.Errorf("%d events are remembered, at most %d should be", n, newsMax)
	}
}

// The sorted names of all keys are kept for queries by prefix, until a maximum TTL after the last
// query.
func TestTheCatalogIsGivenUpInTime(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "b queries 7:k*")
	if c.v.keys.catalog.state == catalogNone {
		t.Fatal("a look by prefix needs the names in order")
	}
	c.all(t, "pass 1s")
	if c.v.keys.catalog.state != catalogNone {
		t.Error("nobody has looked for a maximum TTL, and the names are kept in order")
	}
}

// An owner that doesn't name the newest answer received is taken to receive all answers: no answer
// of the session is in doubt.
func TestARefreshThatSaysNothingOfWhatWasHeardLeavesNoDoubt(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "pass 100ms", "a refreshes received=0")
	if h := c.v.sessions.byID[vote.SessionID{Node: "a", Incarnation: 1}].receipts; h.open {
		t.Errorf("%+v", h)
	}
}

// A session has one connection at a time. The voter closes the earlier connection, since its end
// would be taken for the end of the session's link.
func TestANewConnectionOfASessionClosesTheOneBefore(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens")
	c.buf.Reset()
	c.hear(c.v.Step(c.now, 2, vote.SessionID{Node: "a", Incarnation: 1}, &vote.Message{
		Kind: vote.KindOpen, Stream: c.streams["a"] + 1, TTL: time.Second, Sent: c.now.Fast,
	}, nil))
	wants(t, c.buf.String(), "a: connection closed") // connection 1; connection 2 would be b
}
