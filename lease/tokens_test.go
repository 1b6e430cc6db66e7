package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Of three voters both others must report their tokens before a restarted voter counts. An answer
// to a query of an earlier incarnation, an answer from the voter itself and an answer from a node
// without a vote don't count.
func TestOnlyOtherVotersAnswersToThisIncarnationCount(t *testing.T) {
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

// A quiet voter records a lease with an absurd token from a sync. When the voter knows the highest
// tokens, the voter drops the lease, and remembers the token as doubted, to ask again should other
// voters confirm the token.
func TestAnAbsurdTokenSyncedWhileQuietIsDoubtedAfterwards(t *testing.T) {
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
