package sim

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// drawFaulty draws the world of the first seed with faults among seed, seed+1000000, …
func drawFaulty(seed uint64) Options {
	for {
		if o := Draw(seed); o.Faults.Every > 0 {
			return o
		}
		seed += 1_000_000
	}
}

// TestARecordedRunReplays runs a world again with the acts of the first run given instead of drawn.
func TestARecordedRunReplays(t *testing.T) {
	eachSeed(t, 6, func(t *testing.T, seed uint64) {
		o := drawFaulty(seed)
		drawn := New(o)
		drawn.Run(10 * time.Second)
		_ = drawn.Settle()
		o.Acts = drawn.Acts()
		o.Faults = Faults{}
		slices.Reverse(o.Acts) // their order doesn't matter
		given := New(o)
		given.Run(10 * time.Second)
		_ = given.Settle()
		if drawn.Hash() != given.Hash() || drawn.Figures() != given.Figures() {
			t.Errorf("the run with the acts given differs from the one that drew them: digests %x and %x", given.Hash(), drawn.Hash())
		}
		if len(drawn.Acts()) == 0 || !reflect.DeepEqual(drawn.Acts(), given.Acts()) {
			t.Errorf("%d acts were drawn, %d done", len(drawn.Acts()), len(given.Acts()))
		}
	})
}

// TestActsAreDrawnByThemselves shows that the drawn acts don't depend on the load and the network
// of a world.
func TestActsAreDrawnByThemselves(t *testing.T) {
	var acts [2][]Act
	for i := range acts {
		o := drawFaulty(3)
		o.Faults.Every = time.Second
		o.Load.Clients, o.Net.Jitter = 3*i, 10+40*i
		w := New(o)
		w.Run(20 * time.Second)
		acts[i] = w.Acts()
	}
	if len(acts[0]) < 3 || !reflect.DeepEqual(acts[0], acts[1]) {
		t.Errorf("the acts differ:\n%+v\n%+v", acts[0], acts[1])
	}
}

// TestOnlyWhatDidHarmCounts shows that an act counts as fired once if the act has a victim, and
// never without.
func TestOnlyWhatDidHarmCounts(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	w := New(Options{Clients: 1, Clocks: Clocks{Exact: true}, TokensOnly: true, Load: Load{Clients: 1, Think: time.Millisecond, Forever: 100}})
	w.Script.PowerOff("c")
	w.Run(time.Second)
	some, none := []string{"c"}, []string{"z"}
	for f := range fault.Kinds {
		for _, a := range []Act{
			{Fault: f}, {Fault: f, Hosts: none, Far: none, By: 1, PPM: 1}, {Fault: f, Hosts: none, Far: some, By: 1}, {Fault: f, Hosts: some, Far: none},
		} {
			w.faults.Do(a)
		}
	}
	if got := w.Figures().Fired; got != [fault.Kinds]uint64{} {
		t.Errorf("fired: %v", got)
	}
	w.Script.Start("c")
	w.Run(time.Second)
	for f := range fault.Dynamic {
		a := Act{Fault: f, Hosts: []string{"x1"}, Far: []string{"a", "b"}, For: time.Millisecond, By: time.Millisecond, PPM: 1234 + int64(f)}
		tries := uint64(1)
		switch f {
		case fault.Ring:
			a.Hosts = []string{"x1", "a", "b", "c"}
		case fault.Full, fault.Refuse, fault.Gossip, fault.Ambush: // fire with some values of Seed
			a.For, tries = 100*time.Millisecond, 20
		}
		for ; a.Seed < tries && w.Figures().Fired[f] == 0; a.Seed++ {
			w.faults.Do(a)
			w.Run(2 * time.Second)
		}
		if w.Figures().Fired[f] != 1 {
			t.Errorf("%v fired %d times", f, w.Figures().Fired[f])
		}
	}
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}

func TestFaultsHaveNames(t *testing.T) {
	for f := range fault.Kinds {
		if f.String() == "" || f.GoName() == "" {
			t.Errorf("fault %d has the names %q and %q", f, f, f.GoName())
		}
	}
}

// TestARunWithItsRequestsGivenIsTheSame runs a world again with the requests and acts of the first
// run given instead of drawn.
func TestARunWithItsRequestsGivenIsTheSame(t *testing.T) {
	eachSeed(t, 8, func(t *testing.T, seed uint64) {
		var traces [2]bytes.Buffer
		o := Draw(seed)
		for i := range traces {
			o.Trace = &traces[i]
			w := New(o)
			w.Run(20 * time.Second)
			_ = w.Settle()
			if n := len(w.Asks()); n < 10 {
				t.Errorf("only %d requests", n)
			}
			o.Load = Load{Keys: o.Load.Keys, Asks: w.Asks()}
			o.Acts = w.Acts()
		}
		if traces[0].String() != traces[1].String() {
			t.Error("the run with the requests given differs from the one that drew them")
		}
	})
}
