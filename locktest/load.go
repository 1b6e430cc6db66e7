package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var loadPromises = []Promise{
	{"many-keys", "A client can hold many keys at once, and each key is held.", nil, (*probe).manyKeys},
	{"soak", "Under random operations of many goroutines on a few keys, holders never overlap, tokens rise, and in the end every key is free.", nil, (*probe).soak},
}

// soakKeys is how many keys the soak uses, few enough for its clients to meet. keyWorkers is how
// many calls manyKeys has under way at once.
const (
	soakKeys   = 5
	keyWorkers = 16
)

func (p *probe) manyKeys() {
	cs := p.contenders()
	prefix := p.key() + "/"
	grips := make([]*heldLock, p.o.Keys)
	name := func(k int) string { return fmt.Sprintf("%s%d/%d", prefix, k%7, k) }
	// Two workers of one client never want the same key, so a service may take either the client or
	// the call for the owner.
	each := func(f func(k int)) {
		p.mustParallel(keyWorkers, func(w int) {
			for k := w; k < p.o.Keys; k += keyWorkers {
				f(k)
			}
		})
	}
	each(func(k int) { grips[k] = p.lock(cs[k%len(cs)], name(k)) })
	var lost atomic.Int64
	each(func(k int) {
		if k%10 == 0 && !grips[k].ended() {
			_ = p.mustRefuse(cs[(k+1)%len(cs)], tryLockMode, grips[k])
		}
	})
	each(func(k int) {
		held := !grips[k].ended()
		if err := p.unlock(p.ctx, grips[k]); err != nil || !held {
			lost.Add(1)
		}
	})
	p.checkLossRate(lost.Load(), int64(p.o.Keys))
	each(func(k int) {
		if k%10 == 0 {
			p.release(p.lock(cs[(k+1)%len(cs)], name(k)))
		}
	})
}

// soak does what users do, and some things users shouldn't do, in random order. Each pair of a
// client and a key has its own goroutine.
func (p *probe) soak() {
	cs := p.contenders()
	keys, witnesses := make([]string, soakKeys), make([]*observer, soakKeys)
	for k := range keys {
		keys[k], witnesses[k] = p.key(), p.newObserver()
	}
	p.mustParallel(len(cs)*soakKeys, func(i int) {
		c, k, r := cs[i%len(cs)], i/len(cs), p.rng(i)
		for range p.o.Ops / (len(cs) * soakKeys) {
			p.soakOnce(c, keys[k], witnesses[k], r)
		}
	})
	for k, w := range witnesses {
		w.check()
		for _, text := range tokenRegressions(w.spans) {
			p.inexcusablef("%s", text)
		}
		p.release(p.lock(cs[k%len(cs)], keys[k]))
	}
}

// soakOnce acquires the key once and unlocks, each in a way chosen at random.
func (p *probe) soakOnce(c *client, key string, w *observer, r *rand.Rand) {
	m, patient := lockMode, true
	switch r.IntN(8) {
	case 0, 1:
		m = tryLockMode
	case 2:
		patient = false
	case 3, 4:
		if p.x.capabilities[HasReaders] {
			m = rlockMode
		}
	}
	ctx, cancel := p.timeoutContext()
	if !patient {
		cancel()
		ctx, cancel = context.WithTimeout(p.ctx, time.Duration(r.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	g, err := p.acquire(ctx, c, key, m)
	if err != nil {
		if patient && m.name != tryLockMode.name {
			p.fatalf("%s by %s, of a key that it should get: %v", m.name, c.name, err)
		}
		p.pause()
		return
	}
	w.criticalSection(g, r)
	if r.IntN(10) == 0 {
		_ = p.unlock(p.canceledContext(), g)
		_ = p.unlock(p.ctx, g)
		return
	}
	w.release(g)
	if r.IntN(10) == 0 {
		p.simulateWork(r)
		_ = p.unlock(p.ctx, g) // by now another client may hold the key
	}
}
