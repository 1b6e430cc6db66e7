package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
)

// TestNodesMeasureTheRatesOfClocks: of clocks that run at different rates, as in production.
func TestNodesMeasureTheRatesOfClocks(t *testing.T) {
	ppm := []int64{300, -200, 0}
	s := stage(t, Options{Voters: 3, Clocks: Clocks{PPM: ppm}})
	s.Run(20 * time.Minute)
	for i, h := range s.hosts {
		for j, v := range h.p.m.(*node.Node).Voters(h.p.read(s.now)) {
			want := ppm[j] - ppm[i]
			if d := v.ClockRate - want; d < -5 || d > 5 {
				t.Errorf("at %s the clock of %s is faster by %d ppm, want %d", h.name, v.Name, v.ClockRate, want)
			}
		}
	}
}
