package peer

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
)

const (
	// rounds is how often a lock is extended per TTL: two of three may be missed.
	rounds = 3
	// tick is how often the keeper looks whose turn it is.
	tick = 20 * time.Millisecond
	// atOnce is how many extensions are under way at once.
	atOnce = 64
)

// keeper extends locks again and again, evenly over time, which redsync leaves to its users.
type keeper struct {
	mu   sync.Mutex
	due  map[*redsync.Mutex]time.Time
	stop chan struct{}
	done sync.WaitGroup
	slot chan struct{}
}

func newKeeper() *keeper {
	k := &keeper{due: map[*redsync.Mutex]time.Time{}, stop: make(chan struct{}), slot: make(chan struct{}, atOnce)}
	k.done.Go(k.run)
	return k
}

func (k *keeper) add(m *redsync.Mutex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due[m] = time.Now().Add(randomPart(TTL / rounds))
}

func (k *keeper) remove(m *redsync.Mutex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.due, m)
}

func (k *keeper) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	var turn []*redsync.Mutex
	for {
		select {
		case now := <-t.C:
			turn = turn[:0]
			k.mu.Lock()
			for m, at := range k.due {
				if at.Before(now) {
					k.due[m] = at.Add(TTL / rounds)
					turn = append(turn, m)
				}
			}
			k.mu.Unlock()
			for _, m := range turn {
				k.slot <- struct{}{}
				k.done.Go(func() {
					_, _ = m.ExtendContext(context.Background()) // one that fails has two more turns
					<-k.slot
				})
			}
		case <-k.stop:
			return
		}
	}
}

func (k *keeper) close() error {
	close(k.stop)
	k.done.Wait()
	return nil
}

func randomPart(d time.Duration) time.Duration { return rand.N(d) }
