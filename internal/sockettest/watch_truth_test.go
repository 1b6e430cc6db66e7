package sockettest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// watchedLeases is the number of leases granted under watch. LOCKMESH_WATCHED sets another number.
func watchedLeases(t *testing.T) int {
	t.Helper()
	return count(t, "LOCKMESH_WATCHED", 500, 800)
}

// turnsAhead is the largest number of granted leases that some watch hasn't reported yet: so few
// that no reader has more events waiting than a watch keeps.
const turnsAhead = 60

// record has the leases of some keys, and how far the watches have reported the leases.
type record struct {
	mu     sync.Mutex
	some   *sync.Cond
	leases map[string][]lockmesh.Event // by key, in order: the expected events
	many   int
	told   []int // by watch: the number of reported ends of leases
}

// granted notes a lease while it is held, and waits while a watch is far behind.
func (r *record) granted(l *lockmesh.Lease, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[l.Key()] = append(r.leases[l.Key()], lockmesh.Event{Key: l.Key(), Node: node, Token: l.Token(), Mode: l.Mode()})
	r.many++
	for r.behind() {
		r.some.Wait()
	}
}

func (r *record) behind() bool {
	for _, told := range r.told {
		if r.many-told > turnsAhead {
			return true
		}
	}
	return false
}

// follow compares the events of a watch with the record, until the watch has reported the ends of
// so many leases. An unexpected event ends the watch's part.
func (r *record) follow(t *testing.T, w *lockmesh.Watch, at, leases int) {
	defer func() { // so that no goroutine waits for this watch
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told[at] = leases + turnsAhead
		r.some.Broadcast()
	}()
	next, held := make(map[string]int), make(map[string]bool)
	for told := 0; told < leases; {
		e, ok := <-w.Events()
		if !ok {
			t.Errorf("watch %d ended after %d leases: %v", at, told, w.Err())
			return
		}
		if e.Kind == lockmesh.EventWaiting {
			continue
		}
		r.mu.Lock()
		var want lockmesh.Event
		if all := r.leases[e.Key]; next[e.Key] < len(all) {
			want = all[next[e.Key]]
		}
		r.mu.Unlock()
		kind := lockmesh.EventGranted
		if held[e.Key] {
			kind = lockmesh.EventReleased
		}
		// A grant may be reported before its client has recorded the lease; the end of the lease is
		// then compared.
		early := want.Token == 0 && e.Kind == lockmesh.EventGranted && kind == lockmesh.EventGranted
		if !early && (e.Kind != kind || e.Token != want.Token || e.Node != want.Node || e.Mode != want.Mode || e.Current) {
			t.Errorf("watch %d told %v after %d leases; want %v by %s, token %d", at, e, told, kind, want.Node, want.Token)
			return
		}
		if held[e.Key] = kind == lockmesh.EventGranted; !held[e.Key] {
			next[e.Key]++
			told++
			r.mu.Lock()
			r.told[at] = told
			r.some.Broadcast()
			r.mu.Unlock()
		}
	}
}

// On a healthy mesh with fast readers a watch reports each lease and its end once, in order,
// without a gap, and no lease as lost. The same holds if only callers of a single node take turns,
// where unwatched leases would be handed off within the node.
func TestAWatchIsATrueStory(t *testing.T) {
	t.Parallel()
	t.Run("a caller on each node", func(t *testing.T) {
		watchTurns(t, "each", func(all []*lockmesh.Mesh) []*lockmesh.Mesh { return all })
	})
	t.Run("four callers on one node", func(t *testing.T) {
		watchTurns(t, "four", func(all []*lockmesh.Mesh) []*lockmesh.Mesh { return slices.Repeat(all[3:], 4) })
	})
}

// watchTurns watches callers that take turns, on four nodes or several on one node.
func watchTurns(t *testing.T, prefix string, callers func([]*lockmesh.Mesh) []*lockmesh.Mesh) {
	r := calm(t)
	ctx, stop := context.WithCancel(testwait.Within(t, 20*patience))
	defer stop()
	keys := []string{prefix + "-1", prefix + "-2"}
	each := watchedLeases(t) / len(keys) / len(r.nodes)
	leases := each * len(keys) * len(r.nodes)
	story := &record{leases: make(map[string][]lockmesh.Event), told: make([]int, 2*len(r.nodes))}
	story.some = sync.NewCond(&story.mu)
	var reading, working sync.WaitGroup
	for i := range story.told {
		w, err := r.nodes[i/2].WatchPrefix(ctx, prefix)
		if err != nil {
			t.Fatal(err)
		}
		if e := <-w.Events(); e.Kind != lockmesh.EventSynced {
			t.Fatalf("watch %d begins with %v", i, e)
		}
		reading.Go(func() { story.follow(t, w, i, leases) })
	}
	for _, key := range keys {
		for _, m := range callers(r.nodes) {
			working.Go(func() {
				for range each {
					l, err := m.Lock(ctx, key)
					if err != nil {
						t.Error(err)
						stop()
						return
					}
					story.granted(l, m.Name())
					if err := l.Unlock(ctx); err != nil {
						t.Error(err)
						stop()
						return
					}
				}
			})
		}
	}
	working.Wait()
	reading.Wait()
	if story.many != leases {
		t.Errorf("%d leases were granted, want %d", story.many, leases)
	}
}
