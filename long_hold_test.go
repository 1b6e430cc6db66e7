package lockmesh

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// restSlack bounds the latency of the messages of these tests.
const restSlack = 10 * time.Millisecond

// wantResting checks that Inspect and List show a key without a holder, and resting until an
// instant, or longer by the latency of messages, since the voters count from the arrival of the
// message. An instant in the past stands for a key that doesn't rest.
func wantResting(t *testing.T, m *Mesh, key string, until time.Time) {
	t.Helper()
	looks := []Info{must[Info](t)(m.Inspect(t.Context(), key))}
	for info, err := range m.List(t.Context(), key) {
		check(t, err)
		looks = append(looks, info)
	}
	left := max(time.Until(until), 0)
	const drift = 100 * time.Millisecond // a voter's surplus for a hold of 5 s
	if left > 0 && len(looks) != 2 {
		t.Errorf("%s: the key isn't listed: %+v", m.Name(), looks)
	}
	for _, info := range looks {
		if len(info.Holders) > 0 || len(info.Waiters) > 0 || info.Delayed < left-restSlack || info.Delayed > left+restSlack+drift {
			t.Errorf("%s sees %+v; the key rests for %v", m.Name(), info, left)
		}
	}
}

// A rest too long for a promise of the voters is kept up by the node of the key's last lease. Other
// nodes see the same as for a short hold: once Unlock has returned, the key has no holder, and
// rests until the end of the hold.
func TestALongHoldIsSeenAsTheKeysRest(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	const longHold = 10 * time.Minute
	for _, hold := range []time.Duration{5 * time.Second, time.Minute, longHold} {
		for name, lock := range map[string]func(context.Context, *Mesh, ...Option) (*Lease, error){
			"exclusive": func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) { return m.Lock(ctx, "k", opts...) },
			"shared":    func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) { return m.RLock(ctx, "k", opts...) },
			"permit": func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) {
				return m.Semaphore("k", 3).Acquire(ctx, opts...)
			},
			"value": func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) {
				return m.Lock(ctx, "k", append(opts, WithValue([]byte("v")))...)
			},
			"TTL of its own": func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) {
				return m.Lock(ctx, "k", append(opts, WithTTL(4*time.Second))...)
			},
			"upgraded": func(ctx context.Context, m *Mesh, opts ...Option) (*Lease, error) {
				l, err := m.RLock(ctx, "k", opts...)
				if err == nil {
					err = l.Upgrade(ctx)
				}
				return l, err
			},
		} {
			t.Run(fmt.Sprintf("%s, %v", name, hold), func(t *testing.T) {
				if hold == longHold {
					sampled.Unraced(t)
				}
				inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
					a, b, c := w.three()
					client := w.client()
					watch := must[*Watch](t)(client.Watch(t.Context(), "k"))
					time.Sleep(time.Second)
					wantSeen(t, watch, "synced")
					l := must[*Lease](t)(lock(t.Context(), a, WithMinHold(hold)))
					until := time.Now().Add(hold)
					time.Sleep(2 * time.Second)
					if info := must[Info](t)(client.Inspect(t.Context(), "k")); len(info.Holders) != 1 {
						t.Errorf("held: %+v", info)
					}
					check(t, l.Unlock(t.Context()))
					for _, m := range []*Mesh{b, c, client, a} {
						wantResting(t, m, "k", until)
					}
					time.Sleep(time.Second)
					words := seen(t, watch)
					if last := words[len(words)-1]; last != "released k a" && last != "released k a v" || slices.Contains(words[:len(words)-1], last) {
						t.Errorf("the watch tells %q", words)
					}
					synctest.Wait()
					time.Sleep(hold - 4*time.Second)
					wantResting(t, client, "k", until)
					wantIs(t, second(client.TryLock(t.Context(), "k")), ErrHeld)
					time.Sleep(2 * time.Second)
					wantResting(t, client, "k", until)
					wantSeen(t, watch) // the end of the rest isn't the end of a lease
					unlock(t, must[*Lease](t)(client.TryLock(t.Context(), "k")))
				})
			})
		}
	}
}

// If a lease of a set length ends before a long hold, a watch reports the lease as lost, once.
func TestALeaseThatEndsBeforeALongHoldIsSeenAsLost(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		watch := must[*Watch](t)(b.Watch(t.Context(), "k"))
		time.Sleep(time.Second)
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(2*time.Second), WithoutRenewal(), WithMinHold(time.Minute)))
		until := time.Now().Add(time.Minute)
		<-l.Done()
		time.Sleep(100 * time.Millisecond)
		wantResting(t, b, "k", until)
		wantSeen(t, watch, "synced", "granted k a", "lost k a")
		time.Sleep(time.Minute)
		wantSeen(t, watch)
	})
}

// A restarted voter receives the end of the lease again, and a watch that begins while the key
// rests reports no lease.
func TestAVoterThatRestartsKnowsThatTheKeyRests(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		early := must[*Watch](t)(a.Watch(t.Context(), "k"))
		time.Sleep(time.Second)
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithMinHold(10*time.Minute)))
		until := time.Now().Add(10 * time.Minute)
		time.Sleep(time.Second)
		check(t, l.Unlock(t.Context()))
		for _, m := range []*Mesh{b, c} {
			w.leaves(m)
			m = w.join(m.Name(), []string{"a", "b", "c"}, nil)
			check(t, m.Settled(t.Context()))
			time.Sleep(time.Second)
			wantResting(t, a, "k", until)
			wantResting(t, m, "k", until)
			watch := must[*Watch](t)(m.Watch(t.Context(), "k"))
			time.Sleep(time.Second)
			wantSeen(t, watch, "synced")
		}
		wantSeen(t, early, "synced", "granted k a", "released k a")
	})
}

// Unlock returns nil once a majority knows of the end and of the rest. Without a majority Unlock
// fails.
func TestUnlockBeforeALongRestWaitsForAMajority(t *testing.T) {
	for name, end := range map[string]func(w *wire) time.Duration{
		"which comes back": func(w *wire) time.Duration {
			time.AfterFunc(time.Second, func() { w.stall("a", false) })
			return time.Second
		},
		"which stays away": func(*wire) time.Duration { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithMinHold(time.Minute)))
				until := time.Now().Add(time.Minute)
				w.stall("a", true)
				least, began := end(w), time.Now()
				err := l.Unlock(t.Context())
				if took := time.Since(began); took < least {
					t.Errorf("Unlock returned after %v", took)
				}
				if least == 0 {
					wantIs(t, err, ErrNoQuorum)
					w.stall("a", false)
					return
				}
				check(t, err)
				// The voters learn the length of the rest later by least, and count from then.
				wantResting(t, b, "k", until.Add(least))
			})
		})
	}
}
