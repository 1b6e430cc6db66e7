package lockmesh

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// Tokens may differ by more than an int on a 32-bit machine: a token counts microseconds, and 31
// bits are 36 minutes. The members of a barrier must agree on the order, on any machine. Only a
// test with GOARCH=386 or arm can find a fault.
func TestPermitsAreInOrderOfTheirTokens(t *testing.T) {
	const hour = 3_600_000_000
	want := []uint64{1, 1 + hour, 1 + 2*hour, 1 << 62, 1<<63 - 1}
	v := &view{held: make(map[uint64]Event)}
	for _, token := range want {
		v.held[token] = Event{Mode: ModePermit, Token: token}
	}
	var got []uint64
	for _, e := range v.permits() {
		got = append(got, e.Token)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// The end of a barrier's lease also ends the watch of its view. A wait that finds both ended says
// how the lease has ended, whichever end the wait sees first.
func TestAWaitForAViewSaysHowItsLeaseHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for range 40 { // a select takes either of two ready channels
			l := must[*Lease](t)(a.Semaphore("k", 2).Acquire(t.Context()))
			v := must[*view](t)(a.view(t.Context(), "enter", "k"))
			context.AfterFunc(l.context(), v.stop)
			synctest.Wait()
			if err := b.Evict(t.Context(), "k", l.Token()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := v.waitUntil(t.Context(), l, func() bool { return false }); !errors.Is(err, ErrEvicted) {
				t.Fatalf("%v, want an error with %v", err, ErrEvicted)
			}
		}
	})
}
