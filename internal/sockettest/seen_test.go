package sockettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh"
)

// seenRounds is how often each look is taken. LOCKMESH_SEEN makes it more.
func seenRounds(t *testing.T) int {
	t.Helper()
	return count(t, "LOCKMESH_SEEN", 100, 150)
}

// What has returned before a look begins is seen by the look, on any node, whether it votes or not: a lease, its end, a value, who leads, and how far a latch is.
func TestWhatHasReturnedIsSeenOnAnyNode(t *testing.T) {
	t.Parallel()
	r := calm(t)
	ctx := within(t, 10*patience)
	rounds := seenRounds(t)
	missed := make(map[string]int)
	miss := func(what string, n int, more any) {
		if missed[what]++; missed[what] <= 3 {
			t.Errorf("round %d, %s: %+v", n, what, more)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	looks := 0
	for n := range rounds {
		own, other := r.nodes[n%4], r.nodes[(n+1+n/4%3)%4]
		look := func(key string) lockmesh.Info {
			t.Helper()
			looks++
			info, err := other.Inspect(ctx, key)
			must(err)
			return info
		}
		key := fmt.Sprintf("seen-%d", n%7)

		lease, err := own.Lock(ctx, key, lockmesh.WithValue([]byte("one")))
		must(err)
		info := look(key)
		if len(info.Holders) != 1 || info.Holders[0].Token != lease.Token() || info.Holders[0].Node != own.Name() || len(info.Waiters) != 0 {
			miss("a lease was granted", n, info)
		}
		must(lease.SetValue(ctx, []byte("two")))
		if info := look(key); len(info.Holders) != 1 || string(info.Holders[0].Value) != "two" {
			miss("a value was set", n, info)
		}
		must(lease.Unlock(ctx))
		if info := look(key); len(info.Holders)+len(info.Waiters) != 0 {
			miss("a lease was given back", n, info)
		}

		leadership, err := own.Election("leader").Campaign(ctx, []byte(own.Name()))
		must(err)
		looks++
		if leader, err := other.Election("leader").Leader(ctx); err != nil || string(leader.Value) != own.Name() {
			miss("a campaign was won", n, err)
		}
		must(leadership.Resign(ctx))
		looks++
		if leader, err := other.Election("leader").Leader(ctx); !errors.Is(err, lockmesh.ErrNoLeader) {
			miss("a leader resigned", n, leader)
		}

		reader, err := own.RLock(ctx, key)
		must(err)
		second, err := other.RLock(ctx, key)
		must(err)
		third := r.nodes[(n+2)%4]
		looks++
		info, err = third.Inspect(ctx, key)
		must(err)
		if tokens := []uint64{reader.Token(), second.Token()}; len(info.Holders) != 2 || !slices.Contains(tokens, info.Holders[0].Token) || !slices.Contains(tokens, info.Holders[1].Token) {
			miss("two readers came", n, info)
		}
		must(reader.Unlock(ctx))
		must(second.Unlock(ctx))
		if info := look(key); len(info.Holders) != 0 {
			miss("two readers left", n, info)
		}

		if n%10 != 0 {
			continue
		}
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
		looks++
		if left, err := other.CountDownLatch(latch, 5).Count(ctx); err != nil || left != 2 {
			miss("three have counted down", n, fmt.Sprint(left, err))
		}
		for _, c := range counts {
			if c != nil {
				must(c.TakeBack(context.WithoutCancel(ctx)))
			}
		}
	}
	for what, n := range missed {
		t.Errorf("%s: missed %d times of %d", what, n, rounds)
	}
	t.Logf("%d looks", looks)
}
