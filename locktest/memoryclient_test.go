package locktest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// memoryClient is a client of a memory. The server's mutex guards its fields, as if the two were
// one process; but no message crosses a cut.
type memoryClient struct {
	m            *memory
	number       int
	stop         chan struct{} // closed when the client has ended
	stopped      bool
	online       chan struct{} // closed while the client isn't cut off
	validUntil   time.Time     // end of the validity of the client's locks, as known to the client
	serverExpiry *time.Timer   // at the server: forgets the session
	localExpiry  *time.Timer   // at the client: gives up the locks
	locks        map[*memoryLock]struct{}
	work         sync.WaitGroup
}

func (m *memory) Client(context.Context) (Client, error) {
	if m.has("there are no clients") {
		return nil, errStopped
	}
	if m.has("Client hangs") {
		time.Sleep(time.Hour)
		return nil, errStopped
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	c := &memoryClient{m: m, number: m.sessions, stop: make(chan struct{}), online: make(chan struct{}), locks: map[*memoryLock]struct{}{}}
	m.clients = append(m.clients, c)
	close(c.online)
	c.serverExpiry = time.AfterFunc(m.ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.has("the dead hold for ever") || !c.stopped {
			m.expire(c)
		}
	})
	c.localExpiry = time.AfterFunc(m.ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for l := range c.locks {
			l.end(errLost)
		}
	})
	c.renew()
	c.work.Go(func() {
		tick := time.NewTicker(m.ttl / 5)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-c.stop:
				return
			}
			m.mu.Lock()
			if c.isOnline() && !c.stopped && !m.has("nothing is renewed") {
				c.renew()
			}
			m.mu.Unlock()
		}
	})
	return c, nil
}

// isOnline reports whether the client isn't cut off; mu is held.
func (c *memoryClient) isOnline() bool {
	select {
	case <-c.online:
		return true
	default:
		return false
	}
}

// whenOnline returns a channel that is closed once the client isn't cut off.
func (c *memoryClient) whenOnline() <-chan struct{} {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.online
}

// renew gives the session another TTL, and its client a little less; mu is held.
func (c *memoryClient) renew() {
	own := c.m.ttl - c.m.ttl/64
	c.validUntil = time.Now().Add(own)
	c.serverExpiry.Reset(c.m.ttl)
	if c.m.has("a loss is told late") {
		own += c.m.ttl / 8
	}
	c.localExpiry.Reset(own)
}

// acquire requests a key and waits for the grant.
func (c *memoryClient) acquire(ctx context.Context, key string, permits int, try bool, value []byte) (Lock, error) {
	m := c.m
	name, err := m.rename(key)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil && !m.has("contexts that have ended aren't noticed") && !m.has("a request goes out before the context is looked at") {
		return nil, c.cancelError(ctx)
	}
	if try && m.has("TryLock waits") {
		try = false
	}
	if try && m.has("TryLocks are in each other's way") {
		if err := m.contendTry(name); err != nil {
			return nil, err
		}
	}
	stop := c.stop
	if m.has("who has left may lock") {
		stop = nil
	}
	for {
		if m.has("who is cut off takes keys for held") {
			m.mu.Lock()
			online := c.isOnline()
			m.mu.Unlock()
			if !online {
				return nil, errHeld
			}
		}
		if m.has("a request that no server has answered holds the key") && m.askedBefore(name) {
			return nil, errHeld
		}
		select {
		case <-c.whenOnline():
		case <-ctx.Done():
			return nil, c.cancelError(ctx)
		case <-stop:
			return nil, errStopped
		}
		r := &memoryRequest{c: c, name: name, permits: permits, try: try, value: value, granted: make(chan struct{}), forgotten: make(chan struct{})}
		if err := c.enqueue(r); err != nil {
			return nil, err
		}
		switch l, err := c.await(ctx, stop, r); {
		case err != nil:
			return nil, err
		case l != nil:
			return l, nil
		}
	}
}

// askedBefore reports whether a client has asked for the key since the server was stopped, and
// notes the request of the caller.
func (m *memory) askedBefore(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down == nil {
		return false
	}
	asked := m.down[name]
	m.down[name] = true
	return asked
}

// contendTry fails if there is another attempt at the same time.
func (m *memory) contendTry(name string) error {
	add := func(n int) int {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.attempts[name] += n
		return m.attempts[name]
	}
	add(1)
	time.Sleep(memoryLag)
	n := add(0)
	time.Sleep(memoryLag)
	add(-1)
	if n > 1 {
		return errHeld
	}
	return nil
}

// enqueue puts a request into the queue, and grants the request if the request is the next.
func (c *memoryClient) enqueue(r *memoryRequest) error {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.stopped && !m.has("who has left may lock") {
		return errStopped
	}
	if len(m.keys) > 500 && m.keys[r.name] == nil {
		switch {
		case m.has("500 keys are enough"):
			return errFull
		case m.has("beyond 500 keys one is forgotten"):
			for _, k := range m.keys {
				delete(m.keys, k.name)
				break
			}
		}
	}
	k := m.key(r.name)
	for _, o := range append(k.holders, k.queue...) {
		if (r.permits > 1 || o.permits > 1) && r.permits != o.permits && !m.has("permits may differ") {
			return fmt.Errorf("%w: it is %d, and others have %d", errPermits, r.permits, o.permits)
		}
	}
	waits := len(k.queue) > 0 || !m.compatible(k, r)
	if r.permits == 0 && m.has("readers overtake writers") {
		waits = !m.compatible(k, r)
	}
	switch {
	case !waits:
		m.grant(k, r)
	case r.try && !m.has("a TryLock that fails stays in line"):
		return errHeld
	default:
		k.queue = append(k.queue, r)
		m.grantWaiting(k) // the faults of fits may depend on the waiting requests
		if r.try {
			return errHeld
		}
	}
	return nil
}

// await waits for the grant of a request, and returns neither a lock nor an error if the request
// was forgotten while the client was away.
func (c *memoryClient) await(ctx context.Context, stop chan struct{}, r *memoryRequest) (*memoryLock, error) {
	m, ended := c.m, ctx.Done()
	if m.has("Lock doesn't heed its context") || m.has("contexts that have ended aren't noticed") && ctx.Err() != nil {
		ended = nil
	}
	select {
	case <-r.granted:
	case <-r.forgotten:
		return nil, nil
	case <-ended:
		return nil, c.cancelRequest(ctx, r)
	case <-stop:
		return nil, errStopped
	}
	select { // the grant doesn't cross the cut
	case <-c.whenOnline():
	case <-ended:
		return nil, c.cancelRequest(ctx, r)
	case <-stop:
		return nil, errStopped
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.ended || !c.isOnline() || c.stopped && !m.has("who has left may lock") {
		m.release(r)
		return nil, nil
	}
	c.renew()
	l := &memoryLock{r: r, deadline: c.validUntil, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.WithValue(context.Background(), lockContextKey{}, l))
	if m.has("Done is closed at once") {
		close(l.done)
	}
	c.locks[l] = struct{}{}
	return l, nil
}

// cancelRequest withdraws a request with an ended context.
func (c *memoryClient) cancelRequest(ctx context.Context, r *memoryRequest) error {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	waits := true
	for _, h := range m.key(r.name).holders {
		waits = waits && h != r
	}
	switch {
	case m.has("who gives up stays in line") && waits, m.has("a grant that comes too late is kept") && !waits,
		m.has("a request goes out before the context is looked at"):
	default:
		m.release(r)
	}
	return c.cancelError(ctx)
}

func (c *memoryClient) cancelError(ctx context.Context) error {
	if c.m.has("who gives up hears something else") {
		return errHeld
	}
	return ctx.Err()
}

// end stops the client, and leaves the session to the server.
func (c *memoryClient) end() {
	c.m.mu.Lock()
	if !c.stopped {
		c.stopped = true
		close(c.stop)
		for l := range c.locks {
			l.end(errLost)
		}
		c.localExpiry.Stop()
	}
	c.m.mu.Unlock()
	c.work.Wait()
}

func (c *memoryClient) Lock(ctx context.Context, key string) (Lock, error) {
	if c.m.has("Lock returns nothing") {
		return nil, nil
	}
	return c.acquire(ctx, key, 1, false, nil)
}

func (c *memoryClient) TryLock(ctx context.Context, key string) (Lock, error) {
	l, err := c.acquire(ctx, key, 1, true, nil)
	if err != nil && c.m.has("errors come with a lock") {
		return (*memoryLock)(nil), err
	}
	return l, err
}

func (c *memoryClient) RLock(ctx context.Context, key string) (Lock, error) {
	return c.acquire(ctx, key, 0, false, nil)
}

func (c *memoryClient) TryRLock(ctx context.Context, key string) (Lock, error) {
	return c.acquire(ctx, key, 0, true, nil)
}

func (c *memoryClient) Acquire(ctx context.Context, key string, permits int) (Lock, error) {
	return c.permit(ctx, key, permits, false)
}

func (c *memoryClient) TryAcquire(ctx context.Context, key string, permits int) (Lock, error) {
	return c.permit(ctx, key, permits, true)
}

func (c *memoryClient) permit(ctx context.Context, key string, permits int, try bool) (Lock, error) {
	if permits < 1 {
		return nil, errPermits
	}
	return c.acquire(ctx, key, permits, try, nil)
}

func (c *memoryClient) LockValue(ctx context.Context, key string, value []byte) (Lock, error) {
	if c.m.has("values get lost") {
		value = nil
	}
	return c.acquire(ctx, key, 1, false, value)
}

func (c *memoryClient) Value(_ context.Context, key string) ([]byte, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	k := c.m.key(key)
	if len(k.holders) == 0 {
		return nil, nil
	}
	r := k.holders[0]
	if c.m.has("values are read late") && time.Since(r.valueAt) < 10*memoryLag {
		return r.valueBefore, nil
	}
	return r.value, nil
}
