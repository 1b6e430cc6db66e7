package node

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// envKeys sets the number of keys; make soak uses millions.
const envKeys = "LOCKMESH_KEYS"

// Row 50 of the list of faults: after all keys are released, memory returns to its earlier size.
func TestKeysUsedOnceLeaveNothing(t *testing.T) {
	sampled.Computes(t)
	keys := 50_000
	if text := os.Getenv(envKeys); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 50_000 {
			t.Fatalf("%s=%q: it must be a whole number of at least 50000", envKeys, text)
		}
		keys = n
	}
	const together = 1000
	m := awake(t, 3)
	used := func() uint64 {
		m.talk = nil
		clear(m.events)
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before, most := used(), 0
	for i := 0; i < keys; i += together {
		name := m.names[i/together%len(m.names)]
		numbers := make([]vote.Number, together)
		for j := range numbers {
			n, err := m.nodes[name].Lock(m.now, quorum.Exclusive(vote.Key(fmt.Sprintf("key %d", i+j)), false))
			if err != nil {
				t.Fatal(err)
			}
			numbers[j] = n
		}
		m.run()
		granted := 0
		for _, e := range m.events[name] {
			if e.Kind == quorum.EventGranted {
				granted++
			}
		}
		if granted != together {
			t.Fatalf("%d of %d keys are granted", granted, together)
		}
		for _, n := range numbers {
			m.nodes[name].Release(m.now, n)
		}
		m.run()
		most = max(most, m.nodes["a"].Voter().Keys())
		m.talk, m.events[name] = m.talk[:0], nil
		m.pass(vote.Skew / 20)
	}
	m.pass(3 * vote.Skew)
	for _, name := range m.names {
		if s := m.nodes[name].Voter().Size(); s.Keys != 0 || s.Requests != 0 {
			t.Errorf("%s keeps %+v", name, s)
		}
		if n := m.nodes[name].Requester().Open(); n != 0 {
			t.Errorf("%s keeps %d requests", name, n)
		}
	}
	if most < together || most > keys/2 {
		t.Errorf("at most %d keys were kept at once: keys are forgotten too soon or too late", most)
	}
	// Maps and slices keep room for the keys of about a second.
	if after := used(); after > before+32<<20 {
		t.Errorf("%d bytes are in use, and were %d before", after, before)
	}
}
