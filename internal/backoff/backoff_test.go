package backoff

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToTheirBound(t *testing.T) {
	b := Backoff{Least: 100 * time.Millisecond, Most: time.Second}
	for round := range 100 {
		for _, ms := range []int{100, 200, 400, 800, 1000, 1000} {
			full := time.Duration(ms) * time.Millisecond
			if d := b.Pause(); d < full/2 || d > full {
				t.Fatalf("round %d: %v, want %v to %v", round, d, full/2, full)
			}
		}
		b.Reset()
	}
}
