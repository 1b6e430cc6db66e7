package lease

import (
	"strings"
	"testing"
	"time"
)

// A voter that is held back keeps its sessions and promises nothing, however long; the voter asks
// for tokens only after the hold is lifted.
func TestAVoterThatIsHeldBackPromisesNothing(t *testing.T) {
	c := newTalk()
	c.all(t, "start 3")
	c.v.Hold(c.now, true, nil)
	c.all(t, "a opens", "a asks 1:k at=10")
	c.pass(5 * time.Second)
	c.all(t, "a refreshes")
	if strings.Contains(c.buf.String(), "promise") || c.v.Counting() || c.v.Quiet() == 0 || c.v.quiet.asking {
		t.Fatalf("counting %v, quiet %v, asking %v:\n%s", c.v.Counting(), c.v.Quiet(), c.v.quiet.asking, c.buf.String())
	}
	c.v.Hold(c.now, false, nil)
	if !c.v.quiet.asking {
		t.Error("it doesn't ask for tokens")
	}
}

// A voter that gives way notifies every session, forgets all sessions, refuses new sessions, and
// counts again only after a maximum TTL.
func TestAVoterThatGivesWay(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "b opens", "b asks 1:k at=20")
	c.buf.Reset()
	out := c.v.GiveWay(c.now, nil)
	if len(out) != 2 || out[0].Message.Reason != out[1].Message.Reason || !strings.Contains(out[0].Message.Reason.String(), "the voter withdrew") {
		t.Errorf("it says %+v", out)
	}
	if s := c.v.Size(); s.Sessions != 0 || s.Requests != 0 {
		t.Errorf("it keeps %+v", s)
	}
	c.all(t, "a opens")
	if !strings.Contains(c.buf.String(), "the voter withdrew") || c.v.Size().Sessions != 0 {
		t.Errorf("a session is taken:\n%s", c.buf.String())
	}
	c.v.Hold(c.now, false, nil)
	if c.v.Counting() || c.v.quiet.asking {
		t.Error("it counts while leases that it was asked for may stand")
	}
}
