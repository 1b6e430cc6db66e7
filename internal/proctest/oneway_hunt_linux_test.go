//go:build hunt

package proctest

import (
	"strings"
	"testing"
	"time"
)

// A holder is cut off in a single direction, to or from all voters or a majority of the voters:
// either it can send and can't receive, or it can receive and can't send. In each case the lease
// ends by time, as after a crash, and a waiter has the key soon after and not before, whatever TCP
// and gossip believe. How soon is only reported here, since a busy machine takes longer;
// TestFault69AHolderIsCutOffInAnyDirection of package sim asserts the simulated time for the same
// cuts.
func TestAOneWayCutFreesTheKeyAfterTheTTL(t *testing.T) {
	t.Parallel()
	const a, b, c, d = 1, 2, 3, 4 // d doesn't vote
	for _, s := range []struct {
		name string
		cut  []way
	}{
		{"heard and deaf", []way{{b, d}, {c, d}, {a, d}}},
		{"mute and hearing", []way{{d, b}, {d, c}, {d, a}}},
		{"deaf towards a majority", []way{{b, d}, {c, d}}},
		{"mute towards a majority", []way{{d, b}, {d, c}}},
		{"deaf towards one and mute towards another", []way{{b, d}, {d, c}}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := newNetwork(t)
			args := []string{"-voters", strings.Join(abc, ","), "-peers", addresses(3), "-max-ttl", ttl.String()}
			procs := map[string]*process{"a": h.launch(a, "a", args...), "b": h.launch(b, "b", args...), "c": h.launch(c, "c", args...), "d": h.launch(d, "d", args...)}
			for _, p := range procs {
				p.reached("ready")
			}
			holder, waiter := procs["d"], procs["a"]
			held := holder.lock("k")
			waiter.queued("k")
			holder.renewed("k", 2)

			at := time.Now()
			h.cut(s.cut...)
			lost := holder.awaitEvent("lost", "k")
			granted := waiter.awaitEvent("granted", "k")
			larger(t, granted, held)
			notBefore(t, granted, holder.lastDeadline(held.Token), "the holder's lease had not ended")
			// Two processes read the same clock, and print a little later.
			if granted.At.Before(lost.At.Add(-ttl / 10)) {
				t.Errorf("the next was granted the key %v before the holder knew", lost.At.Sub(granted.At))
			}
			report(t, "the key is granted again, since the cut", granted.At.Sub(at), ttl+ttl/4)

			h.heal()
			for _, name := range abc { // before, a TryLock would report that no majority answers
				holder.awaitVoter(name, "reachable")
			}
			holder.queued("k")
			waiter.tell("unlock k")
			larger(t, holder.awaitEvent("granted", "k"), granted)
			waiter.none("lost")
		})
	}
}

// A holder keeps its lease if a single voter of three can't receive from the holder, or can't send
// to the holder.
func TestAOneWayCutToOneVoterHarmsNoLease(t *testing.T) {
	t.Parallel()
	const a, b, c, d = 1, 2, 3, 4
	for _, s := range []struct {
		name string
		cut  way
	}{{"deaf", way{b, d}}, {"mute", way{d, b}}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := newNetwork(t)
			args := []string{"-voters", strings.Join(abc, ","), "-peers", addresses(3), "-max-ttl", ttl.String()}
			procs := map[string]*process{"a": h.launch(a, "a", args...), "b": h.launch(b, "b", args...), "c": h.launch(c, "c", args...), "d": h.launch(d, "d", args...)}
			for _, p := range procs {
				p.reached("ready")
			}
			held := procs["d"].lock("k")
			h.cut(s.cut)
			procs["d"].awaitVoter("b", "unreachable")
			procs["d"].renewed("k", 10)
			procs["a"].queued("k")
			procs["d"].tell("unlock k")
			procs["d"].awaitEvent("released", "k")
			larger(t, procs["a"].awaitEvent("granted", "k"), held)
			procs["d"].none("lost")
		})
	}
}
