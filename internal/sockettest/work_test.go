package sockettest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// envWork is the number of keys in use beside the watches; make soak uses many keys.
const envWork = "LOCKMESH_WORK_KEYS"

// keysHeld has a node hold keys, acquired on many goroutines.
func (r *onLoopback) keysHeld(m *lockmesh.Mesh, prefix string, n int) []*lockmesh.Lease {
	leases := make([]*lockmesh.Lease, n)
	var work sync.WaitGroup
	for g := range 64 {
		work.Go(func() {
			for i := g; i < n; i += 64 {
				leases[i], _ = m.Lock(testwait.Within(r.t, patience), fmt.Sprintf("%s/%06d", prefix, i))
			}
		})
	}
	work.Wait()
	for i, l := range leases {
		if l == nil {
			r.t.Fatalf("key %d of %s isn't held", i, prefix)
		}
	}
	return leases
}

// The queries of a node cost no other node a lease: while a node begins thirty watches of all keys
// in use, no lease is lost. (With 60,000 keys all 500 leases were lost, before the voters worked in
// pieces.)
func TestOnLoopbackWatchesOfAllKeysLoseNoLease(t *testing.T) {
	keys := 2000
	if text := os.Getenv(envWork); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q: it must be a whole number above 0", envWork, text)
		}
		keys = n
	}
	t.Parallel()
	r := calm(t)
	crowd, holder, watcher := r.join("crowd", nil), r.join("holder", nil), r.join("watcher", nil)
	for _, m := range []*lockmesh.Mesh{crowd, holder, watcher} {
		r.ready(m)
	}
	r.keysHeld(crowd, "crowd", keys)
	leases := r.keysHeld(holder, "held", 500)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var work sync.WaitGroup
	for range 30 {
		watch, err := watcher.WatchPrefix(ctx, "")
		check(t, err)
		work.Go(func() {
			n := 0
			for e := range watch.Events() {
				if e.Kind == lockmesh.EventSynced {
					break
				}
				if e.Kind == lockmesh.EventGap {
					n = 0
				}
				n++
			}
			if n < min(keys, 60_000) {
				t.Errorf("a watch begins with %d keys: %v", n, watch.Err())
			}
		})
	}
	least := r.ttl
	stop := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for {
			for _, l := range leases {
				least = min(least, time.Until(l.Deadline()))
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	work.Wait()
	took := time.Since(began)
	close(stop)
	look.Wait()
	t.Logf("%d keys: thirty watches have begun after %v; a lease had at least %v of %v left", keys, took, least, r.ttl)
	cancel()
	lost := 0
	for _, l := range leases {
		if l.Err() != nil {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d leases are lost", lost, len(leases))
	}
}
