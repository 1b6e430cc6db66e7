package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/sim/check"
)

// The maximum TTLs of the scenario below.
const (
	longTTL  = 10 * time.Second
	shortTTL = time.Second
)

// restartsOnceLowered lowers the maximum TTL while y holds a key, and cuts y off before y learns of
// the change. The voters of y's lease restart as soon as the change is over, are quiet for the new
// maximum TTL, and then grant the key to z. The result is z's request.
func restartsOnceLowered(w *World) *Request {
	w.founded()
	w.ChangeMaxTTL("a", shortTTL, 0)
	w.Run(longTTL + 3*time.Second) // until a counts again
	w.expect(w.Script.Lock("y", "k"), Granted, time.Second)
	w.ChangeMaxTTL("b", shortTTL, 0)
	joint := func() bool { return w.dynamic.newest > 0 && w.dynamic.decided[w.dynamic.newest].OldMaxTTL == longTTL }
	w.RunUntil(longTTL, joint)
	w.Script.Cut("y", "a", "b", "c")
	lowered := func() bool { e := w.dynamic.decided[w.dynamic.newest]; return !e.Joint() && e.MaxTTL == shortTTL }
	w.RunUntil(2*longTTL, func() bool {
		return lowered() && w.dynamic.Knows("a") == w.dynamic.newest && w.dynamic.Knows("c") == w.dynamic.newest
	})
	w.Run(50 * time.Millisecond) // until the change is on the disks of a and c
	w.Script.Restart("a")
	w.Script.Restart("c")
	z := w.Script.Lock("z", "k")
	w.Run(longTTL)
	return z
}

// TestALoweredMaxTTLIsDrainedForTheLonger shows that a change to a shorter maximum TTL needs the
// drain of the longer maximum TTL: with the shorter drain, two nodes hold a key.
func TestALoweredMaxTTLIsDrainedForTheLonger(t *testing.T) {
	run := func(build Builder) (*World, *Request) {
		w := New(Options{
			Names: []string{"a", "b", "c", "y", "z"}, Clients: 2, MaxTTL: longTTL, Build: build, Dynamic: &Dynamic{MaxVoters: 3, LeastTTL: shortTTL},
			Clocks: Clocks{Exact: true},
		})
		z := restartsOnceLowered(w)
		return w, z
	}
	if w, z := run(Genuine); w.Err() != nil || z.State != Granted {
		t.Errorf("with the drain of the longer: z's request is %v, %v", z.State, w.Err())
	}
	if w, _ := run(concludes(electorate.Drain(shortTTL))); w.Violation() == nil || w.Violation().Check != check.RuleExclusion {
		t.Errorf("with the drain of the shorter: %v", w.Violation())
	}
}
