package meshtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

// resource is written right after a check of the lease. In simulated time no event comes in
// between, so no writer may be late.
type resource struct {
	grants atomic.Int64  // so far
	newest atomic.Int64  // the newest grant that has written
	token  atomic.Uint64 // the largest so far
	writes atomic.Int64
	// clocks are set, so a voter without answers about the highest tokens may assume too low a
	// token
	drift bool
}

func (r *resource) granted(t *testing.T, l *lockmesh.Lease) (grant int64) {
	if last := r.token.Swap(l.Token()); last >= l.Token() && !r.drift {
		t.Errorf("token %d follows %d", l.Token(), last)
	}
	return r.grants.Add(1)
}

func (r *resource) write(t *testing.T, node string, grant int64) {
	r.writes.Add(1)
	if newest := r.newest.Swap(grant); grant < newest {
		t.Errorf("%s believes that it holds the lock by grant %d, and grant %d has written", node, grant, newest)
	}
}

// runClient is an application on a node of a name: lock, write for a while, unlock. luck belongs
// to this client alone, so that the order in which clients draw changes no draw.
func runClient(
	t *testing.T, ctx context.Context, m *meshtest.Mesh, name string, luck *rand.Rand, r *resource,
) {
	for ctx.Err() == nil {
		lockOnce(t, ctx, m.Node(name), luck, r)
		time.Sleep(time.Duration(luck.IntN(1000)) * time.Millisecond)
	}
}

func lockOnce(
	t *testing.T, ctx context.Context, node *lockmesh.Mesh, luck *rand.Rand, r *resource,
) {
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lease, err := node.Lock(patience, "k")
	if err != nil {
		// A lock may be granted at the very instant at which patience ends; then it is given back.
		late := patience.Err() != nil && errors.Is(err, context.DeadlineExceeded)
		if !late && !errors.Is(err, lockmesh.ErrHeld) && !errors.Is(err, lockmesh.ErrNoQuorum) && !errors.Is(err, lockmesh.ErrClosed) {
			t.Errorf("%s: %v", node.Name(), err)
		}
		return
	}
	grant := r.granted(t, lease)
	for range 1 + luck.IntN(10) {
		if lease.Err() != nil {
			break
		}
		r.write(t, node.Name(), grant)
		time.Sleep(time.Second)
	}
	_ = lease.Unlock(ctx)
}

// injectFault injects a fault into a node or the network, and undoes earlier faults now and then.
func injectFault(m *meshtest.Mesh, names []string, luck *rand.Rand, clocks bool, state map[string]string) {
	name, other := names[luck.IntN(len(names))], names[luck.IntN(len(names))]
	switch state[name] {
	case "crashed":
		m.Restart(name)
		delete(state, name)
		return
	case "paused":
		m.Resume(name)
		delete(state, name)
		return
	}
	switch luck.IntN(7) {
	case 0:
		m.Crash(name)
		state[name] = "crashed"
	case 1, 2:
		m.Pause(name)
		state[name] = "paused"
	case 3:
		m.Partition([]string{name, other})
	case 4:
		if name != other {
			m.Cut(name, other)
		}
	case 5:
		if !clocks {
			return
		}
		m.SetClock(name, time.Duration(luck.IntN(7200)-3600)*time.Second)
	case 6:
		m.Heal()
	}
}

func TestNothingThatHappensMakesTwoHolders(t *testing.T) {
	sampled.Computes(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			luck := rand.New(rand.NewPCG(seed, 0))
			meshtest.Run(t, 4, func(t *testing.T, m *meshtest.Mesh) {
				names := []string{"a", "b", "c", "d"}
				state := make(map[string]string)
				ctx, stop := context.WithCancel(t.Context())
				var work sync.WaitGroup
				r := resource{drift: seed%2 == 1}
				for i, name := range names {
					own := rand.New(rand.NewPCG(seed, uint64(i+1)))
					work.Go(func() { runClient(t, ctx, m, name, own, &r) })
				}
				for range 100 {
					time.Sleep(time.Duration(luck.IntN(10000)) * time.Millisecond)
					injectFault(m, names, luck, r.drift, state)
				}
				m.Heal()
				for _, name := range names {
					switch state[name] {
					case "paused":
						m.Resume(name)
					case "crashed":
						m.Restart(name)
					}
				}
				m.Ready()
				before := r.writes.Load()
				time.Sleep(time.Minute)
				if after := r.writes.Load(); after < before+10 || before == 0 {
					t.Errorf("%d writes, then %d: nobody works after all is healed", before, after)
				}
				stop()
				work.Wait()
			}, meshtest.WithVoters(3), meshtest.WithLatency(5*time.Millisecond))
		})
	}
}
