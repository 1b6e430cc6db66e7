package engine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/transport"
)

// idle returns a mailbox of a loop that has started and given up ownership.
func idle(t *testing.T) *mailbox {
	t.Helper()
	b := newMailbox()
	if !b.tryOwn() || !b.disown() {
		t.Fatal("a new mailbox isn't owned by the loop's goroutine")
	}
	return b
}

// puts are the inputs by which a goroutine other than the loop's may become the owner.
var puts = map[string]func(*mailbox) bool{
	"a call":  func(b *mailbox) bool { owner, err := b.putRequest(&call{}); return owner && err == nil },
	"a lease": func(b *mailbox) bool { return b.putRelease(&Lease{}) },
	"an urgent message": func(b *mailbox) bool {
		batch := transport.NewBatch()
		*batch.Add() = vote.Message{Kind: vote.KindRefresh}
		return b.putMessages(true, input{batch: batch})
	},
	"an ordered message": func(b *mailbox) bool {
		batch := transport.NewBatch()
		*batch.Add() = vote.Message{Kind: vote.KindRequest}
		return b.putMessages(false, input{batch: batch})
	},
}

// woken reports whether the loop's goroutine was woken, and consumes the signal.
func woken(b *mailbox) bool {
	select {
	case <-b.wake:
		return true
	default:
		return false
	}
}

func TestAMailboxBeforeTheStartOfItsLoopHasNoOwner(t *testing.T) {
	b := newMailbox()
	for name, put := range puts {
		if put(b) {
			t.Errorf("%s owns the loop", name)
		}
	}
	if !b.post(true, func(vote.Now) {}) || b.putCall(func(vote.Now) {}) != nil {
		t.Error("turned away")
	}
	if !b.tryOwn() {
		t.Error("the loop's goroutine doesn't own the loop")
	}
	if n, m := len(b.take(true, nil)), len(b.take(false, nil)); n != 2 || m != 4 {
		t.Errorf("%d urgent and %d ordered waited for it", n, m)
	}
}

func TestTheFirstInputMakesTheOnlyOwner(t *testing.T) {
	for name, first := range puts {
		t.Run(name, func(t *testing.T) {
			b := idle(t)
			if !first(b) {
				t.Fatal("the loop has no owner, and the first to put doesn't own it")
			}
			if woken(b) {
				t.Error("the loop's goroutine was woken for what a caller does")
			}
			for other, put := range puts {
				if put(b) {
					t.Errorf("%s owns the loop, too", other)
				}
			}
			if b.tryOwn() {
				t.Error("the loop's goroutine owns the loop, too")
			}
			if b.disown() {
				t.Error("passed though something waits")
			}
			b.take(true, nil)
			if b.disown() {
				t.Error("passed though something ordered waits")
			}
			b.take(false, nil)
			if b.waiting() != 0 || !b.disown() {
				t.Error("not passed though nothing waits")
			}
		})
	}
}

func TestWhatIsForTheLoopsGoroutineGivesItTheTurn(t *testing.T) {
	for name, put := range map[string]func(*mailbox){
		"post":      func(b *mailbox) { b.post(true, func(vote.Now) {}) },
		"call":      func(b *mailbox) { _ = b.putCall(func(vote.Now) {}) },
		"hand over": func(b *mailbox) { b.putRelease(&Lease{}); b.handOver() },
	} {
		t.Run(name, func(t *testing.T) {
			b := idle(t)
			put(b)
			for other, also := range puts {
				if also(b) {
					t.Errorf("%s owns the loop that was handed to the loop's goroutine", other)
				}
			}
			if !woken(b) || !b.tryOwn() {
				t.Error("the loop's goroutine wasn't woken, or doesn't own the loop")
			}
			if b.tryOwn() {
				t.Error("it was given ownership twice")
			}
		})
		t.Run(name+" while a caller owns the loop", func(t *testing.T) {
			if name == "hand over" {
				t.Skip("that is the caller's")
			}
			b := idle(t)
			b.putRelease(&Lease{})
			put(b)
			if woken(b) || b.tryOwn() {
				t.Error("ownership was taken away from the caller")
			}
		})
	}
}

// The timer may wake the loop's goroutine at any moment, also after the owner has read the clock
// and is about to give up ownership.
func TestTheLoopThatAskedInVainIsTheNextOwner(t *testing.T) {
	b := idle(t)
	b.putRelease(&Lease{})
	if b.tryOwn() {
		t.Fatal("two goroutines own the loop")
	}
	b.take(false, nil)
	if !b.disown() {
		t.Fatal("not passed")
	}
	if !woken(b) || b.putRelease(&Lease{}) || !b.tryOwn() {
		t.Error("the loop's goroutine was woken, and nobody looks at the time any more")
	}
	b.take(false, nil)
	if !b.disown() || woken(b) || !b.putRelease(&Lease{}) {
		t.Error("it is given ownership again, for nothing")
	}
}

// A node's time must not stand still when the timer fires between a caller's last look at the clock
// and the end of the caller's ownership.
func TestATimerThatFiresBeforeTheHandOverIsHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a := w.alone()
		lease := mustLock(t, a, "k", vote.Exclusive)
		synctest.Wait()
		takeTurn(t, a.loop.box)
		a.loop.roundAndFlush()
		time.Sleep(a.loop.timer.due.Sub(a.loop.clocks.Now().Slow))
		synctest.Wait()
		if !a.loop.disown() {
			t.Fatal("something waits")
		}
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease isn't renewed any more: %v", err)
		}
	})
}

// takeTurn makes the test the owner of a mailbox at rest, as a caller becomes the owner.
func takeTurn(t *testing.T, b *mailbox) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.put(&b.ordered, input{do: func(vote.Now) {}}) {
		t.Fatal("the loop has an owner")
	}
}

// Run with the race detector: nothing but the ownership guards the owner's work.
func TestTheTurnIsOneGoroutinesAtATime(t *testing.T) {
	b := newMailbox()
	const callers, each = 8, 500
	taken, running := 0, 0 // guarded by the ownership
	var spare []input
	run := func() {
		running++
		if running != 1 {
			t.Error("two goroutines own the loop")
		}
		for _, urgent := range []bool{true, false} {
			if in := b.take(urgent, spare); in != nil {
				taken += len(in)
				clear(in)
				spare = in
			}
		}
		running--
	}
	work := func(rounds int) {
		for range rounds {
			run()
			if b.disown() {
				return
			}
		}
		b.handOver()
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() { // the loop's goroutine
		defer close(over)
		for {
			if b.tryOwn() {
				for more := true; more; more = !b.disown() {
					run()
				}
			}
			select {
			case <-b.wake:
			case <-stop:
				b.claim()
				run()
				return
			}
		}
	}()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range each {
				if (i+j)%5 == 0 {
					b.post(j%2 == 0, func(vote.Now) {})
					continue
				}
				if b.putRelease(&Lease{}) {
					work(1 + j%2)
				}
				if j%50 == 0 {
					wakeup.Send(b.wake) // as the timer does
				}
			}
		})
	}
	all.Wait()
	close(stop)
	<-over
	if rest := b.close(); taken != callers*each || len(rest) != 0 {
		t.Errorf("%d of %d were taken, and %d left behind", taken, callers*each, len(rest))
	}
}

func TestClaimWaitsForTheTurn(t *testing.T) {
	for name, leave := range map[string]func(*mailbox){
		"passed":      func(b *mailbox) { b.take(false, nil); b.disown() },
		"handed over": func(b *mailbox) { b.handOver() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := idle(t)
				b.putRelease(&Lease{})
				claimed := false
				go func() {
					b.claim()
					claimed = true
				}()
				synctest.Wait()
				if claimed {
					t.Error("claimed while a caller owns the loop")
				}
				leave(b)
				synctest.Wait()
				if !claimed || b.tryOwn() || b.putRelease(&Lease{}) {
					t.Error("the loop isn't the claimer's alone")
				}
			})
		})
	}
	b := idle(t)
	b.claim() // of a free loop, at once
	if b.putRelease(&Lease{}) {
		t.Error("the loop isn't the claimer's alone")
	}
}

func TestClosingReturnsWaitingInputsAndLeavesNoOwner(t *testing.T) {
	b := idle(t)
	first, second := &call{}, &Lease{}
	if owner, err := b.putRequest(first); !owner || err != nil {
		t.Fatal(owner, err)
	}
	b.putRelease(second)
	b.post(true, func(vote.Now) {})
	b.take(false, nil)
	b.disown()
	if owner, err := b.putRequest(first); owner || err != nil {
		t.Fatal("an urgent message waits, so ownership wasn't given up")
	}
	b.putRelease(second)
	waited := b.close()
	if len(waited) != 3 || waited[0].do == nil || waited[1].call != first || waited[2].lease != second {
		t.Errorf("%+v have waited", waited)
	}
	for name, put := range puts {
		if put(b) {
			t.Errorf("%s owns the loop of a closed mailbox", name)
		}
	}
	if len(b.close()) != 0 || b.waiting() != 0 {
		t.Error("something was put into a closed box, or is returned twice")
	}
}
