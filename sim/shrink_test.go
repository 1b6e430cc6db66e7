package sim

import (
	"testing"
	"time"
)

func TestShrinkTmp(t *testing.T) {
	for _, m := range mutants {
		for seed := uint64(1); seed <= 6; seed++ {
			if m.run(seed, m.build) == nil {
				continue
			}
			o := Draw(seed)
			o.Build = m.build
			start := time.Now()
			s, err := Shrink(t.Context(), o, mutantLength, Shrinking{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s seed %d: %v\n%d runs %v: %+v to %+v, %.100v\n%s", m.name, seed, s.check, s.Runs, time.Since(start), s.Before, s.After, s.Violation, literal(s.Options))
			break
		}
	}
}
