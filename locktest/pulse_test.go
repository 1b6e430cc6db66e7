package locktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// lateEnd is a context whose end is seen by a goroutine that the machine lets run late.
type lateEnd struct {
	context.Context
	late time.Duration
}

func (c lateEnd) Done() <-chan struct{} {
	time.Sleep(c.late) // simulated
	ended := make(chan struct{})
	close(ended)
	return ended
}

// What stops the machine and ends the probe at once is seen, whichever the goroutine hears of first.
func TestAMachineThatStopsAtTheEndOfAProbeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 30 {
			p := probing(t)
			p.ctx = lateEnd{p.ctx, p.o.TTL}
			worst := make(chan time.Duration, 1)
			p.pulse(worst)
			if late := <-worst; late < p.o.TTL/2 {
				t.Fatalf("it was late by %v, and %v was noticed", p.o.TTL, late)
			}
		}
	})
}
