package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// told is a lock whose holder finds it lost once it has been asked as often as that says.
type told struct{ left int }

func (l *told) Err() error {
	if l.left--; l.left < 0 {
		return errors.New("lost")
	}
	return nil
}

func (l *told) Unlock(context.Context) error { return l.Err() }

// probing returns a probe that asks nothing of a service.
func probing(t *testing.T) *probe {
	t.Helper()
	o, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := newProbe(&exam{o: o, ctx: t.Context()}, Promise{})
	t.Cleanup(p.cancel)
	return p
}

func gripOf(l Lock, name string) *grip {
	return &grip{lock: l, c: &client{name: name}, key: "k", mode: byLock}
}

const forEver = 1 << 30

// A holder may be stopped between its look at its lock and its word to the witness, for so long that another has the key by then.
func TestAHolderThatIsStoppedBeforeItEntersIsNoSecondHolder(t *testing.T) {
	p := probing(t)
	w := p.witness()
	w.enter(gripOf(&told{forEver}, "the next"))
	w.enter(gripOf(&told{0}, "the one that was stopped"))
	if findings, _ := p.verdict(); len(findings) > 0 {
		t.Error(findings)
	}
	w.enter(gripOf(&told{forEver}, "another"))
	if findings, _ := p.verdict(); len(findings) != 1 {
		t.Errorf("two holders: %v", findings)
	}
}

func TestALockThatIsLostCountsOnce(t *testing.T) {
	for _, after := range []int{0, 1, 2} { // before its turn, during it, and before it is given back
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probing(t)
				w, r := p.witness(), p.rng(0)
				for i := range 8 {
					left := forEver
					if i < 2 {
						left = after
					}
					turnAndRelease(w, gripOf(&told{left}, "it"), r)
				}
				if lost := w.lost.Load(); lost != 2 {
					t.Errorf("%d are lost", lost)
				}
				w.judge() // a quarter may be
				if findings, _ := p.verdict(); len(findings) > 0 {
					t.Error(findings)
				}
			})
		})
	}
}

func turnAndRelease(w *witness, g *grip, r *rand.Rand) {
	w.turn(g, r)
	w.release(g)
}
