package sockettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// firstState reads the events of a watch until the watch is synced.
func firstState(t *testing.T, w *lockmesh.Watch) (state []lockmesh.Event) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e, ok := <-w.Events():
			switch {
			case !ok:
				t.Fatal(w.Err())
			case e.Kind == lockmesh.EventSynced:
				return state
			case e.Kind == lockmesh.EventGap:
				state = nil
			default:
				state = append(state, e)
			}
		case <-limit.C:
			t.Fatalf("not synced within %v", patience)
		}
	}
}

// A watch on any node, with or without a vote, begins with the effects of all calls that have
// returned before: a granted lease is part of the first state, before Synced and as Current, and a
// released lease is not. The same holds for a further watch of a topic already watched by the node.
func TestAWatchBeginsWithWhatHasReturned(t *testing.T) {
	t.Parallel()
	r := calm(t)
	rounds := seenRounds(t)
	ctx := testwait.Within(t, time.Duration(10+rounds/500)*patience)
	looks := newLooks()
	defer looks.report(t, rounds)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range rounds {
		own, other := r.nodes[n%4], r.nodes[(n+1+n/4%3)%4]
		key := fmt.Sprintf("watchseen-%d", n%7)
		watchKey := func(ctx context.Context) (*lockmesh.Watch, error) { return other.Watch(ctx, key) }
		watchAll := func(ctx context.Context) (*lockmesh.Watch, error) {
			return other.WatchPrefix(ctx, "watchseen-")
		}
		for _, w := range []struct {
			what    string
			watch   func(context.Context) (*lockmesh.Watch, error)
			further bool // the node already has the same watch
		}{
			{"a watch", watchKey, false}, {"a further watch", watchKey, true},
			{"a watch of a prefix", watchAll, false}, {"a further watch of a prefix", watchAll, true},
		} {
			// first returns the first state of a watch, and ends the watch.
			first := func() []lockmesh.Event {
				t.Helper()
				during, end := context.WithCancel(ctx)
				defer end()
				watch, err := w.watch(during)
				must(err)
				return firstState(t, watch)
			}
			before, end := context.WithCancel(ctx)
			if w.further {
				watch, err := w.watch(before)
				must(err)
				firstState(t, watch)
			}
			lease, err := own.Lock(ctx, key)
			must(err)
			state := first()
			looks.saw(t, w.what+" after a grant", n, len(state) == 1 && state[0].Kind == lockmesh.EventGranted &&
				state[0].Current && state[0].Node == own.Name() && state[0].Token == lease.Token(), state)
			must(lease.Unlock(ctx))
			state = first()
			looks.saw(t, w.what+" after a release", n, len(state) == 0, state)
			end()
		}
	}
}
