package admin

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// slowly returns a function in place of Mesh.Inspect which takes a while, and counts its calls.
func slowly(took time.Duration) (inspect func(context.Context, string) (lockmesh.Info, error), calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return func(ctx context.Context, key string) (lockmesh.Info, error) {
		calls.Add(1)
		select {
		case <-time.After(took):
			return lockmesh.Info{Key: key}, nil
		case <-ctx.Done():
			return lockmesh.Info{}, ctx.Err()
		}
	}, calls
}

// TestRefusedRequestsShareALook: however many requests of a key are refused, the node asks the
// voters for the key's state once in a while.
func TestRefusedRequestsShareALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		inspect, calls := slowly(50 * time.Millisecond)
		began := time.Now()
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				for time.Since(began) < 2*time.Second {
					if lock := l.at(t.Context(), "k", inspect); lock == nil || lock.Key != "k" {
						t.Errorf("the state of k is %+v", lock)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		clients.Wait()
		if n, most := calls.Load(), int64(2*time.Second/lookAge); n < 2 || n > most {
			t.Errorf("the voters were asked %d times in 2 s, want %d at most", n, most)
		}
		time.Sleep(2 * lookAge)
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.byKey); n != 0 {
			t.Errorf("%d looks are left", n)
		}
	})
}

// TestALookEndsWithItsRequest: while voters are silent, a refused request is answered without the
// key's state, after lookTime at most; the end of one client's connection holds up no other client.
func TestALookEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		silent, _ := slowly(time.Hour)
		gone, end := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		clients.Go(func() { l.at(gone, "k", silent) })
		synctest.Wait()
		began := time.Now()
		clients.Go(func() {
			if lock := l.at(t.Context(), "k", silent); lock != nil || time.Since(began) != time.Millisecond {
				t.Errorf("the state of k after %v: %+v", time.Since(began), lock)
			}
		})
		time.Sleep(time.Millisecond)
		end()
		clients.Wait()
		began = time.Now()
		if lock := l.at(t.Context(), "k", silent); lock != nil || time.Since(began) != lookTime {
			t.Errorf("the state of k after %v: %+v", time.Since(began), lock)
		}
	})
}

// TestLooksAreBounded: beyond MaxAnswers keys at a time, a refused request is answered at once,
// without the state of its key.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		inspect, calls := slowly(time.Millisecond)
		var clients sync.WaitGroup
		for i := range MaxAnswers {
			clients.Go(func() { l.at(t.Context(), strconv.Itoa(i), inspect) })
		}
		synctest.Wait()
		if lock := l.at(t.Context(), "one more", inspect); lock != nil {
			t.Errorf("the state of one more key is %+v", lock)
		}
		clients.Wait()
		if n := calls.Load(); n != MaxAnswers {
			t.Errorf("the voters were asked %d times", n)
		}
		if lock := l.at(t.Context(), "one more", inspect); lock == nil {
			t.Error("the state of one more key isn't known, though the voters have answered")
		}
		for i := range 2 * maxLooks {
			l.at(t.Context(), strconv.Itoa(i), func(context.Context, string) (lockmesh.Info, error) { return lockmesh.Info{}, nil })
		}
		if n := len(l.byKey); n != maxLooks {
			t.Errorf("the states of %d keys are kept", n)
		}
	})
}

// TestARefusalNamesTheHolderOfNow: a client that tries again after lookAge learns the next holder.
func TestARefusalNamesTheHolderOfNow(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, node := range []string{"b", "c"} {
			l, err := m.Node(node).Lock(t.Context(), "job")
			must(t, err)
			var e *Error
			if err := second(s.c.Lock(t.Context(), "job", LockOptions{})); !errors.As(err, &e) || e.Lock == nil ||
				len(e.Lock.Holders) != 1 || e.Lock.Holders[0].Node != node {
				t.Errorf("while %s holds the key: %v", node, err)
			}
			must(t, l.Unlock(t.Context()))
			time.Sleep(2 * lookAge)
		}
	})
}
