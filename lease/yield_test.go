package lease

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

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

// A yield may be late: the requester has yielded the vote before, and has received a new vote
// since, perhaps the vote of a win.
func TestALateYieldMovesNoVote(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "a yields 1 serial=1", "a yields 1 serial=1")
	if votes := c.v.Votes("k"); len(votes) != 1 || votes[0].Serial != 2 {
		t.Errorf("the second vote was given back by the first one's yield: %+v", votes)
	}
}
