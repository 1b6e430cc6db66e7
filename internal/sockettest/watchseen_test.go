package sockettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
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
			case e.Kind == lockmesh.Synced:
				return state
			case e.Kind == lockmesh.Gap:
				state = nil
			default:
				state = append(state, e)
			}
		case <-limit.C:
			t.Fatalf("not synced within %v", patience)
		}
	}
}

// A watch begins with what has returned before, on any node, whether the node votes or not: a lease
// that was granted is part of the first state, before Synced and as Current, and a lease that was
// given back is not. So is the state for a further watch of a topic that the node watches already.
func TestAWatchBeginsWithWhatHasReturned(t *testing.T) {
	t.Parallel()
	r := calm(t)
	rounds := seenRounds(t)
	ctx := within(t, time.Duration(10+rounds/500)*patience)
	looked, missed := make(map[string]int), make(map[string]int)
	saw := func(what string, n int, seen bool, more any) {
		t.Helper()
		if looked[what]++; seen {
			return
		}
		if missed[what]++; missed[what] <= 3 {
			t.Errorf("round %d, %s: %+v", n, what, more)
		}
	}
	for n := range rounds {
		own, other := r.nodes[n%4], r.nodes[(n+1+n/4%3)%4]
		key := fmt.Sprintf("watchseen-%d", n%7)
		watchers := []struct {
			what  string
			watch func(context.Context) (*lockmesh.Watch, error)
		}{
			{"a watch", func(ctx context.Context) (*lockmesh.Watch, error) { return other.Watch(ctx, key) }},
			{"a further watch", func(ctx context.Context) (*lockmesh.Watch, error) { return other.Watch(ctx, key) }},
			{"a watch of a prefix", func(ctx context.Context) (*lockmesh.Watch, error) {
				return other.WatchPrefix(ctx, "watchseen-")
			}},
		}
		for _, w := range watchers {
			lease, err := own.Lock(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			during, end := context.WithCancel(ctx)
			if w.what == "a further watch" {
				first, err := other.Watch(during, key)
				if err != nil {
					t.Fatal(err)
				}
				firstState(t, first)
				again := lease.Unlock(ctx)
				if again == nil {
					lease, again = own.Lock(ctx, key)
				}
				if again != nil {
					t.Fatal(again)
				}
			}
			watch, err := w.watch(during)
			if err != nil {
				t.Fatal(err)
			}
			state := firstState(t, watch)
			saw(w.what+" after a grant", n, len(state) == 1 && state[0].Kind == lockmesh.Granted && state[0].Current &&
				state[0].Node == own.Name() && state[0].Token == lease.Token(), state)
			end()
			if err := lease.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
			during, end = context.WithCancel(ctx)
			if watch, err = w.watch(during); err != nil {
				t.Fatal(err)
			}
			state = firstState(t, watch)
			saw(w.what+" after a release", n, len(state) == 0, state)
			end()
		}
	}
	for what, n := range missed {
		t.Errorf("%s: missed %d times of %d", what, n, looked[what])
	}
	t.Logf("the watches of each kind, in %d rounds: %v", rounds, looked)
}
