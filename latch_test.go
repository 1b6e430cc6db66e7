package lockmesh

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestALatchOpensAtTheLastCountAndStaysOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		la, lb, lc := a.CountDownLatch("l", 3), b.CountDownLatch("l", 3), c.CountDownLatch("l", 3)
		awaits := make(chan error, 1)
		go func() { awaits <- lc.Await(t.Context()) }()
		must[*Count](t)(la.CountDown(t.Context()))
		second := must[*Count](t)(la.CountDown(t.Context()))
		synctest.Wait()
		if n := must[int](t)(lc.Count(t.Context())); n != 1 || open(awaits) {
			t.Fatalf("%d are missing", n)
		}
		if err := second.TakeBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantIs(t, second.Err(), ErrReleased)
		<-second.Done()
		// The last voter may learn of the next count before the end of this count.
		<-time.After(time.Second)
		must[*Count](t)(lb.CountDown(t.Context()))
		if open(awaits) {
			t.Fatal("it is open with two of three counts")
		}
		err := lb.Await(testwait.Within(t, time.Second))
		wantIs(t, err, context.DeadlineExceeded)
		if !contains(fmt.Sprint(err), "2 of 3") {
			t.Error(err)
		}
		must[*Count](t)(lb.CountDown(t.Context()))
		if err := <-awaits; err != nil {
			t.Fatal(err)
		}
		<-lc.Opened()
		_, err = lc.CountDown(t.Context())
		wantIs(t, err, ErrHeld)
		synctest.Wait()
		if err := a.Close(); err != nil { // a's count ends
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		late := c.CountDownLatch("l", 3)
		if err := late.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := must[int](t)(c.CountDownLatch("l", 3).Count(t.Context())); n != 0 {
			t.Errorf("%d are missing", n)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := late.Await(t.Context()); err != nil { // late has seen the latch open
			t.Fatal(err)
		}
	})
}

func TestACountThatDiesBeforeTheLatchOpensIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		count := must[*Count](t)(a.CountDownLatch("l", 2).CountDown(t.Context()))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantIs(t, count.Err(), ErrLost)
		time.Sleep(20 * time.Second)
		must[*Count](t)(b.CountDownLatch("l", 2).CountDown(t.Context()))
		wantIs(t, c.CountDownLatch("l", 2).Await(testwait.Within(t, 30*time.Second)), context.DeadlineExceeded)
		must[*Count](t)(b.CountDownLatch("l", 2).CountDown(t.Context()))
		if err := c.CountDownLatch("l", 2).Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUsersOfALatchAgreeOnItsNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		must[*Count](t)(a.CountDownLatch("l", 2).CountDown(t.Context()))
		synctest.Wait() // all voters know of the count
		_, err := b.CountDownLatch("l", 3).CountDown(t.Context())
		wantIs(t, err, ErrPermits)
		_, err = b.CountDownLatch("l", 3).Count(t.Context())
		wantIs(t, err, ErrPermits)
		wantIs(t, b.CountDownLatch("l", 0).Await(t.Context()), ErrPermits)
		wantIs(t, b.CountDownLatch("", 1).Await(t.Context()), ErrKey)
	})
}

// Two counts of a latch of three don't open a latch of two.
func TestALatchIsNotOpenedByCountsOfAnotherNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for range 2 {
			must[*Count](t)(a.CountDownLatch("l", 3).CountDown(t.Context()))
		}
		synctest.Wait() // all voters know of the counts
		latch := b.CountDownLatch("l", 2)
		_, err := latch.CountDown(t.Context())
		wantIs(t, err, ErrPermits)
		wantNot(t, err, ErrHeld)
		wantIs(t, latch.Await(t.Context()), ErrPermits)
		if latch.hasSeenOpen() {
			t.Error("it is open")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if wantIs(t, latch.checkAgreed(ended, "await"), context.Canceled); latch.hasSeenOpen() {
			t.Error("it is open, though no voter has said how many counts it takes")
		}
		none := b.CountDownLatch("m", 0)
		_, err = none.CountDown(t.Context())
		wantIs(t, err, ErrPermits)
		wantIs(t, none.Await(t.Context()), ErrPermits)
	})
}

func TestManyCountAtOnceAndNoneMoreThanNeeded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		const n = 20
		got := make(chan error, 3*n)
		for i := range 3 * n {
			go func() {
				_, err := []*Mesh{a, b, c}[i%3].CountDownLatch("l", n).CountDown(t.Context())
				got <- err
			}()
		}
		time.Sleep(time.Minute)
		made := 0
		for range 3 * n {
			if err := <-got; err == nil {
				made++
			} else {
				wantIs(t, err, ErrHeld)
			}
		}
		if made != n {
			t.Errorf("%d counts were made", made)
		}
		if err := a.CountDownLatch("l", n).Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A latch that was open once doesn't hide the reason why a count can't be made now.
func TestACountThatFailsForAnotherReasonThanAnOpenLatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		latch := a.CountDownLatch("k", 1)
		count := must[*Count](t)(latch.CountDown(t.Context()))
		<-latch.Opened()
		if err := count.TakeBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := must[*Lease](t)(b.Lock(t.Context(), "k"))
		failed := make(chan error, 1)
		go func() {
			_, err := latch.CountDown(t.Context())
			failed <- err
		}()
		synctest.Wait()
		_ = a.Close()
		err := <-failed
		wantIs(t, err, ErrClosed)
		wantNot(t, err, ErrHeld)
		unlock(t, l)
	})
}

// A count notices at any time that its latch is open: a count that can't watch would leave the
// latch to close again when the other counts end, so a count without a free watch fails.
func TestACountWithTheLastWatchSeesItsLatchOpen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		for range MaxWatches - 1 {
			must[*Watch](t)(a.Watch(t.Context(), "x"))
		}
		latch := a.CountDownLatch("l", 2)
		must[*Count](t)(latch.CountDown(t.Context()))
		_, err := a.CountDownLatch("m", 2).CountDown(t.Context())
		wantIs(t, err, ErrBusy)
		other := must[*Count](t)(b.CountDownLatch("l", 2).CountDown(t.Context()))
		time.Sleep(time.Minute)
		select {
		case <-latch.Opened():
		default:
			t.Error("Opened isn't closed, though both counts are made")
		}
		if err := other.TakeBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := must[int](t)(c.CountDownLatch("l", 2).Count(t.Context())); n != 0 {
			t.Errorf("%d are missing, though the owner of a count has seen the latch open", n)
		}
		must[*Count](t)(a.CountDownLatch("m", 2).CountDown(t.Context())) // the watch is free again
	})
}
