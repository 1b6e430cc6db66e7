package lease

import (
	"fmt"
	"testing"
)

// A request for a certain slot waits while the slot has a vote without a win. Once the slot is won,
// a vote for another slot tells the request so; else the request would wait for a lease while
// permits are free.
func TestARequestForAWonSlotGetsAnother(t *testing.T) {
	for _, crossed := range []bool{false, true} {
		c := newTalk()
		c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k permits=3 at=10 hint=100", "b asks 1:k permits=3 at=20 hint=200")
		votes := c.v.Votes("k")
		if len(votes) != 2 || votes[0].Slot == votes[1].Slot {
			t.Fatalf("%+v", votes)
		}
		c.all(t, fmt.Sprintf("b yields 1 serial=2 slot=%d", votes[0].Slot))
		if n := len(c.v.Votes("k")); n != 1 {
			t.Fatalf("%d votes while b wants a's slot", n)
		}
		serial := 1
		if crossed {
			serial = 7 // of a vote known to a from elsewhere
		}
		c.all(t, fmt.Sprintf("a confirms 1 serial=%d token=%d slot=%d won", serial, votes[0].Token, votes[0].Slot))
		now := c.v.Votes("k")
		if len(now) != 2 || now[1].Owner.Node != "b" || now[1].Slot == votes[0].Slot {
			t.Errorf("crossed %v: %+v", crossed, now)
		}
	}
}
