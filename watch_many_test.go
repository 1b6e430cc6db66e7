package lockmesh

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// fastReader only reads a watch.
type fastReader struct {
	mu   sync.Mutex
	told map[EventKind]int
	keys map[string]EventKind // the newest event of each key
}

// readFast returns once the watch has reported its first state: a lease that ends before this state
// is in no watch.
func readFast(w *Watch) *fastReader {
	r := &fastReader{told: make(map[EventKind]int), keys: make(map[string]EventKind)}
	first, synced := sync.Once{}, make(chan struct{})
	go func() {
		for e := range w.Events() {
			if e.Kind == EventSynced {
				first.Do(func() { close(synced) })
			}
			r.mu.Lock()
			r.told[e.Kind]++
			if e.Key != "" {
				r.keys[e.Key] = e.Kind
			}
			r.mu.Unlock()
		}
	}()
	<-synced
	return r
}

// want waits until all events have arrived, for a TTL and a while longer. The reader must then have
// received the given numbers of grants and ends since the last call, an end or a grant for each
// key, and no gap.
func (r *fastReader) want(t *testing.T, granted, released, lost int) {
	t.Helper()
	time.Sleep(15 * time.Second)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range []struct {
		kind EventKind
		want int
	}{{EventGranted, granted}, {EventReleased, released}, {EventLost, lost}, {EventGap, 0}} {
		if got := r.told[of.kind]; got != of.want {
			t.Errorf("%d times %v was told, want %d", got, of.kind, of.want)
		}
	}
	clear(r.told)
	if len(r.keys) != max(granted, released, lost) {
		t.Errorf("%d keys were told of", len(r.keys))
	}
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("p/%05d", i)
	}
	return keys
}

// A batch that begins or ends at once is reported as a whole to a reader that only reads. The
// watching node votes, so its own voter reports all keys together.
func TestABatchIsToldToAFastReaderWithoutAGap(t *testing.T) {
	t.Parallel()
	for _, n := range []int{600, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if n > 1000 {
				sampled.Computes(t)
				sampled.Unraced(t)
			}
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				voters := []string{"a", "b", "c"}
				d, e, f := w.join("d", voters, nil), w.join("e", voters, nil), w.join("f", voters, nil)
				r := readFast(must[*Watch](t)(b.WatchPrefix(t.Context(), "p")))
				leases := must[*Leases](t)(a.LockAll(t.Context(), manyKeys(n)...))
				if err := leases.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.want(t, n, n, 0)
				lock := func(m *Mesh) {
					for _, key := range manyKeys(n) {
						must[*Lease](t)(m.Lock(t.Context(), key))
					}
					r.want(t, n, 0, 0)
				}
				lock(d)
				if err := d.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.want(t, 0, n, 0)
				lock(e)
				if err := e.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.want(t, 0, n, 0)
				lock(f)
				w.processes[f].Kill()
				r.want(t, 0, 0, n)
			})
		})
	}
}

// Distant voters report many keys in one message after the other. Keys with reports under way are
// no reason for a gap.
func TestManyKeysAtOnceAreToldWithoutAGap(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, latency := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			if latency > time.Millisecond {
				sampled.Unraced(t)
			}
			inBubbleOver(t, latency, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				d := w.join("d", []string{"a", "b", "c"}, nil)
				if err := d.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				const n = 3000
				voter := readFast(must[*Watch](t)(b.WatchPrefix(t.Context(), "p")))
				other := readFast(must[*Watch](t)(d.WatchPrefix(t.Context(), "p")))
				var all sync.WaitGroup
				for _, key := range manyKeys(n) {
					all.Go(func() {
						if _, err := a.Lock(t.Context(), key); err != nil {
							t.Errorf("%q: %v", key, err)
						}
					})
				}
				all.Wait()
				voter.want(t, n, 0, 0)
				other.want(t, n, 0, 0)
				if err := a.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				voter.want(t, 0, n, 0)
				other.want(t, 0, n, 0)
			})
		})
	}
}

// A watch of a key that rests for long is told of the key's next lease without a gap, though the
// voters have forgotten all older events of a busy mesh by then.
func TestAWatchOfAQuietKeyHasNoGapInABusyMesh(t *testing.T) {
	sampled.Computes(t)
	sampled.Unraced(t)
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		key, prefix := must[*Watch](t)(c.Watch(t.Context(), "quiet")), must[*Watch](t)(c.WatchPrefix(t.Context(), "qui"))
		wantSeen(t, key, "synced")
		wantSeen(t, prefix, "synced")
		const leases = 9000 // a voter remembers 16,384 events at most, and each lease has two
		for range leases {
			l := must[*Lease](t)(a.Lock(t.Context(), "busy"))
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		must[*Lease](t)(b.Lock(t.Context(), "quiet"))
		wantSeen(t, key, "granted quiet b")
		wantSeen(t, prefix, "granted quiet b")
	})
}
