package locktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// delayedContext is a context with an end that reaches its goroutine late, as on a slow machine.
type delayedContext struct {
	context.Context
	delay time.Duration
}

func (c delayedContext) Done() <-chan struct{} {
	time.Sleep(c.delay) // simulated
	ended := make(chan struct{})
	close(ended)
	return ended
}

// A stop of the machine at the end of a probe is noticed, whichever of the two the goroutine
// receives first.
func TestAMachineThatStopsAtTheEndOfAProbeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 30 {
			p := idleProbe(t)
			p.ctx = delayedContext{p.ctx, p.o.TTL}
			worst := make(chan time.Duration, 1)
			p.measureDelay(worst)
			if late := <-worst; late < p.o.TTL/2 {
				t.Fatalf("it was late by %v, and %v was noticed", p.o.TTL, late)
			}
		}
	})
}
