package locktest

import (
	"context"
	"sync"
	"time"
)

// The promises about what a service reports: errors, contexts, inspections and watches tell the
// truth.
var reportingPromises = []Promise{
	{"held-on-evidence", "A disconnected client does not report a free key as held by another client.", requires(HasIsHeld, HasCut), (*probe).heldOnEvidence},
	{"unlock-own-context", "Unlock works with the lock's own context.", requires(HasContext), (*probe).unlockOwnContext},
	{"seen-at-once", "Once Lock has returned, every client sees the key as held; once Unlock has returned, as free.", requires(HasInspection), (*probe).seenAtOnce},
	{"watch-is-true", "Without failures a watch reports the grant and the end of each lock once and in order, and reports no released lock as lost.", requires(HasWatches),
		(*probe).watchIsTrue},
}

func (p *probe) heldOnEvidence() {
	isHeld := p.x.s.(ErrorClassifier).IsHeld
	c, key := p.client(), p.key()
	p.release(p.lock(c, p.key())) // the client has communicated with the service
	heal := p.cut(c)
	ask := func(m mode) error {
		ctx, cancel := context.WithTimeout(p.ctx, p.o.TTL/8)
		defer cancel()
		g, err := p.acquire(ctx, c, key, m)
		if err == nil {
			_ = p.unlock(ctx, g) // another promise is about the success
		}
		return err
	}
	for end := time.Now().Add(p.o.TTL + p.o.TTL/2); time.Now().Before(end); p.pause() {
		for _, m := range []mode{tryLockMode, lockMode} {
			if err := ask(m); err != nil && isHeld(err) {
				heal()
				p.fatalf("%s is cut off and no client has the key, and IsHeld returns true for "+
					"the error of %s: %v", c.name, m.name, err)
			}
		}
	}
	heal()
}

// heldOfMajority is the part of held-is-told in which a majority of the servers is stopped. All
// clients ask for a key that no client has ever locked. The calls fail, and no error may say that
// the key is held: a service could take a request that an earlier failed call has left behind at
// the running servers for a holder.
func (p *probe) heldOfMajority() {
	isHeld := p.x.s.(ErrorClassifier).IsHeld
	cs, key := p.contenders(), p.key()
	for _, c := range cs {
		p.release(p.lock(c, p.key())) // each client has communicated with the service
	}
	resume := p.stopMajority(cs)
	end := time.Now().Add(p.o.TTL + p.o.TTL/2)
	p.mustParallel(len(cs), func(i int) {
		// Each client asks twice with either call, also if a call outlasts its context.
		for n := 0; n < 4 || time.Now().Before(end); n++ {
			m, own := tryLockMode, key
			if n%2 == 1 {
				m = lockMode
			}
			if n%8 == 7 {
				own = p.key() // no client has asked for this key yet
			}
			ctx, cancel := context.WithTimeout(p.ctx, p.o.TTL/8)
			_, err := p.acquire(ctx, cs[i], own, m)
			cancel()
			switch {
			case err == nil:
				p.fatalf("a majority of the servers is stopped, and %s by %s gets a key",
					m.name, cs[i].name)
			case isHeld(err):
				p.fatalf("a majority of the servers is stopped and no client has ever had the "+
					"key, and IsHeld returns true for the error of %s by %s: %v",
					m.name, cs[i].name, err)
			}
			p.pause()
		}
	})
	resume()
	for _, c := range cs {
		p.release(p.startAcquire(c, key, lockMode).mustAcquire(p.o.TTL))
	}
}

func (p *probe) unlockOwnContext() {
	cs, key := p.nClients(2), p.key()
	for range 20 {
		g := p.lock(cs[0], key)
		if err := p.unlock(g.lock.(Contexted).Context(), g); err != nil {
			p.fatalf("Unlock with the lock's own context: %v", err)
		}
		p.release(p.mustAcquire(cs[1], key, tryLockMode))
	}
}

func (p *probe) seenAtOnce() {
	cs, key := p.nClients(3), p.key()
	look := func(want bool, of *client) {
		for _, c := range cs {
			ctx, cancel := p.timeoutContext()
			var held bool
			err := p.invoke(ctx, "Held", func() (err error) {
				held, err = c.Client.(Inspector).Held(ctx, key)
				return err
			})
			cancel()
			switch {
			case err != nil:
				p.fatalf("%s can't inspect the key: %v", c.name, err)
			case held != want && want:
				p.errorf("Lock by %s has returned, and %s sees the key as free", of.name, c.name)
			case held != want:
				p.errorf("Unlock by %s has returned, and %s sees the key as held", of.name, c.name)
			}
		}
	}
	for i := range 30 {
		g := p.lock(cs[i%len(cs)], key)
		look(true, g.client)
		p.release(g)
		look(false, g.client)
	}
}

func (p *probe) watchIsTrue() {
	cs, key := p.nClients(3), p.key()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var changes <-chan Change
	if err := p.invoke(ctx, "Watch", func() (err error) {
		changes, err = cs[2].Client.(KeyWatcher).Watch(ctx, key)
		return err
	}); err != nil {
		p.fatalf("%s can't watch the key: %v", cs[2].name, err)
	}
	turns := p.o.Handovers / 2
	for i := range turns {
		g := p.lock(cs[i%2], key)
		p.mustReport(changes, g, true)
		p.release(g)
		p.mustReport(changes, g, false)
	}
	// Then both clients contend for the key. They keep at most ahead locks that the watch hasn't
	// told the end of: a watch may miss changes for a reader that the machine doesn't let read.
	const ahead = 16
	untold := make(chan struct{}, ahead)
	told := make(chan []Change, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all []Change
		for c := range changes {
			if all = append(all, c); len(all) == 4*turns {
				break
			}
			if !c.Granted {
				select {
				case <-untold:
				default: // it has told of an end too many, which is found below
				}
			}
		}
		told <- all
	}()
	var mu sync.Mutex
	var tokens []uint64
	p.mustParallel(2, func(i int) {
		for range turns {
			select {
			case untold <- struct{}{}:
			case <-ended:
			case <-time.After(p.o.Timeout):
				p.fatalf("the watch reports nothing for %v while the key is locked and unlocked",
					p.o.Timeout)
			}
			g := p.lock(cs[i], key)
			if f, ok := g.lock.(Fenced); ok {
				mu.Lock()
				tokens = append(tokens, f.Token())
				mu.Unlock()
			}
			p.release(g)
		}
	})
	patience := time.AfterFunc(p.o.Timeout, cancel) // ends the watch
	defer patience.Stop()
	all := <-told
	for i, c := range all {
		switch {
		case c.Missed:
			p.fatalf("nothing fails, and the watch reports that changes may be missing after %d "+
				"of them", i)
		case c.Granted != (i%2 == 0):
			p.fatalf("change %d is %+v, after %+v", i, c, all[max(0, i-1)])
		case c.Lost:
			p.fatalf("a lock was released, and the watch reports it as lost: change %d, %+v", i, c)
		case c.Token != 0 && i/2 < len(tokens) && c.Token != tokens[i/2]:
			p.fatalf("change %d is of the token %d; it was that of %d", i, c.Token, tokens[i/2])
		}
	}
	if len(all) < 4*turns {
		p.errorf("the watch reported %d changes; there were %d", len(all), 4*turns)
	}
}

// mustReport checks that a watch reports the grant, or else the end, of a lock, and nothing else.
func (p *probe) mustReport(changes <-chan Change, g *heldLock, granted bool) {
	patience := time.NewTimer(p.o.Timeout)
	defer patience.Stop()
	select {
	case c, ok := <-changes:
		f, fenced := g.lock.(Fenced)
		if !ok || c.Missed || c.Lost || c.Granted != granted || fenced && c.Token != 0 && c.Token != f.Token() {
			p.fatalf("a lock by %s was granted (or else ended: %t), and the watch reports %+v",
				g.client.name, granted, c)
		}
	case <-patience.C:
		p.fatalf("a lock by %s was granted (or else ended: %t), and the watch doesn't report it",
			g.client.name, granted)
	}
}
