package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// tokenOf returns the token of a key's single holder, in a node's view.
func tokenOf(t *testing.T, m *Mesh, key string) uint64 {
	t.Helper()
	info := must[Info](t)(m.Inspect(t.Context(), key))
	if len(info.Holders) != 1 {
		t.Fatalf("holders %+v", info.Holders)
	}
	return info.Holders[0].Token
}

// The holder's node ends the lease and reports the evicting node and the reason, and the next
// request in the queue gets the key.
func TestALeaseIsEvicted(t *testing.T) {
	for name, opts := range map[string][]Option{
		"a plain lease":           nil,
		"one with a TTL":          {WithTTL(8 * time.Second)},
		"one of a set length":     {WithTTL(8 * time.Second), WithoutRenewal()},
		"one longer than MaxTTL":  {WithTTL(time.Hour), WithoutRenewal()},
		"one with a value":        {WithValue([]byte("v"))},
		"one with a wish pending": {WithRevoke()},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.short()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", opts...))
				inner := must[*Lease](t)(a.Lock(l.Context(), "k")) // a re-entry ends with the lease
				next := later(func() (*Lease, error) { return c.Lock(t.Context(), "k") })
				stillWaits(t, next)
				start := time.Now()
				if err := b.Evict(t.Context(), "k", tokenOf(t, b, "k"), WithReason("it hangs")); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				for _, l := range []*Lease{l, inner} {
					<-l.Done()
					for _, err := range []error{l.Err(), context.Cause(l.Context())} {
						wantIs(t, err, ErrLost, ErrEvicted)
						if text := err.Error(); !strings.Contains(text, "by b: it hangs") {
							t.Errorf("the user is told %q", text)
						}
					}
				}
				err := l.Unlock(t.Context())
				wantIs(t, err, ErrLost, ErrEvicted)
				if text := err.Error(); !strings.HasPrefix(text, `lockmesh: unlock "k": the lease was evicted: by b`) {
					t.Errorf("Unlock says %q", text)
				}
				if r := <-next; r.err != nil {
					t.Fatal(r.err)
				}
				if took := time.Since(start); took > 200*time.Millisecond {
					t.Errorf("the next had the key after %v", took)
				}
			})
		})
	}
}

// Each call on an evicted lease reports the eviction, not only a loss.
func TestEachCallOfAnEvictedLeaseTellsWhy(t *testing.T) {
	// wantWhy checks that an error reports the eviction.
	wantWhy := func(t *testing.T, op string, err error) {
		t.Helper()
		wantIs(t, err, ErrLost, ErrEvicted)
		text := fmt.Sprint(err)
		if !strings.HasPrefix(text, "lockmesh: "+op+` "k": the lease was evicted: by b: it hangs`) || strings.Count(text, "lockmesh") > 1 {
			t.Errorf("it says %q", text)
		}
	}
	evict := func(t *testing.T, b *Mesh, token uint64) {
		t.Helper()
		if err := b.Evict(t.Context(), "k", token, WithReason("it hangs")); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("leases", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.three()
			all := must[*Leases](t)(a.LockAll(t.Context(), "j", "k", "l"))
			ctx := all.Context()
			evict(t, b, tokenOf(t, b, "k"))
			<-all.Done()
			wantWhy(t, "lease", all.Err())
			wantWhy(t, "lease", context.Cause(ctx))
			wantWhy(t, "unlock", all.Unlock(t.Context()))
		})
	})
	t.Run("lockall", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, c := w.three()
			must[*Lease](t)(c.Lock(t.Context(), "l"))
			locked := make(chan error, 1)
			go func() {
				_, err := a.LockAll(t.Context(), "j", "k", "l")
				locked <- err
			}()
			synctest.Wait()
			evict(t, b, tokenOf(t, b, "k"))
			err := <-locked
			wantWhy(t, "lockall", err)
			if !strings.Contains(fmt.Sprint(err), `the lease ended before "l" was held`) {
				t.Error(err)
			}
			must[*Lease](t)(b.Lock(t.Context(), "j")) // no lease is left behind
		})
	})
	t.Run("upgrade", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, c := w.three()
			must[*Lease](t)(c.RLock(t.Context(), "k"))
			l := must[*Lease](t)(a.RLock(t.Context(), "k"))
			upgraded := make(chan error, 1)
			go func() { upgraded <- l.Upgrade(t.Context()) }()
			time.Sleep(time.Second)
			if open(upgraded) {
				t.Fatal("it doesn't wait for the other reader")
			}
			evict(t, b, l.Token())
			err := <-upgraded
			wantWhy(t, "upgrade", err)
			if !strings.HasSuffix(fmt.Sprint(err), "the lease ended before it was upgraded: the lease is lost") {
				t.Error(err)
			}
			for op, err := range map[string]error{ // later calls
				"upgrade": l.Upgrade(t.Context()), "downgrade": l.Downgrade(t.Context()), "setvalue": l.SetValue(t.Context(), nil),
			} {
				wantWhy(t, op, err)
			}
		})
	})
	for op, call := range map[string]func(context.Context, *Lease) error{
		"setvalue": func(ctx context.Context, l *Lease) error { return l.SetValue(ctx, []byte("v")) },
		"extend":   func(ctx context.Context, l *Lease) error { return l.Extend(ctx, 9*time.Second) },
	} {
		t.Run(op, func(t *testing.T) {
			inBubbleOver(t, 10*time.Millisecond, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(8*time.Second), WithoutRenewal()))
				token := tokenOf(t, b, "k")
				evicted := make(chan error, 1)
				go func() { evicted <- b.Evict(t.Context(), "k", token, WithReason("it hangs")) }()
				for {
					err := call(t.Context(), l) // under way when the evict request arrives
					if err != nil {
						wantWhy(t, op, err)
						break
					}
				}
				if err := <-evicted; err != nil {
					t.Fatal(err)
				}
				wantWhy(t, op, call(t.Context(), l))
			})
		})
	}
	t.Run("barrier", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.three()
			entered := make(chan error, 1)
			go func() { entered <- a.DoubleBarrier("k", 2).Enter(t.Context()) }()
			time.Sleep(time.Second)
			evict(t, b, tokenOf(t, b, "k"))
			wantWhy(t, "enter", <-entered)
		})
	})
}

// Of several leases on a key, Evict ends only the lease with the given token.
func TestOneOfSeveralHoldersIsEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		readers := []*Lease{
			must[*Lease](t)(a.RLock(t.Context(), "k")), must[*Lease](t)(b.RLock(t.Context(), "k")), must[*Lease](t)(a.RLock(t.Context(), "k")),
		}
		synctest.Wait()
		if err := c.Evict(t.Context(), "k", readers[2].Token()); err != nil {
			t.Fatal(err)
		}
		for i, l := range readers {
			if err := l.Err(); (err != nil) != (i == 2) {
				t.Errorf("reader %d: %v", i, err)
			}
		}
		wantIs(t, readers[2].Err(), ErrEvicted)
		if err := c.Evict(t.Context(), "k", readers[2].Token()); err != nil {
			t.Errorf("evicted before: %v", err)
		}
	})
}

// Evict ends no lease if no holder has the token: the token of a lease that is over, or of a lease
// in the future.
func TestNoOtherLeaseIsEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		first := must[*Lease](t)(a.Lock(t.Context(), "k"))
		old := tokenOf(t, b, "k")
		unlock(t, first)
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		for _, token := range []uint64{old, tokenOf(t, b, "k") + vote.BlockSize, 1<<63 - 1} {
			if err := b.Evict(t.Context(), "k", token); err != nil {
				t.Error(err)
			}
		}
		if err := b.Evict(t.Context(), "never used", 7); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

// passedOn returns a lease after a hand-off within its node, so that the voters know the token of
// the lease before.
func passedOn(t *testing.T, m *Mesh, key string, opts ...Option) *Lease {
	t.Helper()
	first := must[*Lease](t)(m.Lock(t.Context(), key, opts...))
	next := later(func() (*Lease, error) { return m.Lock(t.Context(), key) })
	stillWaits(t, next)
	time.Sleep(DefaultMaxTTL) // the lease has been renewed since the second call
	unlock(t, first)
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.lease
}

// After a hand-off within a node, Evict ends the lease only with the lease's own token. With the
// token of the lease before, Evict fails, and the error names the token to use.
func TestALeaseThatWasPassedOnWithinItsNodeIsEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := passedOn(t, a, "k")
		for _, m := range []*Mesh{a, b} {
			err := m.Evict(t.Context(), "k", l.Token()-1) // the token of the lease before
			wantIs(t, err, ErrHeld)
			if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("use the token %d", l.Token())) {
				t.Errorf("it says %q", text)
			}
		}
		if err := l.Err(); err != nil {
			t.Errorf("the lease: %v", err)
		}
		if err := l.Downgrade(t.Context()); err != nil { // now a shared lease, with the same token
			t.Fatal(err)
		}
		wantIs(t, b.Evict(t.Context(), "k", l.Token()-1), ErrHeld)
		if err := b.Evict(t.Context(), "k", l.Token()); err != nil {
			t.Error(err)
		}
		wantIs(t, l.Err(), ErrLost, ErrEvicted)
	})
}

// After a hand-off Inspect never shows the value of the lease before.
func TestALeasePassedOnHasNoValue(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for range 20 {
			first := must[*Lease](t)(a.Lock(t.Context(), "k"))
			next := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
			stillWaits(t, next)
			if err := first.SetValue(t.Context(), []byte("of the first")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(DefaultMaxTTL) // the lease has been renewed since the second call
			unlock(t, first)
			r := <-next
			if r.err != nil {
				t.Fatal(r.err)
			}
			info := must[Info](t)(b.Inspect(t.Context(), "k"))
			if len(info.Holders) != 1 || len(info.Holders[0].Value) != 0 {
				t.Fatalf("the next lease is granted, and Inspect shows %+v", info.Holders)
			}
			unlock(t, r.lease)
		}
	})
}

// A key rests after an eviction as after any other end without an Unlock: for a lock-delay, or
// until the end of a minimum hold.
func TestTheKeyRestsAfterAnEviction(t *testing.T) {
	for name, opt := range map[string]Option{"lock-delay": WithDelay(4 * time.Second), "least time": WithMinHold(4 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.short()
				must[*Lease](t)(a.Lock(t.Context(), "k", opt))
				start := time.Now()
				if err := b.Evict(t.Context(), "k", tokenOf(t, b, "k")); err != nil {
					t.Fatal(err)
				}
				must[*Lease](t)(b.Lock(t.Context(), "k"))
				about(t, "the next had it after", time.Since(start), 4*time.Second)
			})
		})
	}
}

// The lease of a dead node ends within its TTL, evicted or not. Evict waits for this end; if the
// context ends first, the error names the holder's node.
func TestADeadHolderIsEvictedByTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		_, b, _ := w.three()
		client := w.client()
		must[*Lease](t)(client.Lock(t.Context(), "k"))
		token := tokenOf(t, b, "k")
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.Evict(ctx, "k", token)
		wantIs(t, err, ErrHeld, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), client.Name()+" was asked to end the lease and hasn't yet") {
			t.Errorf("it says %v", err)
		}
		if err := b.Evict(t.Context(), "k", token); err != nil {
			t.Fatal(err)
		}
		about(t, "it ended after", time.Since(start), 10*time.Second)
		must[*Lease](t)(b.TryLock(t.Context(), "k"))
	})
}

// All voters have answered, but the holder is dead, and only the holder knows the number of its
// hand-offs. An inspection with a context that ends meanwhile reports no lack of voters.
func TestAnInspectionThatGoesOnIsNotShortOfVoters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		_, b, _ := w.three()
		client := w.client()
		token := must[*Lease](t)(client.Lock(t.Context(), "k")).Token()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		looks := map[string]func(context.Context) error{
			"inspect": func(ctx context.Context) error { _, err := b.Inspect(ctx, "k"); return err },
			"leader":  func(ctx context.Context) error { _, err := b.Election("k").Leader(ctx); return err },
			"list":    func(ctx context.Context) error { _, err := b.ListPage(ctx, "k", "", 1); return err },
			"evict":   func(ctx context.Context) error { return b.Evict(ctx, "k", token) },
		}
		for name, look := range looks {
			for _, d := range []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond} {
				err := look(testwait.Within(t, d))
				if name == "list" && err == nil {
					continue // ListPage shows the first token, and waits for no holder
				}
				wantIs(t, err, context.DeadlineExceeded)
				wantNot(t, err, ErrNoQuorum)
			}
		}
		// Evict has found the holder before the context ends within a later inspection.
		for d := 120 * time.Millisecond; d < 300*time.Millisecond; d += 10 * time.Millisecond {
			wantIs(t, b.Evict(testwait.Within(t, d), "k", token), context.DeadlineExceeded, ErrHeld)
		}
	})
}

func TestWhatEvictRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		wantIs(t, a.Evict(t.Context(), "", 1), ErrKey)
		wantIs(t, a.Evict(t.Context(), "k", 0), ErrOption)
		wantIs(t, a.Evict(t.Context(), "k", math.MaxInt64+1), ErrOption) // no message can contain it
		wantIs(t, a.Evict(t.Context(), "k", math.MaxUint64), ErrOption)
		wantIs(t, a.Evict(t.Context(), "k", 1, WithTTL(time.Second)), ErrOption)
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		token := tokenOf(t, a, "k")
		if err := errors.Join(b.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		wantIs(t, a.Evict(t.Context(), "k", token), ErrNoQuorum)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantIs(t, a.Evict(t.Context(), "k", token), ErrClosed)
	})
}

// Lead begins another turn after an eviction, as after any other loss.
func TestALeaderIsEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		turns := make(chan error, 2)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		over := make(chan error, 1)
		go func() {
			over <- a.Lead(ctx, "job", func(ctx context.Context) error {
				<-ctx.Done()
				turns <- context.Cause(ctx)
				return nil
			})
		}()
		synctest.Wait()
		if err := b.Evict(t.Context(), "job", tokenOf(t, b, "job"), WithReason("drained")); err != nil {
			t.Fatal(err)
		}
		wantIs(t, <-turns, ErrEvicted)
		time.Sleep(10 * time.Second)
		tokenOf(t, b, "job") // a leads again
		stop()
		<-over
	})
}
