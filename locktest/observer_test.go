package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// expiringLock is a lock found lost by its holder after checksLeft checks.
type expiringLock struct{ checksLeft int }

func (l *expiringLock) Err() error {
	if l.checksLeft--; l.checksLeft < 0 {
		return errors.New("lost")
	}
	return nil
}

func (l *expiringLock) Unlock(context.Context) error { return l.Err() }

// idleProbe returns a probe that sends no request to a service.
func idleProbe(t *testing.T) *probe {
	t.Helper()
	o, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := newProbe(&suite{o: o, ctx: t.Context()}, Promise{})
	t.Cleanup(p.cancel)
	return p
}

func heldLockOf(l Lock, name string) *heldLock {
	return &heldLock{lock: l, client: &client{name: name}, key: "k", mode: lockMode}
}

const unlimited = 1 << 30

// A holder may be stopped between the check of its lock and its report to the observer, until
// another client has the key.
func TestAHolderThatIsStoppedBeforeItEntersIsNoSecondHolder(t *testing.T) {
	p := idleProbe(t)
	w := p.newObserver()
	w.enter(heldLockOf(&expiringLock{unlimited}, "the next"))
	w.enter(heldLockOf(&expiringLock{0}, "the one that was stopped"))
	if findings, _ := p.verdict(); len(findings) > 0 {
		t.Error(findings)
	}
	w.enter(heldLockOf(&expiringLock{unlimited}, "another"))
	if findings, _ := p.verdict(); len(findings) != 1 {
		t.Errorf("two holders: %v", findings)
	}
}

func TestALockThatIsLostCountsOnce(t *testing.T) {
	// before its turn, during the turn, and before the release
	for _, after := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := idleProbe(t)
				w, r := p.newObserver(), p.rng(0)
				for i := range 8 {
					left := unlimited
					if i < 2 {
						left = after
					}
					useAndRelease(w, heldLockOf(&expiringLock{left}, "it"), r)
				}
				if lost := w.lost.Load(); lost != 2 {
					t.Errorf("%d are lost", lost)
				}
				w.check() // a quarter may be
				if findings, _ := p.verdict(); len(findings) > 0 {
					t.Error(findings)
				}
			})
		})
	}
}

func useAndRelease(w *observer, g *heldLock, r *rand.Rand) {
	w.criticalSection(g, r)
	w.release(g)
}
