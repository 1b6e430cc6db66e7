package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var crowdPromises = []Promise{
	{"many-keys", "A client holds many keys at once, and each of them is held.", nil, (*probe).manyKeys},
	{"soak", "Whatever many goroutines do with a few keys, holders don't overlap, tokens rise, and in the end every key is free.", nil, (*probe).soak},
}

// soakKeys is how many keys the soak uses, few enough for its clients to meet, and keyWorkers how many calls are under way at once where there are many keys.
const (
	soakKeys   = 5
	keyWorkers = 16
)

func (p *probe) manyKeys() {
	cs := p.crowd()
	prefix := p.key() + "/"
	grips := make([]*grip, p.o.Keys)
	name := func(k int) string { return fmt.Sprintf("%s%d/%d", prefix, k%7, k) }
	// Two workers of one client never want the same key, so it doesn't matter what a service thinks of that.
	each := func(f func(k int)) {
		p.all(keyWorkers, func(w int) {
			for k := w; k < p.o.Keys; k += keyWorkers {
				f(k)
			}
		})
	}
	each(func(k int) { grips[k] = p.lock(cs[k%len(cs)], name(k)) })
	var lost atomic.Int64
	each(func(k int) {
		if k%10 == 0 && !grips[k].ended() {
			_ = p.refused(cs[(k+1)%len(cs)], byTry, grips[k])
		}
	})
	each(func(k int) {
		held := !grips[k].ended()
		if err := p.unlock(p.ctx, grips[k]); err != nil || !held {
			lost.Add(1)
		}
	})
	p.tolerate(lost.Load(), int64(p.o.Keys))
	each(func(k int) {
		if k%10 == 0 {
			p.release(p.lock(cs[(k+1)%len(cs)], name(k)))
		}
	})
}

// soak does what users do, and some things that they shouldn't, in random order. For each client and key there is one goroutine.
func (p *probe) soak() {
	cs := p.crowd()
	keys, witnesses := make([]string, soakKeys), make([]*witness, soakKeys)
	for k := range keys {
		keys[k], witnesses[k] = p.key(), p.witness()
	}
	p.all(len(cs)*soakKeys, func(i int) {
		c, k, r := cs[i%len(cs)], i/len(cs), p.rng(i)
		for range p.o.Ops / (len(cs) * soakKeys) {
			p.soakOnce(c, keys[k], witnesses[k], r)
		}
	})
	for k, w := range witnesses {
		w.judge()
		for _, text := range falls(w.spans) {
			p.wrongf("%s", text)
		}
		p.release(p.lock(cs[k%len(cs)], keys[k]))
	}
}

// soakOnce asks for the key once, in one way or another, and gives it back, in one way or another.
func (p *probe) soakOnce(c *client, key string, w *witness, r *rand.Rand) {
	m, patient := byLock, true
	switch r.IntN(8) {
	case 0, 1:
		m = byTry
	case 2:
		patient = false
	case 3, 4:
		if p.x.offers[HasReaders] {
			m = byRead
		}
	}
	ctx, cancel := p.within()
	if !patient {
		cancel()
		ctx, cancel = context.WithTimeout(p.ctx, time.Duration(r.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	g, err := p.take(ctx, c, key, m)
	if err != nil {
		if patient && m.name != byTry.name {
			p.fatalf("%s by %s, of a key that it should get: %v", m.name, c.name, err)
		}
		p.pause()
		return
	}
	w.turn(g, r)
	if r.IntN(10) == 0 {
		_ = p.unlock(p.ended(), g)
		_ = p.unlock(p.ctx, g)
		return
	}
	w.release(g)
	if r.IntN(10) == 0 {
		p.linger(r)
		_ = p.unlock(p.ctx, g) // by now the key is another's
	}
}
