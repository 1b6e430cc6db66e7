package lease

import "testing"

// A lease missing in its node's sync wasn't released as far as the voter knows: the release is
// lost, or the node has forgotten the lease. So the lock-delay follows.
func TestALeaseThatASyncDoesNotListIsDelayed(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10 delay=800ms", "a confirms 1 serial=1 token=32 won", "b asks 1:k at=20")
	c.buf.Reset()
	c.all(t, "a syncs", "pass 700ms")
	if got := c.v.Counters().Promises; got != 1 {
		t.Fatalf("promised %d times while the delay lasts:\n%s", got, c.buf.String())
	}
	c.all(t, "b refreshes", "pass 200ms")
	if got := c.v.Counters().Promises; got != 2 {
		t.Fatalf("promised %d times once the delay is over:\n%s", got, c.buf.String())
	}
}
