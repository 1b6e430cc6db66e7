package locktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
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

func TestTheReferenceKeepsEveryPromiseInRealTime(t *testing.T) {
	t.Parallel()
	const ttl = 200 * time.Millisecond
	report := Run(t, newMemory(ttl, ""), Options{TTL: ttl, Handovers: 80, Ops: 800, Expect: []Expected{}})
	if len(report.Results) == 0 {
		t.Error("nothing was examined")
	}
}
