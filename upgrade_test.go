package lockmesh

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// upgrading has the upgrade of a reader wait for another reader.
func upgrading(t *testing.T, a, b *Mesh, opts ...Option) (l, other *Lease, upgrade <-chan outcome) {
	t.Helper()
	l = must[*Lease](t)(a.RLock(t.Context(), "k", opts...))
	other = must[*Lease](t)(b.RLock(t.Context(), "k"))
	upgrade = later(func() (*Lease, error) { return nil, l.Upgrade(t.Context()) })
	stillWaits(t, upgrade)
	return l, other, upgrade
}

func TestAValueThatIsSetDuringAnUpgradeGoesAlong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		l, other, upgrade := upgrading(t, a, b, WithValue([]byte("old")))
		if err := l.SetValue(t.Context(), []byte("new")); err != nil {
			t.Fatal(err)
		}
		unlock(t, other)
		if r := <-upgrade; r.err != nil {
			t.Fatal(r.err)
		}
		synctest.Wait()
		info := must[Info](t)(c.Inspect(t.Context(), "k"))
		if len(info.Holders) != 1 || string(info.Holders[0].Value) != "new" {
			t.Errorf("%+v", info)
		}
		unlock(t, l)
	})
}

func TestValuesAndUpgradesMayBeAskedForAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		l := must[*Lease](t)(a.RLock(t.Context(), "k"))
		var both sync.WaitGroup
		both.Go(func() {
			if err := l.SetValue(t.Context(), []byte("here")); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if err := l.Upgrade(t.Context()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		unlock(t, l)
	})
}

func TestAnUpgradeAfterTheEndSaysWhichEnd(t *testing.T) {
	for _, row := range []struct {
		end  func(t *testing.T, m *Mesh, l *Lease)
		want error
	}{
		{func(t *testing.T, _ *Mesh, l *Lease) { unlock(t, l) }, ErrReleased},
		{func(_ *testing.T, m *Mesh, _ *Lease) { _ = m.Close() }, ErrClosed},
	} {
		inBubble(t, func(t *testing.T, w *wire) {
			a, _, _ := w.three()
			l := must[*Lease](t)(a.RLock(t.Context(), "k"))
			row.end(t, a, l)
			err := l.Upgrade(t.Context())
			var e *Error
			if !errors.As(err, &e) || e.Op != "upgrade" || e.Reason != row.want {
				t.Errorf("%v, whose reason isn't %v itself", err, row.want)
			}
		})
	}
}

// A lease of a set length ends at the set time, in any mode.
func TestAnUpgradeMakesALeaseOfASetLengthNoLonger(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Second, DefaultMaxTTL, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				granted := time.Now()
				l := must[*Lease](t)(a.RLock(t.Context(), "k", WithTTL(ttl), WithoutRenewal()))
				for range 2 {
					time.Sleep(ttl / 4)
					if err := errors.Join(l.Upgrade(t.Context()), l.Downgrade(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Upgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
				next := later(func() (*Lease, error) { return b.Lock(t.Context(), "k") })
				if left := l.Deadline().Sub(granted); left > ttl {
					t.Errorf("it says that it ends after %v", left)
				}
				<-l.Done()
				if took := time.Since(granted); took < ttl-ttl/8 || took > ttl {
					t.Errorf("it ended after %v", took)
				}
				wantIs(t, l.Err(), ErrLost)
				r := <-next
				if took := time.Since(granted); r.err != nil || took > ttl+time.Second {
					t.Errorf("the next one has it after %v: %v", took, r.err)
				}
				unlock(t, r.lease)
			})
		})
	}
}

// Voters know a lease handed off within a node by its alias, the number of the first caller's
// request. An upgrade names the lease by the alias; with any other number the upgrade would wait
// for its own lease indefinitely.
func TestALeaseThatWasPassedOnWithinItsNodeIsUpgraded(t *testing.T) {
	for _, over := range []bool{false, true} { // handed off once, and twice
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.three()
			l := must[*Lease](t)(a.Lock(t.Context(), "k"))
			second := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
			stillWaits(t, second)
			var third <-chan outcome
			if over {
				third = later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
				stillWaits(t, third)
			}
			unlock(t, l)
			r := <-second
			if r.err != nil {
				t.Fatal(r.err)
			}
			l = r.lease
			if over {
				unlock(t, l)
				if r = <-third; r.err != nil {
					t.Fatal(r.err)
				}
				l = r.lease
			}
			before := l.Token()
			if err := l.Downgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			reader := must[*Lease](t)(b.RLock(t.Context(), "k", WithWait(time.Minute)))
			up := later(func() (*Lease, error) { return nil, l.Upgrade(t.Context()) })
			stillWaits(t, up)
			unlock(t, reader)
			select {
			case r := <-up:
				if r.err != nil {
					t.Fatal(r.err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the upgrade hangs")
			}
			if l.Mode() != ModeExclusive || l.Token() <= before {
				t.Errorf("mode %v, token %d after %d", l.Mode(), l.Token(), before)
			}
			unlock(t, l)
		})
	}
}

// WithRevoke asks for as long as its call waits. An upgrade is a later call: it must neither ask
// other readers nor its own lease, whose owner would unlock the lease in the middle of the upgrade.
func TestAnUpgradeAsksNoReaderToGiveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l, other, upgrade := upgrading(t, a, b, WithRevoke(), WithReason("a deploy"))
		for node, reader := range map[string]*Lease{"a": l, "b": other} {
			select {
			case r := <-reader.Revoked():
				t.Errorf("the upgrade asks the reader at %s to give up: %+v", node, r)
			default:
			}
		}
		unlock(t, other)
		if r := <-upgrade; r.err != nil {
			t.Fatal(r.err)
		}
		unlock(t, l)
	})
}

// A lease that ends just before the loop takes up the upgrade. An observer is told of the upgrade
// at that moment.
func TestAnUpgradeOfALeaseThatEndsMeanwhileSaysWhichEnd(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(t *testing.T, b *Mesh, l *Lease)
		want error
	}{
		"unlocked": {func(t *testing.T, _ *Mesh, l *Lease) { unlock(t, l) }, ErrReleased},
		"evicted": {func(t *testing.T, b *Mesh, l *Lease) {
			if err := b.Evict(t.Context(), "k", l.Token(), WithReason("a deploy")); err != nil {
				t.Error(err)
			}
		}, ErrEvicted},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				voters := []string{"a", "b", "c"}
				var end func()
				a := w.join("a", voters, func(c *Config) {
					c.Observer = &Observer{LockRequested: func(ctx context.Context, e LockRequested) context.Context {
						if e.Op == "upgrade" {
							end()
						}
						return ctx
					}}
				})
				b := w.join("b", voters, nil)
				w.join("c", voters, nil)
				if err := errors.Join(a.Ready(t.Context()), b.Ready(t.Context())); err != nil {
					t.Fatal(err)
				}
				l := must[*Lease](t)(a.RLock(t.Context(), "k"))
				end = func() { row.end(t, b, l) }
				err := l.Upgrade(t.Context())
				wantIs(t, err, row.want)
				if ended := l.Err(); errors.Is(err, ErrLost) != errors.Is(ended, ErrLost) {
					t.Errorf("Upgrade says %v, and Err %v", err, ended)
				}
			})
		})
	}
}
