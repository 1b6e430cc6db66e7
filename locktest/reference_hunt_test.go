//go:build hunt

package locktest

import (
	"testing"
	"time"
)

// The TTL is short, since the examination waits for about twenty TTLs: on a busy machine a lock may
// be lost.
func TestTheReferenceKeepsEveryPromiseInRealTime(t *testing.T) {
	t.Parallel()
	const ttl = 200 * time.Millisecond
	report := Run(t, newMemory(ttl, ""), Options{TTL: ttl, Handovers: 80, Ops: 800, Expect: []Expected{}})
	if len(report.Results) == 0 {
		t.Error("nothing was examined")
	}
}
