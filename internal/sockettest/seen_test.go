package sockettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// seenRounds is the number of queries of each kind. LOCKMESH_SEEN sets another number.
func seenRounds(t *testing.T) int {
	t.Helper()
	return count(t, "LOCKMESH_SEEN", 100, 150)
}

// looks counts the queries of each kind, and the queries that missed an effect of a returned call.
type looks struct{ looked, missed map[string]int }

func newLooks() *looks { return &looks{make(map[string]int), make(map[string]int)} }

// saw counts a query, and reports the first queries of each kind that missed an effect.
func (l *looks) saw(t *testing.T, what string, round int, seen bool, more any) {
	t.Helper()
	if l.looked[what]++; seen {
		return
	}
	if l.missed[what]++; l.missed[what] <= 3 {
		t.Errorf("round %d, %s: %+v", round, what, more)
	}
}

// report reports the numbers of queries and of misses of each kind.
func (l *looks) report(t *testing.T, rounds int) {
	t.Helper()
	for what, n := range l.missed {
		t.Errorf("%s: missed %d times of %d", what, n, l.looked[what])
	}
	t.Logf("the looks of each kind, in %d rounds: %v", rounds, l.looked)
}

// A query on any node, with or without a vote, sees the effects of all calls that have returned
// before: a lease, its end, a value, the leader of an election, and the count of a latch.
func TestWhatHasReturnedIsSeenOnAnyNode(t *testing.T) {
	t.Parallel()
	r := calm(t)
	rounds := seenRounds(t)
	ctx := testwait.Within(t, time.Duration(10+rounds/500)*patience)
	looks := newLooks()
	defer looks.report(t, rounds)
	saw := func(what string, n int, seen bool, more any) { t.Helper(); looks.saw(t, what, n, seen, more) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range rounds {
		own, other := r.nodes[n%4], r.nodes[(n+1+n/4%3)%4]
		look := func(key string) lockmesh.Info {
			t.Helper()
			info, err := other.Inspect(ctx, key)
			must(err)
			return info
		}
		key := fmt.Sprintf("seen-%d", n%7)
		list := func() []lockmesh.Info {
			t.Helper()
			page, err := other.ListPage(ctx, key, "", 1)
			must(err)
			return page.Keys
		}

		lease, err := own.Lock(ctx, key, lockmesh.WithValue([]byte("one")))
		must(err)
		info := look(key)
		saw("a lease was granted", n, len(info.Holders) == 1 && info.Holders[0].Token == lease.Token() &&
			info.Holders[0].Node == own.Name() && len(info.Waiters) == 0, info)
		keys := list()
		saw("a lease was granted, in a list", n, len(keys) == 1 && len(keys[0].Holders) == 1 && keys[0].Holders[0].Node == own.Name(), keys)
		must(lease.SetValue(ctx, []byte("two")))
		info = look(key)
		saw("a value was set", n, len(info.Holders) == 1 && string(info.Holders[0].Value) == "two", info)
		must(lease.Unlock(ctx))
		info = look(key)
		saw("a lease was given back", n, len(info.Holders)+len(info.Waiters) == 0, info)
		keys = list()
		saw("a lease was given back, in a list", n, len(keys) == 0 || len(keys[0].Holders) == 0, keys)

		leadership, err := own.Election("leader").Campaign(ctx, []byte(own.Name()))
		must(err)
		leader, err := other.Election("leader").Leader(ctx)
		saw("a campaign was won", n, err == nil && string(leader.Value) == own.Name(), err)
		must(leadership.Proclaim(ctx, []byte("new")))
		leader, err = other.Election("leader").Leader(ctx)
		saw("a leader proclaimed", n, err == nil && string(leader.Value) == "new", leader)
		must(leadership.Resign(ctx))
		leader, err = other.Election("leader").Leader(ctx)
		saw("a leader resigned", n, errors.Is(err, lockmesh.ErrNoLeader), leader)

		reader, err := own.RLock(ctx, key)
		must(err)
		second, err := other.RLock(ctx, key)
		must(err)
		third := r.nodes[(n+2)%4]
		info, err = third.Inspect(ctx, key)
		must(err)
		tokens := []uint64{reader.Token(), second.Token()}
		saw("two readers came", n, len(info.Holders) == 2 && slices.Contains(tokens, info.Holders[0].Token) &&
			slices.Contains(tokens, info.Holders[1].Token), info)
		must(reader.Unlock(ctx))
		must(second.Unlock(ctx))
		info = look(key)
		saw("two readers left", n, len(info.Holders) == 0, info)

		latch := fmt.Sprintf("latch-%d", n)
		counts := make([]*lockmesh.Count, 3)
		var counting sync.WaitGroup
		for i := range counts {
			counting.Go(func() {
				c, err := r.nodes[i].CountDownLatch(latch, 5).CountDown(ctx)
				if err != nil {
					t.Error(err)
				}
				counts[i] = c
			})
		}
		counting.Wait()
		left, err := other.CountDownLatch(latch, 5).Count(ctx)
		saw("three have counted down", n, err == nil && left == 2, fmt.Sprint(left, err))
		for _, c := range counts {
			if c != nil {
				must(c.TakeBack(context.WithoutCancel(ctx)))
			}
		}
		left, err = other.CountDownLatch(latch, 5).Count(ctx)
		saw("three counts were taken back", n, err == nil && left == 5, fmt.Sprint(left, err))
	}
}
