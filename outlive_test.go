package lockmesh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// A reader taken with the writer's context goes on after the writer's Unlock, lets other readers in
// but no writer, and gives back the key at the end.
func TestAReaderOutlivesTheWriterThatItHasReentered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
		within := must[*Lease](t)(a.Lock(writer.Context(), "k"))
		reader := must[*Lease](t)(a.RLock(within.Context(), "k"))
		if writer.Mode() != ModeExclusive {
			t.Error(writer.Mode())
		}
		_, err := b.TryRLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		waiting := later(func() (*Lease, error) { return b.RLock(t.Context(), "k") })

		unlock(t, writer)
		wantIs(t, writer.Err(), ErrReleased)
		wantIs(t, within.Err(), ErrReleased)
		wantIs(t, writer.Unlock(t.Context()), ErrReleased)
		if err := reader.Err(); err != nil {
			t.Fatal(err)
		}
		if reader.Mode() != ModeShared || reader.Token() != writer.Token() || reader.Depth() != 1 {
			t.Errorf("mode %v, token %d after %d, depth %d", reader.Mode(), reader.Token(), writer.Token(), reader.Depth())
		}
		other := (<-waiting).lease // granted as soon as the writer has gone
		unlock(t, other)
		_, err = a.Lock(reader.Context(), "k")
		wantIs(t, err, ErrClash)
		time.Sleep(time.Minute) // for many TTLs
		_, err = b.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		if held := a.Status().Held; len(held) != 1 || reader.Err() != nil || reader.Context().Err() != nil {
			t.Errorf("%v, %v", held, reader.Err())
		}

		again := must[*Lease](t)(a.RLock(reader.Context(), "k"))
		unlock(t, reader)
		_, err = b.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		if err := again.SetValue(t.Context(), []byte("v")); err != nil {
			t.Error(err)
		}
		if err := again.Upgrade(t.Context()); err != nil || again.Mode() != ModeExclusive {
			t.Errorf("%v, %v", err, again.Mode())
		}
		if err := again.Downgrade(t.Context()); err != nil || again.Mode() != ModeShared {
			t.Errorf("%v, %v", err, again.Mode())
		}
		unlock(t, again)
		if n := again.Depth(); n != 0 {
			t.Errorf("the depth is %d", n)
		}
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

// A reader outlives a Do that has returned, and the leases of a LockAll.
func TestAReaderOutlivesDoAndLockAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		var reader *Lease
		if err := a.Do(t.Context(), "k", func(ctx context.Context, _ *Lease) (err error) {
			reader, err = a.RLock(ctx, "k")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		all := must[*Leases](t)(a.LockAll(t.Context(), "l", "m"))
		second := must[*Lease](t)(a.RLock(all.Context(), "l"))
		if err := all.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "m")))
		for _, l := range []*Lease{reader, second} {
			unlock(t, must[*Lease](t)(b.TryRLock(t.Context(), l.Key())))
			_, err := b.TryLock(t.Context(), l.Key())
			wantIs(t, err, ErrHeld)
			unlock(t, l)
			unlock(t, must[*Lease](t)(b.TryLock(t.Context(), l.Key())))
		}
	})
}

// A reader that has outlived its writer ends by a loss, and with its node, as the writer would.
func TestAReaderThatHasOutlivedItsWriterEnds(t *testing.T) {
	ends := map[string]struct {
		end  func(t *testing.T, w *wire, a *Mesh)
		want error
	}{
		"when its node is cut off": {func(t *testing.T, w *wire, a *Mesh) { w.stall("a", true) }, ErrLost},
		"when its node closes":     {func(t *testing.T, w *wire, a *Mesh) { _ = a.Close() }, ErrClosed},
		"when its node leaves": {func(t *testing.T, w *wire, a *Mesh) {
			if err := a.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}, ErrReleased},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
				reader := must[*Lease](t)(a.RLock(writer.Context(), "k"))
				unlock(t, writer)
				began := time.Now()
				c.end(t, w, a)
				<-reader.Done()
				wantIs(t, reader.Err(), c.want)
				wantIs(t, context.Cause(reader.Context()), c.want)
				if took := time.Since(began); took > DefaultMaxTTL {
					t.Errorf("it ended after %v", took)
				}
				if reader.Unlock(t.Context()) == nil {
					t.Error("it was given back")
				}
				unlock(t, must[*Lease](t)(b.Lock(t.Context(), "k")))
			})
		})
	}
	t.Run("by its own clock, when nothing runs", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, b, _ := w.three()
			writer := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(time.Second), WithoutRenewal()))
			reader := must[*Lease](t)(a.RLock(writer.Context(), "k"))
			unlock(t, writer)
			time.Sleep(time.Second)
			wantIs(t, reader.Err(), ErrLost)
			unlock(t, must[*Lease](t)(b.Lock(t.Context(), "k")))
		})
	})
}

// Unlock may have found no reader, and not have ended the lease yet, when the first reader comes.
// This reader isn't let in: the reader would end with the writer.
func TestTheFirstReaderIsTooLateForAnUnlockThatHasBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
		if writer.endReentries() != nil {
			t.Error("readers keep the key")
		}
		wantIs(t, second(a.TryRLock(writer.Context(), "k")), ErrHeld)
		wantIs(t, second(a.TryLock(writer.Context(), "k")), ErrHeld)
		if n := writer.Depth(); n != 1 {
			t.Errorf("the key is held %d times", n)
		}
		unlock(t, writer)
		unlock(t, must[*Lease](t)(a.TryLock(t.Context(), "k")))
	})
}

// A writer unlocks while readers and writers re-enter its lease, all at once. In any order, the key
// is free once all granted leases are unlocked, and no lease is left behind.
func TestReadersReenterWhileTheWriterUnlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for round := range 200 {
			writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
			ctx := writer.Context()
			done := make(chan error, 10)
			for range 4 {
				go func() {
					l, err := a.TryRLock(ctx, "k")
					// A reader that comes too late is refused, or finds the context ended.
					if errors.Is(err, ErrHeld) || errors.Is(err, context.Canceled) {
						err = nil
					} else if err == nil {
						err = l.Unlock(t.Context())
					}
					done <- err
				}()
			}
			for range 2 {
				go func() {
					l, err := a.TryLock(ctx, "k")
					if err == nil {
						if err = l.Unlock(t.Context()); errors.Is(err, ErrReleased) {
							err = nil // the inner lease ended with the writer
						}
					} else if errors.Is(err, ErrHeld) || errors.Is(err, ErrClash) || errors.Is(err, context.Canceled) {
						err = nil
					}
					done <- err
				}()
			}
			go func() { done <- writer.Unlock(t.Context()) }()
			for range 7 {
				if err := <-done; err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
		}
		if s := a.Status(); len(s.Held)+len(s.Waiting) != 0 {
			t.Errorf("%v", s)
		}
	})
}

// After a failed upgrade a nested reader still outlives the lease around the reader.
func TestAReaderOutlivesTheOthersAfterAFailedUpgrade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		outer := must[*Lease](t)(a.RLock(t.Context(), "k"))
		reader := must[*Lease](t)(a.RLock(outer.Context(), "k"))
		other := must[*Lease](t)(b.RLock(t.Context(), "k"))
		short, long := testwait.Within(t, time.Second), testwait.Within(t, 2*time.Second)
		both := make(chan error, 2)
		go func() { both <- reader.Upgrade(short) }()
		go func() { both <- reader.Upgrade(long) }()
		for range 2 { // the later upgrade clashes with the earlier upgrade
			if err := <-both; err == nil {
				t.Error("both other readers hold the key, and the upgrade is granted")
			}
		}
		unlock(t, other)
		unlock(t, outer)
		if err := errors.Join(reader.Err(), reader.Context().Err()); err != nil || reader.Mode() != ModeShared {
			t.Fatalf("%v, mode %v", err, reader.Mode())
		}
		_, err := b.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		unlock(t, reader)
		must[*Lease](t)(b.TryLock(t.Context(), "k"))
	})
}

// An upgraded reader ends with the lease around it, and outlives that lease again once it is
// downgraded. While one of two readers is still upgraded, that reader ends alone.
func TestAReaderOutlivesTheOthersAfterADowngrade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for name, lock := range map[string]func(context.Context, string, ...Option) (*Lease, error){
			"of a writer": a.Lock, "of a reader": a.RLock,
		} {
			outer := must[*Lease](t)(lock(t.Context(), "k"))
			reader := must[*Lease](t)(a.RLock(outer.Context(), "k"))
			upgraded := must[*Lease](t)(a.RLock(reader.Context(), "k"))
			for range 2 {
				for _, l := range []*Lease{upgraded, reader, reader} {
					if err := l.Upgrade(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := reader.Downgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			unlock(t, outer)
			if err := reader.Err(); err != nil || reader.Mode() != ModeShared || reader.Depth() != 1 {
				t.Errorf("%s: %v, mode %v, depth %d", name, err, reader.Mode(), reader.Depth())
			}
			wantIs(t, upgraded.Err(), ErrReleased)
			_, err := b.TryLock(t.Context(), "k")
			wantIs(t, err, ErrHeld)
			_ = reader.Unlock(t.Context())
			synctest.Wait()
			unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
			synctest.Wait()
		}
	})
}

// The end of readers to which a writer has left the key counts as it comes, and not as the writer's
// Unlock: a loss of the key is a loss.
func TestTheEndOfReadersThatHaveOutlivedTheirWriterIsCounted(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(t *testing.T, w *wire, a, b *Mesh, reader *Lease)
		want EndReason
		err  error
	}{
		"unlocked": {func(t *testing.T, _ *wire, _, _ *Mesh, reader *Lease) { unlock(t, reader) }, EndUnlocked, ErrReleased},
		"lost": {func(_ *testing.T, w *wire, _, _ *Mesh, reader *Lease) {
			w.stall("a", true)
			<-reader.Done()
		}, EndLost, ErrLost},
		"lost while the process was stopped": {func(t *testing.T, w *wire, a, _ *Mesh, reader *Lease) {
			w.processes[a].Pause()
			time.Sleep(time.Minute)
			w.processes[a].Resume()
			wantIs(t, reader.Err(), ErrLost)
		}, EndLost, ErrLost},
		"evicted": {func(t *testing.T, _ *wire, _, b *Mesh, reader *Lease) {
			if err := b.Evict(t.Context(), "k", reader.Token()); err != nil {
				t.Error(err)
			}
		}, EndEvicted, ErrEvicted},
		"left": {func(t *testing.T, _ *wire, a, _ *Mesh, _ *Lease) {
			if err := a.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}, EndReleased, ErrReleased},
		"closed": {func(_ *testing.T, _ *wire, a, _ *Mesh, _ *Lease) { _ = a.Close() }, EndClosed, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				var s told
				a, b, _ := w.observed(&s)
				writer := must[*Lease](t)(a.Lock(t.Context(), "k"))
				reader := must[*Lease](t)(a.RLock(writer.Context(), "k"))
				unlock(t, writer)
				row.end(t, w, a, b, reader)
				wantIs(t, reader.Err(), row.err)
				wantIs(t, writer.Err(), ErrReleased)
				got := take[LeaseEnded](&s)
				if len(got) != 1 || got[0].Reason != row.want {
					t.Fatalf("told %+v, want %s", got, row.want)
				}
				wantIs(t, got[0].Err, row.err)
				if got := a.Stats().LeasesEnded; got[row.want] != 1 {
					t.Errorf("counted %v, want one %s", got, row.want)
				}
			})
		})
	}
}
