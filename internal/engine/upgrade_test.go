package engine

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// upgrading returns a shared lease with a waiting upgrade, and the lease of another reader, which
// blocks the upgrade.
func upgrading(t *testing.T, a, b *Engine) (l, other *Lease, upgrade <-chan error) {
	t.Helper()
	l, other = mustLock(t, a, "k", vote.Shared), mustLock(t, b, "k", vote.Shared)
	outcome := make(chan error, 1)
	go func() { outcome <- l.Upgrade(t.Context()) }()
	synctest.Wait()
	if len(outcome) != 0 {
		t.Fatalf("the upgrade didn't wait: %v", <-outcome)
	}
	return l, other, outcome
}

// The voters know the upgraded lease by another number, so no more reports arrive about the number
// with which the value was set.
func TestAValueThatNoMajorityHasWhenTheUpgradeIsGranted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, c := w.three()
		l, other, upgrade := upgrading(t, a, b)
		done := make(chan error, 1)
		a.Post(false, func(vote.Now) {
			l.ensurePending().value = []byte("new")
			// This is as if no voter had stored the value yet.
			l.pending.valueWaits = append(l.pending.valueWaits, valueWait{pendingCall{done: done}, 2})
		})
		mustUnlock(t, other)
		if err := <-upgrade; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("SetValue still waits")
		}
		found, err := c.Inspect(t.Context(), "inspect", "k")
		if err != nil || len(found.Views) != 1 || string(found.Views[0].Value) != "new" {
			t.Errorf("%+v, %v", found, err)
		}
		mustUnlock(t, l)
	})
}

func TestAnUpgradeThatWasRefusedMayBeAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		l, other, upgrade := upgrading(t, a, b)
		for _, text := range []string{"another process has this name", ""} {
			a.Post(false, func(now vote.Now) { a.loop.setDuplicateName(now, text) })
		}
		wantIs(t, <-upgrade, errs.Refused)
		mustUnlock(t, other)
		if err := l.Upgrade(t.Context()); err != nil {
			t.Error(err)
		}
		mustUnlock(t, l)
	})
}

// The loop must not keep an answered call: the next caller may be given the same call.
func TestAnUpgradeThatCameTooLateIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		l, other, upgrade := upgrading(t, a, b)
		a.Post(false, func(vote.Now) { l.End() }) // as Unlock does, before the loop knows
		mustUnlock(t, other)
		if err := <-upgrade; !errors.Is(err, errs.Released) {
			t.Fatal(err)
		}
		kept := make(chan bool, 1)
		a.Post(false, func(vote.Now) { kept <- l.ensurePending().upgrading != nil })
		if <-kept {
			t.Error("the lease still has the call")
		}
		l.Release()
	})
}

// A caller that has seen the lease shared may come to the loop after another call has upgraded the
// lease.
func TestAnUpgradeThatComesAfterAnotherFindsTheLeaseExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		l, other, upgrade := upgrading(t, a, b)
		late := l.request()
		late.Mode, late.Try, late.upgradeOf = vote.Exclusive, false, l
		mustUnlock(t, other)
		if err := <-upgrade; err != nil {
			t.Fatal(err)
		}
		token := l.Token()
		if lease, err := granted(a.Request(t.Context(), "upgrade", &late)); err != nil || lease != nil {
			t.Errorf("an upgrade made the lease %v: %v", lease, err)
		}
		if l.Err() != nil || l.Mode() != vote.Exclusive || l.Token() != token {
			t.Errorf("%v, %v, token %d after %d", l.Err(), l.Mode(), l.Token(), token)
		}
		mustUnlock(t, l)
	})
}
