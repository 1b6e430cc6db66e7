package lockmesh

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// left returns readers that have re-entered a writer at a, and hold the key without the writer.
func left(t *testing.T, a *Mesh, n int) []*Lease {
	t.Helper()
	writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
	var readers []*Lease
	for range n {
		readers = append(readers, must[*Lease](t)(a.RLock(writer.Context(), "k")))
	}
	unlock(t, writer)
	return readers
}

// isShared demands that leases share the key, and that a reader of another node is let in.
func isShared(t *testing.T, other *Mesh, leases ...*Lease) {
	t.Helper()
	for _, l := range leases {
		if l.Err() != nil || l.Mode() != ModeShared {
			t.Errorf("%v, %v", l.Mode(), l.Err())
		}
	}
	synctest.Wait() // until all voters know
	unlock(t, must[*Lease](t)(other.TryRLock(t.Context(), "k")))
	wantIs(t, second(other.TryLock(t.Context(), "k")), ErrHeld)
}

// Of two readers to which a writer has left the key, neither becomes the only holder beside the
// other.
func TestAReaderIsNotUpgradedBesideAnotherOfTheSameLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		readers := left(t, a, 2)
		for _, r := range readers {
			err := r.Upgrade(t.Context())
			wantIs(t, err, ErrClash)
			if !contains(fmt.Sprint(err), "re-entered the same lease") {
				t.Error(err)
			}
		}
		isShared(t, b, readers...)
		unlock(t, readers[1])
		if err := readers[0].Upgrade(t.Context()); err != nil || readers[0].Mode() != ModeExclusive {
			t.Errorf("%v, %v", readers[0].Mode(), err)
		}
		unlock(t, readers[0])
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

// The same while the outermost lease is held, if that is a reader; and for the outermost lease.
func TestAReaderIsNotUpgradedBesideAnotherWithinAReader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		outer := must[*Lease](t)(a.RLock(t.Context(), "k"))
		one := must[*Lease](t)(a.RLock(outer.Context(), "k"))
		two := must[*Lease](t)(a.RLock(outer.Context(), "k"))
		for _, l := range []*Lease{outer, one, two} {
			wantIs(t, l.Upgrade(t.Context()), ErrClash)
		}
		isShared(t, b, outer, one, two)
		unlock(t, two)
		within := must[*Lease](t)(a.RLock(one.Context(), "k"))
		if err := within.Upgrade(t.Context()); err != nil { // the others are around it
			t.Fatal(err)
		}
		unlock(t, outer) // the upgraded reader ends, and the other reader keeps the key
		wantIs(t, within.Err(), ErrReleased)
		isShared(t, b, one)
		unlock(t, one)
	})
}

// While an upgrade waits for a reader of another node, no reader re-enters the lease: the upgraded
// lease would be exclusive beside this reader.
func TestNoReaderComesInWhileAnUpgradeWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		outer := must[*Lease](t)(a.RLock(t.Context(), "k"))
		other := must[*Lease](t)(b.RLock(t.Context(), "k"))
		upgrade := later(func() (*Lease, error) { return nil, outer.Upgrade(t.Context()) })
		stillWaits(t, upgrade)
		_, err := a.RLock(outer.Context(), "k")
		wantIs(t, err, ErrClash)
		if !contains(fmt.Sprint(err), "is being upgraded") {
			t.Error(err)
		}
		unlock(t, other)
		if r := <-upgrade; r.err != nil {
			t.Fatal(r.err)
		}
		unlock(t, must[*Lease](t)(a.RLock(outer.Context(), "k"))) // the exclusive lease again
		unlock(t, outer)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

// After an upgraded reader other nodes may read beside the remaining readers, unless a remaining
// lease needs the key alone.
func TestTheKeyIsSharedAgainAfterAnUpgradedReader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		upgraded := left(t, a, 1)[0]
		if err := upgraded.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader := must[*Lease](t)(a.RLock(upgraded.Context(), "k"))
		writer := must[*Lease](t)(a.RLock(upgraded.Context(), "k"))
		if err := writer.Upgrade(t.Context()); err != nil { // the exclusive lease again
			t.Fatal(err)
		}
		unlock(t, upgraded)
		if writer.Mode() != ModeExclusive {
			t.Error(writer.Mode())
		}
		wantIs(t, second(b.TryRLock(t.Context(), "k")), ErrHeld)
		unlock(t, writer)
		isShared(t, b, reader)
		unlock(t, reader)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

// A reader is unlocked while its upgrade waits, and the lease around the reader keeps the key: as a
// reader.
func TestAReaderThatEndsInItsUpgradeLeavesASharedKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		around := left(t, a, 1)[0]
		within := must[*Lease](t)(a.RLock(around.Context(), "k"))
		other := must[*Lease](t)(b.RLock(t.Context(), "k"))
		upgrade := later(func() (*Lease, error) { return nil, within.Upgrade(t.Context()) })
		stillWaits(t, upgrade)
		unlock(t, within)
		unlock(t, other)
		<-upgrade
		isShared(t, b, around)
		unlock(t, around)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

// Readers that share a key upgrade, downgrade and unlock at once. No reader is exclusive beside
// another reader, and the key is free at the end.
func TestReadersOfOneLeaseUpgradeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for range 100 {
			readers := left(t, a, 3)
			done := make(chan error, len(readers))
			for _, r := range readers {
				go func() {
					err := r.Upgrade(t.Context())
					if errors.Is(err, ErrClash) {
						err = nil
					} else if n := r.Depth(); err == nil && n != 1 {
						t.Errorf("exclusive with depth %d", n)
					}
					done <- errors.Join(err, r.Unlock(t.Context()))
				}()
			}
			for range readers {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			unlock(t, must[*Lease](t)(b.Lock(testwait.Within(t, time.Minute), "k")))
		}
	})
}

// A reader upgrades while the outermost lease is being unlocked: the reader is alone, so the
// upgrade succeeds and stays. (The race detector and the simulated time see no order here, so many
// rounds look for a bad one.)
func TestAReaderUpgradesBesideTheUnlockOfItsWriter(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for round := range 3000 {
			outer := must[*Lease](t)(a.Lock(t.Context(), "k"))
			reader := must[*Lease](t)(a.RLock(outer.Context(), "k"))
			if round%2 == 0 {
				check(t, outer.Downgrade(t.Context()))
			}
			upgraded := make(chan error, 1)
			go func() {
				for outer.own.Cause() == nil { // until Unlock has begun
					runtime.Gosched()
				}
				upgraded <- reader.Upgrade(t.Context())
			}()
			runtime.Gosched()
			unlock(t, outer)
			if err := <-upgraded; err != nil || reader.Err() != nil || reader.Mode() != ModeExclusive {
				t.Fatalf("round %d: Upgrade returns %v; the lease is %v, %v", round, err, reader.Mode(), reader.Err())
			}
			unlock(t, reader)
		}
	})
}

// Calls of a reader are under way when the outermost lease leaves the key to the reader: they end
// with the voters' answers, and those of the outermost lease with ErrReleased.
func TestCallsOfAReaderOutliveTheUnlockOfItsWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		writer := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(5*time.Second), WithoutRenewal()))
		reader := must[*Lease](t)(a.RLock(writer.Context(), "k"))
		inner := must[*Lease](t)(a.Lock(writer.Context(), "k"))
		time.Sleep(time.Second)
		w.stall("b", true)
		w.stall("c", true)
		call := func(l *Lease, value string) (set, extend <-chan outcome) {
			set = later(func() (*Lease, error) { return nil, l.SetValue(t.Context(), []byte(value)) })
			extend = later(func() (*Lease, error) { return nil, l.Extend(t.Context(), 5*time.Second) })
			stillWaits(t, set)
			stillWaits(t, extend)
			return set, extend
		}
		var ended []<-chan outcome
		for _, l := range []*Lease{writer, inner} {
			set, extend := call(l, "old")
			ended = append(ended, set, extend)
		}
		set, extend := call(reader, "new")
		unlock(t, writer)
		for _, c := range ended {
			wantIs(t, (<-c).err, ErrReleased)
		}
		stillWaits(t, set)
		stillWaits(t, extend)
		w.stall("b", false)
		w.stall("c", false)
		for _, c := range []<-chan outcome{set, extend} {
			if r := <-c; r.err != nil {
				t.Error(r.err)
			}
		}
		info := must[Info](t)(b.Inspect(t.Context(), "k"))
		if len(info.Holders) != 1 || string(info.Holders[0].Value) != "new" {
			t.Errorf("%+v", info)
		}
		isShared(t, b, reader)
		unlock(t, reader)
	})
}

// After a reader has upgraded the key of the lease around it, the outer lease stays exclusive until
// Downgrade.
func TestTheLeaseAroundAnUpgradedReaderStaysExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		outer := must[*Lease](t)(a.RLock(t.Context(), "k"))
		reader := must[*Lease](t)(a.RLock(outer.Context(), "k"))
		check(t, reader.Upgrade(t.Context()))
		unlock(t, reader)
		if outer.Mode() != ModeExclusive {
			t.Errorf("the outer lease is %v", outer.Mode())
		}
		wantIs(t, second(b.TryRLock(t.Context(), "k")), ErrHeld)
		check(t, outer.Downgrade(t.Context()))
		isShared(t, b, outer)
		unlock(t, outer)
	})
}

// The token of an ended lease stays, whichever lease on the same key upgrades later: a late write
// by the user of the ended lease must not pass as a write of the lease that holds the key now.
func TestTheTokenOfAnEndedLeaseStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
		reader := must[*Lease](t)(a.RLock(writer.Context(), "k"))
		before := writer.Token()
		unlock(t, writer)
		if err := reader.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if writer.Token() != before || reader.Token() <= before {
			t.Errorf("the tokens are %d and %d; it was %d", writer.Token(), reader.Token(), before)
		}
		unlock(t, reader)

		outermost := must[*Lease](t)(a.RLock(t.Context(), "k"))
		ended := must[*Lease](t)(a.RLock(outermost.Context(), "k"))
		before = outermost.Token()
		unlock(t, ended)
		nested := must[*Lease](t)(a.RLock(outermost.Context(), "k"))
		if err := nested.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		token := nested.Token()
		unlock(t, nested)
		if ended.Token() != before || token <= before || outermost.Token() != token || nested.Token() != token {
			t.Errorf("the tokens are %d, %d, %d and %d; it was %d", ended.Token(), token, outermost.Token(), nested.Token(), before)
		}
		unlock(t, outermost)
	})
}
