package locktest

import (
	"slices"
	"sync"
	"sync/atomic"
)

var orderPromises = []Promise{
	{"fifo", "Waiters are served in the order in which they came.", needs(HasQueue), (*probe).fifo},
	{"fair-share", "Of clients that all want a key again and again each gets at least a quarter of an equal share.", nil, (*probe).fairShare},
}

func (p *probe) fifo() {
	cs := p.crowd()
	for round := range 5 {
		key := p.key()
		g := p.lock(cs[0], key)
		var waiters []*pending
		var order []int // written by holders only
		for i := 1; i < len(cs); i++ {
			// Not always the same client first: a service that goes by names would look fair.
			waiters = append(waiters, p.start(cs[1+(i+round)%(len(cs)-1)], key, byLock))
			p.queued(key, i)
		}
		p.release(g)
		var mu sync.Mutex
		p.all(len(waiters), func(i int) {
			g := waiters[i].served(0)
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

// leastShare is the part of an equal share, as its inverse, that everyone gets.
const leastShare = 4

func (p *probe) fairShare() {
	cs, key := p.some(p.o.Clients+1), p.key()
	starter, cs := cs[len(cs)-1], cs[:len(cs)-1]
	g := p.lock(starter, key) // until all stand in line
	shares := make([]int, len(cs))
	var left atomic.Int64
	left.Store(int64(p.o.Turns))
	p.all(len(cs)+1, func(i int) {
		if i == len(cs) {
			p.queued(key, len(cs))
			p.release(g)
			return
		}
		r := p.rng(i)
		for left.Load() > 0 {
			g := p.lock(cs[i], key)
			if left.Add(-1) >= 0 {
				shares[i]++
			}
			p.linger(r)
			_ = p.unlock(p.ctx, g) // a lock that is lost in this crowd is for others to find
		}
	})
	for i, share := range shares {
		if share < p.o.Turns/len(cs)/leastShare {
			p.errorf("%s had %d of %d turns; the shares are %v", cs[i].name, share, p.o.Turns, shares)
		}
	}
}
