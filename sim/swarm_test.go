package sim

import (
	"bytes"
	"testing"
	"time"
)

// TestSwarm runs seeds with all faults. Its figures are printed at the end.
func TestSwarm(t *testing.T) {
	var tally Tally
	length := Length(t, 30*time.Second)
	t.Run("runs", func(t *testing.T) {
		EachSeed(t, 24, func(t *testing.T, seed uint64) {
			start := time.Now()
			o := Draw(seed)
			o.Trace = TraceFile(t)
			w := New(o)
			w.Run(length)
			if err := w.Settle(); err != nil {
				t.Errorf("%v\nto shrink it: %s", err, ShrinkCommand(seed, 0, length))
			}
			tally.Add(w.Figures(), time.Since(start))
		})
	})
	t.Logf("figures\n%s", tally.String())
}

func traced(seed uint64, length time.Duration) (string, uint64) {
	var b bytes.Buffer
	o := Draw(seed)
	o.Trace = &b
	w := New(o)
	w.Run(length)
	_ = w.Settle()
	return b.String(), w.Hash()
}

func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	EachSeed(t, 3, func(t *testing.T, seed uint64) {
		a, x := traced(seed, 10*time.Second)
		b, y := traced(seed, 10*time.Second)
		if a != b || x != y {
			t.Fatalf("two runs of one seed differ: %d and %d bytes, digests %x and %x", len(a), len(b), x, y)
		}
		if c, z := traced(seed+1, 10*time.Second); a == c || x == z {
			t.Fatal("two seeds give one trace")
		}
		if len(a) < 10000 {
			t.Fatalf("the trace has only %d bytes", len(a))
		}
	})
}
