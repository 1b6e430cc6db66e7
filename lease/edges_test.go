package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// Of three voters both others must report their tokens before a restarted voter counts. An answer
// to a query of an earlier incarnation, an answer from the voter itself and an answer from a node
// without a vote don't count.
func TestOnlyTheOthersAnswersToThisLifesQuestionCount(t *testing.T) {
	tell := func(c *talk, from vote.NodeID, nonce uint64) {
		c.hear(c.v.ReceiveTokenAnswer(c.now, from, &vote.Message{Kind: vote.KindTokenAnswer, Nonce: nonce, Counting: true}, nil))
	}
	for _, row := range []struct {
		name   string
		from   vote.NodeID
		nonce  uint64
		counts bool
	}{
		{"the second of the others answers", "v2", 9, true},
		{"the first answers again", "v1", 9, false},
		{"the second answers the question of an earlier life", "v2", 8, false},
		{"the voter hears its own word", "v0", 9, false},
		{"a node answers that doesn't vote", "x", 9, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newTalk()
			c.all(t, "start 3", "pass 1s")
			tell(c, "v1", 9)
			if c.v.Quiet() == 0 {
				t.Fatal("it counts with one answer of two")
			}
			tell(c, row.from, row.nonce)
			if got := c.v.Quiet() == 0; got != row.counts {
				t.Errorf("counts: %v, want %v", got, row.counts)
			}
		})
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
func TestARefreshBeforeTheStatementExtendsNothing(t *testing.T) {
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
func TestAVoteThatIsTakenUpAgainIsPartOfTheDigest(t *testing.T) {
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

// A voter doesn't wait for the answer of a node without a vote, and ignores the tokens in such an
// answer.
func TestOnlyVotersTellHowHighTokensStand(t *testing.T) {
	c := newTalk()
	c.all(t, "start 3", "pass 1s")
	tell := func(from vote.NodeID, top vote.Token) {
		c.hear(c.v.ReceiveTokenAnswer(c.now, from, &vote.Message{
			Kind: vote.KindTokenAnswer, Nonce: 9, Counting: true, Token: top,
		}, nil))
	}
	tell("x", 9_000_000)
	tell("v0", 9_000_000)
	tell("v1", 5_000_000)
	tell("v2", 4_000_000)
	if c.v.Quiet() != 0 {
		t.Fatal("it is quiet, though both others have answered")
	}
	if top, _ := c.v.Top(); top != 5_000_000 {
		t.Errorf("the highest token is %d, want that of the voters, 5000000", top)
	}
}

// When a session ends, the tokens of its readers must not be won again beside the remaining
// readers: a resource couldn't tell the two leases apart.
func TestTheTokenOfAReaderWhoseSessionEndedIsNotWonAgainBesideOthers(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "b opens", "c opens",
		"a asks 1:k at=10 shared", "b asks 1:k at=20 shared", "c asks 1:k at=30 shared",
		"a confirms 1 serial=1 token=5000000 won", "pass 300ms")
	if n := len(c.v.Votes("k")); n != 2 {
		t.Fatalf("%d votes; a's session should be over, and b and c have one each", n)
	}
	said := c.said(t, "c confirms 1 serial=3 token=5000000")
	wants(t, said, "c: confirmed 1")
	if strings.Contains(said, "token=5000000") {
		t.Errorf("c has the token that a had:\n%s", said)
	}
	c.all(t, "pass 2s", "c opens", "c asks 2:k at=40 shared")
	if ended := c.v.keys.find("k").endedShared; ended != nil && len(*ended) > 0 {
		t.Errorf("no reader is left of those days, and their tokens are remembered: %d", *ended)
	}
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

// A holder that yields its vote has no lease any more. If the holder wins the key again, this is a
// new lease, with a token larger than the tokens granted in between.
func TestALeaseThatItsOwnerYieldsIsOver(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10", "a confirms 1 serial=1 token=2000001 won",
		"b asks 1:k at=5", "a yields 1 serial=1")
	votes := c.v.Votes("k")
	if len(votes) != 1 || votes[0].Owner.Node != "b" {
		t.Fatalf("b is the oldest, and has no vote: %+v", votes)
	}
	between := votes[0].Token
	c.all(t, "b releases 1")
	if votes = c.v.Votes("k"); len(votes) != 1 || votes[0].Owner.Node != "a" || votes[0].Token <= between {
		t.Errorf("a has %+v, want a vote with a token above %d", votes, between)
	}
}

// The number of remembered events for watches is bounded.
func TestEventsAreRememberedUpToABound(t *testing.T) {
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

// When the sessions of all readers are over, the voter forgets the readers' tokens, since the
// minimum token covers the tokens.
func TestTheTokensOfReadersAreForgottenWithTheLastOfThem(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "b opens ttl=200ms",
		"a asks 1:k at=10 shared", "b asks 1:k at=20 shared", "pass 300ms")
	k := c.v.keys.find("k")
	if k == nil || len(c.v.Votes("k")) != 0 {
		t.Fatal("both sessions are over, and the key has votes, or is forgotten already")
	}
	if k.endedShared != nil && len(*k.endedShared) != 0 {
		t.Errorf("nobody reads, and %d tokens are remembered", *k.endedShared)
	}
}

// A watch receives an event about a request that waits again after a yield.
func TestARequestThatYieldsIsSeenToWait(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10", "b asks 1:k at=5", "c opens", "c watches 9:k")
	seq := c.v.news.seq
	c.all(t, "a yields 1 serial=1")
	for _, s := range c.v.news.ring[len(c.v.news.ring)-int(c.v.news.seq-seq):] {
		if s.State == vote.Waiting && s.Owner.Node == "a" {
			return
		}
	}
	t.Errorf("of the events since, none says that a waits:\n%s", c.buf.String())
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

// A quiet voter records a lease with an absurd token from a sync. When the voter knows the highest
// tokens, the voter drops the lease, and remembers the token as doubted, to ask again should other
// voters confirm the token.
func TestAnAbsurdTokenStatedWhileQuietIsDoubtedAfterwards(t *testing.T) {
	c := newTalk()
	absurd := vote.MaxToken / 2
	c.all(t, "start 3", fmt.Sprintf("a syncs 1:k:won=%d", absurd), "pass 900ms",
		"a syncs 1:k", fmt.Sprintf("a syncs 1:k:won=%d", absurd), "pass 100ms",
		"v1 tells 1000000", "v2 tells 1000000")
	if c.v.Quiet() != 0 {
		t.Fatal("it is quiet, though both others have answered")
	}
	s := c.v.sessions.byID[vote.SessionID{Node: "a", Incarnation: 1}]
	if s == nil || s.doubted != absurd {
		t.Fatalf("it doesn't remember that it doubts a's token: %+v", s)
	}
	for _, vt := range c.v.Votes("k") {
		if vt.Held || vt.Token >= absurd {
			t.Errorf("it takes the token: %+v", vt)
		}
	}
}

// A voter that gave way is quiet anew, and votes that outlast their session stand. An absurd token
// from the owner of such a vote, in a confirmation or in a sync, doesn't change the vote: an entry
// with a vote and a place in the queue would get a second vote when the startup quarantine is over.
func TestAnAbsurdTokenMovesNoVoteThatOutlastedGivingWay(t *testing.T) {
	absurd := vote.MaxToken / 2
	for name, lines := range map[string][]string{
		"it confirms it": {
			"a syncs 1:k:won=2000001:length=900ms",
			fmt.Sprintf("a confirms 1 serial=1 token=%d won", absurd),
		},
		"it syncs it": {
			fmt.Sprintf("a syncs 1:k:won=%d:length=900ms", absurd),
		},
		"it syncs it again": {
			"a syncs 1:k:won=2000001:length=900ms",
			fmt.Sprintf("a syncs 1:k:won=%d:length=900ms", absurd),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTalk()
			c.all(t, "awake 3", "a opens", "a asks 1:k at=10 length=900ms", "a extends 1 serial=1",
				"a confirms 1 serial=1 token=2000001 won")
			c.hear(c.v.GiveWay(c.now, nil))
			c.hear(c.v.Hold(c.now, false, nil))
			once := func(when string) {
				t.Helper()
				k := c.v.keys.find("k")
				votes, waits := c.v.Votes("k"), len(k.queue.all())+len(k.answeredTries())
				if len(votes)+waits != 1 {
					t.Errorf("%s: one request has %d votes and %d places in the queue", when, len(votes), waits)
				}
				if len(votes) == 1 && votes[0].Token >= absurd {
					t.Errorf("%s: its vote has the token %d", when, votes[0].Token)
				}
			}
			c.all(t, lines...)
			if n := len(c.v.Votes("k")); n != 1 {
				t.Fatalf("%d votes, want the one that a had", n)
			}
			once("while quiet")
			c.all(t, "pass 800ms", "a extends 1 serial=1", "pass 200ms", "v1 tells 1000000", "v2 tells 1000000")
			if c.v.Quiet() != 0 {
				t.Fatal("it is quiet, though both others have answered")
			}
			once("afterwards")
			if said := c.buf.String(); strings.Contains(said, "at once") {
				t.Errorf("an invariant broke:\n%s", said)
			}
		})
	}
}

// A yield may be late: the requester has yielded the vote before, and has received a new vote
// since, perhaps the vote of a win.
func TestALateYieldMovesNoVote(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "a yields 1 serial=1", "a yields 1 serial=1")
	if votes := c.v.Votes("k"); len(votes) != 1 || votes[0].Serial != 2 {
		t.Errorf("the second vote was given back by the first one's yield: %+v", votes)
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
