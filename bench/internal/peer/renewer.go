package peer

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
)

const (
	// rounds is how often a lock is extended per TTL: two extensions of three may be missed.
	rounds = 3
	// tick is how often the keeper checks for locks that are due.
	tick = 20 * time.Millisecond
	// atOnce is how many extensions are under way at once.
	atOnce = 64
)

// renewer extends locks repeatedly, spread evenly over time, a task that redsync leaves to its
// users.
type renewer struct {
	mu      sync.Mutex
	renewAt map[*redsync.Mutex]time.Time
	stop    chan struct{}
	done    sync.WaitGroup
	slot    chan struct{}
}

func newRenewer() *renewer {
	k := &renewer{renewAt: map[*redsync.Mutex]time.Time{}, stop: make(chan struct{}), slot: make(chan struct{}, atOnce)}
	k.done.Go(k.run)
	return k
}

func (k *renewer) add(m *redsync.Mutex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewAt[m] = time.Now().Add(randomPart(TTL / rounds))
}

func (k *renewer) remove(m *redsync.Mutex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.renewAt, m)
}

func (k *renewer) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	var turn []*redsync.Mutex
	for {
		select {
		case now := <-t.C:
			turn = turn[:0]
			k.mu.Lock()
			for m, at := range k.renewAt {
				if at.Before(now) {
					k.renewAt[m] = at.Add(TTL / rounds)
					turn = append(turn, m)
				}
			}
			k.mu.Unlock()
			for _, m := range turn {
				k.slot <- struct{}{}
				k.done.Go(func() {
					// A failed extension has two more chances.
					_, _ = m.ExtendContext(context.Background())
					<-k.slot
				})
			}
		case <-k.stop:
			return
		}
	}
}

func (k *renewer) close() error {
	close(k.stop)
	k.done.Wait()
	return nil
}

func randomPart(d time.Duration) time.Duration { return rand.N(d) }
