// Package testwait has the waits of tests in real time: for a condition without a channel, and for
// a call. A wait ends as soon as there is something to see; its limit is for a test that would
// hang.
package testwait

import (
	"context"
	"testing"
	"time"
)

const (
	// Patience is far above the duration of any test, on any machine.
	Patience = time.Minute

	// pause is the time between two looks at a condition.
	pause = time.Millisecond
)

// Until waits until a condition holds; the test fails at once if it doesn't within Patience.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx := Within(t, Patience)
	look := time.NewTicker(pause)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		}
	}
}

// Within returns a context that ends after d, and with the test.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
