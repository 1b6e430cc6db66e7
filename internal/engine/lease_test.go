package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

func isOver(l *Lease) bool {
	select {
	case <-l.Context().Done():
		return true
	default:
		return false
	}
}

// The context may be created while the lease ends. While a goroutine is between two steps of
// either, no other goroutine sees an error from Err before Done is closed.
func TestErrNeverComesBeforeDoneIsClosed(t *testing.T) {
	unfinished := func() *BaseContext {
		e := &BaseContext{}
		e.Context, e.Cancel = context.WithCancelCause(t.Context())
		return e
	}
	held := func() *Lease {
		validity := &groupValidity{}
		validity.until.Store(1 << 62)
		l := &Lease{loop: &loop{clocks: clock.New(nil)}, values: t.Context()}
		l.validity.Store(validity)
		return l
	}
	t.Run("the goroutine that ends it hasn't looked for the context yet", func(t *testing.T) {
		l := held()
		done := l.Context().Done()
		l.endCause.Store(&causeReleased)
		wantIs(t, l.Err(), errs.Released)
		select {
		case <-done:
		default:
			t.Error("Err says that it has ended, and Done doesn't")
		}
	})
	t.Run("the goroutine that makes the context hasn't looked for the end yet", func(t *testing.T) {
		l := held()
		l.endCause.Store(&causeLost)
		wantIs(t, l.Err(), errs.Lost)
		l.base.Store(unfinished())
		if !isOver(l) {
			t.Error("Err says that it has ended, and Done doesn't")
		}
		wantIs(t, context.Cause(l.Context()), errs.Lost)
	})
	t.Run("many at once", func(t *testing.T) {
		for range 300 {
			l := held()
			var all sync.WaitGroup
			ended := make([]bool, 3)
			for i := range ended {
				all.Go(func() { ended[i] = l.End() })
				all.Go(func() {
					for l.Err() == nil {
						if l.Context().Err() != nil && l.Err() == nil {
							t.Error("its context has ended, and it hasn't")
						}
					}
					if !isOver(l) || context.Cause(l.Context()) != errs.Released {
						t.Error("Err says that it has ended, and its context doesn't, or by something else")
					}
				})
				all.Go(func() {
					<-l.Context().Done()
					if !errors.Is(l.Err(), errs.Released) {
						t.Errorf("Done is closed, and Err is %v", l.Err())
					}
				})
			}
			all.Wait()
			n := 0
			for _, first := range ended {
				if first {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d were the first to end it", n)
			}
		}
	})
}

// The clock may be read between a timely renewal and its processing. A caller has seen a loss, so
// the loss stays.
func TestALossThatOnlyTheReaderSawIsALossForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		lease := mustLock(t, a, "k", vote.Exclusive)
		synctest.Wait() // the last vote has come, and with it another validity
		until := lease.validUntil()
		lease.validity.Load().until.Store(1)
		wantIs(t, lease.Err(), errs.Lost)
		lease.validity.Load().until.Store(int64(until))
		wantIs(t, lease.Err(), errs.Lost)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := lock(ctx, b, "k"); err != nil {
			t.Errorf("the key wasn't given back: %v", err)
		}
		synctest.Wait()
		if state, _ := a.Snapshot(); len(state.Held) != 0 {
			t.Errorf("still held: %v", state.Held)
		}
	})
}

func TestNothingIsLeftOfLeasesThatEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, _, _ := w.three()
		var work sync.WaitGroup
		for i := range 200 {
			work.Go(func() {
				lease, err := lock(t.Context(), a, strings.Repeat("k", i+1))
				if err != nil {
					t.Error(err)
				} else if i%2 == 0 {
					_ = unlock(t.Context(), lease)
				}
			})
		}
		work.Wait()
		w.stall("a", true) // the other half is lost
		time.Sleep(time.Minute)
		w.stall("a", false)
		time.Sleep(time.Minute)
		// a group with a single lease, released before it was handed out
		a.Post(false, func(vote.Now) { a.loop.validityOf(1 << 40) })
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if open := a.Open(); open != (Open{}) {
			t.Errorf("entries are left: %+v", open)
		}
	})
}

// The first goroutine to request the context may have created the context and not yet seen that the
// lease has ended, while another goroutine has seen the end.
func TestAContextThatIsMadeAsTheLeaseEndsHasEndedForAll(t *testing.T) {
	l := &Lease{loop: &loop{}, values: t.Context()}
	made := l.Context()
	l.endCause.Store(&causeLost)
	if !isOver(l) {
		t.Error("the lease has ended, and Done isn't closed")
	}
	if context.Cause(made) != errs.Lost {
		t.Error(context.Cause(made))
	}
}

// The caller never had the lease, so the job that the key was to be kept for hasn't run. The voters
// can't know this, and keep their promise.
func TestAGrantThatComesTooLateKeepsNoKeyFromOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		ctx, cancel := context.WithCancel(t.Context())
		r := requestFor("k", vote.Exclusive)
		r.HasOptions, r.MinHold, r.MinHoldByNode = true, testTTL, time.Hour
		c := a.newCall(ctx, "lock", r)
		owner, err := a.loop.box.putRequest(c)
		if err != nil {
			t.Fatal(err)
		}
		if owner {
			a.loop.runAsOwner()
		}
		synctest.Wait() // the lease is granted, and the caller hasn't seen the grant yet
		cancel()
		lease, err := a.abandon(c)
		wantIs(t, err, context.Canceled)
		if lease != nil || errors.Is(err, errs.Held) {
			t.Errorf("there is a lease, or another request is said to have the key: %v, %v", lease, err)
		}
		began := time.Now()
		mustUnlock(t, mustLock(t, b, "k", vote.Exclusive))
		if took := time.Since(began); took > testTTL+time.Second {
			t.Errorf("the key was kept for %v", took)
		}
	})
}

// A request that fails in the same round in which its call is abandoned was not granted.
func TestACallThatFailsAsItsContextEndsIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, _, _ := w.three()
		w.stall("b", true)
		w.stall("c", true)
		ctx, cancel := context.WithCancel(t.Context())
		r := requestFor("k", vote.Exclusive)
		r.Try = true // fails without an answer after a TTL
		c := a.newCall(ctx, "trylock", r)
		owner, err := a.loop.box.putRequest(c)
		if err != nil {
			t.Fatal(err)
		}
		if owner {
			a.loop.runAsOwner()
		}
		synctest.Wait()
		hold, held := make(chan struct{}), make(chan struct{})
		a.Post(true, func(vote.Now) { close(held); <-hold }) // the loop doesn't see the time pass
		<-held
		time.Sleep(2 * testTTL)
		cancel()
		ended := make(chan error)
		go func() {
			_, err := a.abandon(c)
			ended <- err
		}()
		synctest.Wait()
		close(hold)
		err = <-ended
		wantIs(t, err, errs.NoQuorum)
		if errors.Is(err, errs.Held) {
			t.Error(err)
		}
	})
}

func TestEveryReasonToWaitHasItsError(t *testing.T) {
	for reason, want := range map[quorum.WaitReason]error{
		quorum.WaitNone: errs.NoQuorum, quorum.WaitHeld: errs.Held, quorum.WaitNoQuorum: errs.NoQuorum,
		quorum.WaitRefused: errs.Refused, quorum.WaitBusy: errs.Busy,
	} {
		if got := reasonOf(reason); got != want {
			t.Errorf("%d is %v, want %v", reason, got, want)
		}
	}
}

// overload has as many calls wait as may, until hold is closed.
func overload(t *testing.T, eng *Engine) (hold chan struct{}) {
	t.Helper()
	hold, held := make(chan struct{}), make(chan struct{})
	eng.Post(true, func(vote.Now) { close(held); <-hold })
	<-held
	for range callsMax {
		if err := eng.loop.box.putCall(func(vote.Now) {}); err != nil {
			t.Fatal(err)
		}
	}
	return hold
}

func TestWhileTooManyCallsWaitFurtherOnesAreBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a := w.alone()
		hold := overload(t, a)
		_, err := lock(t.Context(), a, "k")
		wantIs(t, err, errs.Busy)
		wantIs(t, a.Ready(t.Context()), errs.Busy)
		close(hold)
		synctest.Wait()
		mustUnlock(t, mustLock(t, a, "k", vote.Exclusive))
	})
}

// Readers take over the key of an unlocked writer while the loop has as many calls as may wait. The
// voters must learn of it nevertheless: the readers hold the key, and other readers may come in.
func TestAKeyIsLeftToReadersHoweverManyCallsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a := w.alone()
		l := mustLock(t, a, "k", vote.Exclusive)
		hold := overload(t, a)
		if !l.EndShared() {
			t.Fatal("the lease had ended before")
		}
		shared := make(chan error, 1)
		go func() { shared <- l.ShareEnded()() }()
		synctest.Wait()
		close(hold)
		if err := <-shared; err != nil {
			t.Error(err)
		}
		mustUnlock(t, mustLock(t, a, "k", vote.Shared))
		l.Release()
	})
}

// A reader is granted its upgrade after the key was marked as shared, and before the voters hear of
// it. The key stays exclusive.
func TestAnUpgradeInBetweenKeepsTheKeyExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a := w.alone()
		l := mustLock(t, a, "k", vote.Shared)
		l.MarkShared()
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.ShareAgain(); err != nil {
			t.Fatal(err)
		}
		r := requestFor("k", vote.Shared)
		r.Try = true
		_, err := granted(a.Request(t.Context(), "trylock", r))
		wantIs(t, err, errs.Held)
		if l.Mode() != vote.Exclusive {
			t.Error(l.Mode())
		}
		mustUnlock(t, l)
	})
}
