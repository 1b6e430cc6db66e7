package proctest

import (
	"testing"
	"time"
)

// A node that leaves releases its leases at once, so waiters on other nodes needn't wait for the
// leases to end by time.
func TestAGoodbyeServesTheWaitersAtOnce(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc, "-max-ttl", "10s") // so a lease that isn't released ends far later
	a, b, c := m.procs["a"], m.procs["b"], m.procs["c"]
	first, second := a.lock("first"), a.lock("second")
	b.queued("first")
	c.queued("second")
	told, ends := a.tell("leave"), a.lastDeadline(first.Token)
	for _, next := range []struct {
		at     *process
		before line
	}{{b, first}, {c, second}} {
		granted := next.at.awaitEvent("granted", next.before.Key)
		larger(t, granted, next.before)
		if !granted.At.Before(ends) {
			t.Errorf("a waiter for %q was served only when the lease had ended by itself", granted.Key)
		}
		report(t, "a waiter is served, since the goodbye was asked for", granted.At.Sub(told), 100*time.Millisecond)
	}
	a.reached("left")
	if code := a.exitCode(); code != 0 {
		t.Errorf("a node that left ends with code %d, want 0", code)
	}
	b.none("lost")
	c.none("lost")
}
