package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// about demands that a duration is as wanted, with a margin for messages and the drift of voters'
// clocks.
func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-want/20-100*time.Millisecond || got > want+300*time.Millisecond {
		t.Errorf("%s: %v, want about %v", what, got, want)
	}
}

// leftAt returns the remaining time of a key's single holder, in another node's view, once the
// messages on the way have arrived: a minority of the voters may hear of an end later.
func leftAt(t *testing.T, m *Mesh, key string) time.Duration {
	t.Helper()
	synctest.Wait()
	info := must[Info](t)(m.Inspect(t.Context(), key))
	if len(info.Holders) != 1 {
		t.Fatalf("holders %+v", info.Holders)
	}
	return info.Holders[0].Left
}

// A lease that ends by itself is extended: by less than its length, by its length, by more, and
// beyond MaxTTL (10 s). The lease ends at the extended end, for its user, for Inspect, and for the
// next request in the queue.
func TestALeaseOfASetLengthIsExtended(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, row := range []struct {
		name       string
		ttl        time.Duration
		after      time.Duration // until the extension
		by         time.Duration
		rests      time.Duration // until the end of the lease
		outlives   time.Duration // until the next grant, if the node crashes then
		exactlyTTL bool
	}{
		{"by its length", 5 * time.Second, 4 * time.Second, 5 * time.Second, 9 * time.Second, 9 * time.Second, true},
		{"by less", 5 * time.Second, 4 * time.Second, 3 * time.Second, 7 * time.Second, 9 * time.Second, false},
		{"by less than is left", 5 * time.Second, time.Second, time.Second, 5 * time.Second, 6 * time.Second, false},
		{"by more", 5 * time.Second, 4 * time.Second, 20 * time.Second, 24 * time.Second, 9 * time.Second, false},
		{"of a length beyond MaxTTL", time.Minute, 50 * time.Second, 30 * time.Second, 80 * time.Second, 54 * time.Second, false},
		{"of a length beyond MaxTTL, by less", time.Minute, 50 * time.Second, time.Second, time.Minute, 54 * time.Second, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			take := func(t *testing.T, w *wire) (a, b *Mesh, l *Lease, start time.Time) {
				a, b, _ = w.short()
				start = time.Now()
				l = must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(row.ttl), WithoutRenewal()))
				about(t, "what others see at first", leftAt(t, b, "k"), row.ttl)
				time.Sleep(row.after)
				if err := l.Extend(t.Context(), row.by); err != nil {
					t.Fatal(err)
				}
				return a, b, l, start
			}
			t.Run("to its end", func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					_, b, l, start := take(t, w)
					if !row.exactlyTTL { // else the deadline is as confirmed by the voters
						about(t, "deadline", l.Deadline().Sub(start), row.rests)
					}
					synctest.Wait()
					about(t, "what others see", leftAt(t, b, "k")+time.Since(start), row.rests)
					<-l.Done()
					about(t, "it ended after", time.Since(start), row.rests)
					wantIs(t, l.Err(), ErrLost)
					must[*Lease](t)(b.Lock(t.Context(), "k"))
					about(t, "the next had it after", time.Since(start), row.rests)
				})
			})
			t.Run("its node crashes", func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, b, l, start := take(t, w)
					kept := l.KeptUntil()
					if kept.After(l.Deadline()) || row.exactlyTTL && kept != l.Deadline() {
						t.Errorf("kept until %v, and the deadline is %v", kept, l.Deadline())
					}
					if err := a.Close(); err != nil {
						t.Fatal(err)
					}
					must[*Lease](t)(b.Lock(t.Context(), "k"))
					about(t, "the next had it after", time.Since(start), row.outlives)
					if early := time.Until(kept); early > 0 || early < -time.Second && row.rests >= row.outlives {
						t.Errorf("the next had it %v after the end of the promise", -early)
					}
				})
			})
			t.Run("and is unlocked", func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					_, b, l, _ := take(t, w)
					unlock(t, l)
					next := must[*Lease](t)(b.TryLock(t.Context(), "k"))
					time.Sleep(2 * row.rests) // no timer of the first lease ends anything
					wantIs(t, l.Err(), ErrReleased)
					if err := next.Err(); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

// A lease that is extended again and again goes on, and its Done isn't closed before the end.
func TestALeaseIsExtendedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.short()
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(2*time.Second), WithoutRenewal()))
		done := l.Done()
		for range 20 {
			time.Sleep(time.Second)
			if err := l.Extend(t.Context(), 2*time.Second); err != nil {
				t.Fatal(err)
			}
			select {
			case <-done:
				t.Fatal("Done is closed")
			default:
			}
		}
		wantIs(t, second(b.TryLock(t.Context(), "k")), ErrHeld)
		<-done
		wantIs(t, l.Extend(t.Context(), time.Second), ErrLost)
	})
}

func second[T any](_ T, err error) error { return err }

func TestWhatExtendRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.short()
		renewed := must[*Lease](t)(a.Lock(t.Context(), "renewed", WithTTL(time.Second)))
		wantIs(t, renewed.Extend(t.Context(), time.Second), ErrOption)
		plain := must[*Lease](t)(a.Lock(t.Context(), "plain"))
		wantIs(t, plain.Extend(t.Context(), time.Second), ErrOption)
		fixed := must[*Lease](t)(a.Lock(t.Context(), "fixed", WithTTL(time.Second), WithoutRenewal()))
		for _, d := range []time.Duration{0, -1} {
			wantIs(t, fixed.Extend(t.Context(), d), ErrOption)
		}
		unlock(t, fixed)
		wantIs(t, fixed.Extend(t.Context(), time.Second), ErrReleased)
	})
}

// With two of three voters out of reach an extension can't be confirmed. The lease ends no later
// than without the extension, and the error tells why.
func TestAnExtensionThatNoMajorityConfirms(t *testing.T) {
	for name, patience := range map[string]time.Duration{"the call gives up": time.Second, "the lease ends first": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.short()
				start := time.Now()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(5*time.Second), WithoutRenewal()))
				time.Sleep(time.Second)
				if err := errors.Join(b.Close(), c.Close()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err := l.Extend(ctx, 5*time.Second)
				if patience < 5*time.Second {
					wantIs(t, err, ErrNoQuorum, context.DeadlineExceeded)
				} else {
					wantIs(t, err, ErrLost)
				}
				<-l.Done()
				about(t, "it ended after", time.Since(start), 5*time.Second)
			})
		})
	}
}

// An upgrade keeps the end that Extend has confirmed, whether the lease was extended before the
// upgrade or while the upgrade waited for another reader. An Extend under way is answered.
func TestAnExtendedLeaseIsUpgraded(t *testing.T) {
	for _, by := range []time.Duration{4 * time.Second, 20 * time.Second} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %v, while it waits: %t", by, waits), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, b, _ := w.short()
					l := must[*Lease](t)(a.RLock(t.Context(), "k", WithTTL(5*time.Second), WithoutRenewal()))
					upgrade := func() chan error {
						done := make(chan error, 1)
						go func() { done <- l.Upgrade(t.Context()) }()
						synctest.Wait()
						return done
					}
					var upgraded chan error
					var other *Lease
					if waits {
						other = must[*Lease](t)(b.RLock(t.Context(), "k"))
						upgraded = upgrade()
					}
					time.Sleep(2 * time.Second)
					start, extended := time.Now(), make(chan error, 1)
					go func() { extended <- l.Extend(testwait.Within(t, time.Minute), by) }()
					if waits {
						if err := other.Unlock(t.Context()); err != nil {
							t.Fatal(err)
						}
					} else {
						synctest.Wait()
						upgraded = upgrade()
					}
					for _, done := range []chan error{upgraded, extended} {
						if err := <-done; err != nil {
							t.Fatal(err)
						}
					}
					if l.Mode() != ModeExclusive {
						t.Errorf("the lease is %v", l.Mode())
					}
					about(t, "what others see", leftAt(t, b, "k"), by-time.Since(start))
					<-l.Done()
					about(t, "it ended after", time.Since(start), by)
				})
			})
		}
	}
}

// A shared lease of a set length is upgraded, and extended as an exclusive lease.
func TestAnUpgradedLeaseIsExtended(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Second, time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.short()
				l := must[*Lease](t)(a.RLock(t.Context(), "k", WithTTL(ttl), WithoutRenewal()))
				time.Sleep(ttl / 2)
				if err := l.Upgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(ttl / 4)
				start := time.Now()
				if err := l.Extend(t.Context(), ttl); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				about(t, "what others see", leftAt(t, b, "k"), ttl)
				<-l.Done()
				about(t, "it ended after", time.Since(start), ttl)
			})
		})
	}
}

// The voters grant an upgrade for the time that is left of a lease of a set length. An extension by
// more than this time has the node keep the lease up: the deadline is the new end, and a crash or a
// loss counts as that of any lease kept up by its node.
func TestAnUpgradedLeaseIsExtendedByMoreThanWasLeft(t *testing.T) {
	const atUpgrade, end = 4 * time.Second, 8 * time.Second
	take := func(t *testing.T, a, b *Mesh) (l *Lease, start time.Time) {
		start = time.Now()
		l = must[*Lease](t)(a.RLock(t.Context(), "k", WithTTL(5*time.Second), WithoutRenewal()))
		time.Sleep(atUpgrade)
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Extend(t.Context(), end-atUpgrade); err != nil {
			t.Fatal(err)
		}
		about(t, "deadline", l.Deadline().Sub(start), end)
		synctest.Wait()
		about(t, "what others see", leftAt(t, b, "k")+time.Since(start), end)
		return l, start
	}
	t.Run("to its end", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.short()
			l, start := take(t, a, b)
			<-l.Done()
			about(t, "it ended after", time.Since(start), end)
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			about(t, "the next had it after", time.Since(start), end)
			if got := a.Stats().LeasesEnded; got[EndExpired] != 1 {
				t.Error(got)
			}
		})
	})
	t.Run("its node crashes", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.short()
			_, start := take(t, a, b)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			about(t, "the next had it after", time.Since(start), atUpgrade+time.Second)
		})
	})
	t.Run("its node is cut off", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.short()
			l, _ := take(t, a, b)
			w.stall("a", true)
			<-l.Done()
			wantIs(t, l.Err(), ErrLost)
			if got := a.Stats().LeasesEnded; got[EndLost] != 1 {
				t.Errorf("the lease ended before its end, and counts as %v", got)
			}
		})
	})
}

// An upgrade doesn't move the deadline of an extended lease back: the program may have told the
// time to another process, and the next would have the key before.
func TestAnUpgradeKeepsTheDeadlineOfAnExtendedLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := must[*Lease](t)(a.RLock(t.Context(), "k", WithTTL(10*time.Second), WithoutRenewal()))
		time.Sleep(5 * time.Second)
		check(t, l.Extend(t.Context(), 9*time.Second))
		deadline, kept := l.Deadline(), l.KeptUntil()
		check(t, l.Upgrade(t.Context()))
		if now := l.Deadline(); now.Before(deadline) {
			t.Errorf("the deadline was %v earlier after the upgrade", deadline.Sub(now))
		}
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if early := time.Until(kept); early > 0 {
			t.Errorf("the next had the key %v before the time that KeptUntil had told", early)
		}
	})
}

// An extension that is confirmed while an upgrade waits moves KeptUntil only once the upgraded
// lease lasts as long.
func TestAnExtensionDuringAnUpgradePromisesNoMoreThanTheUpgrade(t *testing.T) {
	for _, by := range []time.Duration{4 * time.Second, 9 * time.Second} {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.three()
			l, other, upgrade := upgrading(t, a, b, WithTTL(10*time.Second), WithoutRenewal())
			time.Sleep(5 * time.Second)
			check(t, l.Extend(t.Context(), by))
			kept := l.KeptUntil()
			time.Sleep(10 * time.Millisecond)
			unlock(t, other)
			if r := <-upgrade; r.err != nil {
				t.Fatal(r.err)
			}
			if now := l.KeptUntil(); now.Before(kept) {
				t.Errorf("by %v: KeptUntil was %v earlier after the upgrade", by, kept.Sub(now))
			}
			check(t, a.Close())
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			if early := time.Until(kept); early > 0 {
				t.Errorf("by %v: the next had the key %v before the time that KeptUntil had told", by, early)
			}
		})
	}
}
