package locktest

import (
	"slices"
	"sync"
	"sync/atomic"
)

var orderPromises = []Promise{
	{"fifo", "Waiters get the key in the order of their requests.", requires(HasQueue), (*probe).fifo},
	{"fair-share", "If several clients acquire a key repeatedly, each client gets at least a quarter of an equal share.", nil, (*probe).fairShare},
}

func (p *probe) fifo() {
	cs := p.contenders()
	for round := range 5 {
		key := p.key()
		g := p.lock(cs[0], key)
		var waiters []*pendingCall
		var order []int // written by holders only
		for i := 1; i < len(cs); i++ {
			// The first client changes from round to round: otherwise a service ordering by name
			// would look fair.
			waiters = append(waiters, p.startAcquire(cs[1+(i+round)%(len(cs)-1)], key, lockMode))
			p.awaitQueued(key, i)
		}
		p.release(g)
		var mu sync.Mutex
		p.mustParallel(len(waiters), func(i int) {
			g := waiters[i].mustAcquire(0)
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			p.release(g)
		})
		if !slices.IsSorted(order) {
			p.errorf("waiters 0 to %d came in this order, and were served in the order %v", len(waiters)-1, order)
		}
	}
}

// shareDivisor is the divisor of an equal share: every client must get at least the quotient.
const shareDivisor = 4

func (p *probe) fairShare() {
	cs, key := p.nClients(p.o.Clients+1), p.key()
	starter, cs := cs[len(cs)-1], cs[:len(cs)-1]
	g := p.lock(starter, key) // until all clients are queued
	shares := make([]int, len(cs))
	var left atomic.Int64
	left.Store(int64(p.o.Handovers))
	p.mustParallel(len(cs)+1, func(i int) {
		if i == len(cs) {
			p.awaitQueued(key, len(cs))
			p.release(g)
			return
		}
		r := p.rng(i)
		for left.Load() > 0 {
			g := p.lock(cs[i], key)
			if left.Add(-1) >= 0 {
				shares[i]++
			}
			p.simulateWork(r)
			_ = p.unlock(p.ctx, g) // finding a lost lock under contention is up to other probes
		}
	})
	for i, share := range shares {
		if share < p.o.Handovers/len(cs)/shareDivisor {
			p.errorf("%s had %d of %d turns; the shares are %v", cs[i].name, share, p.o.Handovers, shares)
		}
	}
}
