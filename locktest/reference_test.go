package locktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// examineInBubble examines a memory in fake time, where waiting costs nothing.
func examineInBubble(t *testing.T, fault string, o Options) (report *Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.TTL = 10 * time.Second
		var err error
		if report, err = Examine(t.Context(), newMemory(o.TTL, fault), o); err != nil {
			t.Error(err)
		}
	})
	return report
}

func TestTheReferenceKeepsEveryPromise(t *testing.T) {
	sampled.Computes(t)
	for seed := range uint64(2) {
		report := examineInBubble(t, "", Options{Seed: seed, Expect: []Expected{}})
		if report == nil {
			return
		}
		if !slices.Equal(report.Names(Kept), names()) {
			t.Errorf("seed %d: %v", seed, report)
		}
		for _, text := range report.Mismatches() {
			t.Error(text)
		}
	}
}
