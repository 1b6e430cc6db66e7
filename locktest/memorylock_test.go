package locktest

import (
	"context"
	"slices"
	"time"
)

// memoryLock is a lock of a memory. The server's mutex guards the fields.
type memoryLock struct {
	r        *memoryRequest
	deadline time.Time // at the grant
	done     chan struct{}
	err      error
	ctx      context.Context
	cancel   context.CancelFunc
}

// lockContextKey is the key under which a lock's context has the lock.
type lockContextKey struct{}

func (l *memoryLock) Context() context.Context { return l.ctx }

// end ends the lock, unless the lock has already ended; mu is held.
func (l *memoryLock) end(err error) {
	m := l.r.c.m
	if l.err != nil {
		return
	}
	l.err = err
	l.cancel()
	delete(l.r.c.locks, l)
	if !m.has("Done stays open") && !m.has("Done is closed at once") {
		close(l.done)
	}
}

func (l *memoryLock) Unlock(ctx context.Context) error {
	c, m := l.r.c, l.r.c.m
	if ctx.Value(lockContextKey{}) == l && ctx.Err() == nil && !m.has("a lock's own context cuts its Unlock short") {
		ctx = context.WithoutCancel(ctx) // this context ends with the lock
	}
	m.mu.Lock()
	if l.err != nil {
		defer m.mu.Unlock()
		k := m.key(l.r.name)
		switch {
		case m.has("Unlock frees whoever holds") && len(k.holders) > 0:
			m.release(k.holders[0])
		case m.has("Unlock frees what its client holds"):
			if i := slices.IndexFunc(k.holders, func(r *memoryRequest) bool { return r.c == c }); i >= 0 {
				m.release(k.holders[i])
			}
		case m.has("a second Unlock is silent"), m.has("the Unlock of what was lost is silent") && l.err == errLost:
			return nil
		}
		return l.err
	}
	m.mu.Unlock()
	if ctx.Err() != nil && m.has("an Unlock cut short is forgotten") {
		m.mu.Lock()
		l.end(errReleased)
		m.mu.Unlock()
	}
	select {
	case <-c.whenOnline():
	case <-c.stop:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err() // the caller may call again
	}
	if m.has("Unlock returns before it has happened") {
		time.AfterFunc(20*memoryLag, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.release(l.r)
		})
		return nil
	}
	m.mu.Lock()
	if l.err != nil {
		defer m.mu.Unlock()
		return l.err
	}
	l.end(errReleased)
	was := m.release(l.r)
	m.mu.Unlock()
	if !was {
		return errLost
	}
	answer := time.NewTimer(memoryLag)
	defer answer.Stop()
	select {
	case <-answer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() // the unlock has happened nevertheless
	}
}

func (l *memoryLock) SetValue(_ context.Context, value []byte) error {
	m := l.r.c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if m.has("a value stays as it was written first") {
		return nil
	}
	l.r.valueAt, l.r.valueBefore, l.r.value = time.Now(), l.r.value, value
	return nil
}

func (l *memoryLock) Token() uint64 { return l.r.token }

func (l *memoryLock) Deadline() time.Time {
	m := l.r.c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.has("the deadline stands still"):
		return l.deadline
	case m.has("the deadline is far ahead"):
		return l.r.c.validUntil.Add(m.ttl)
	}
	return l.r.c.validUntil
}

func (l *memoryLock) Done() <-chan struct{} { return l.done }

func (l *memoryLock) Err() error {
	m := l.r.c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.has("Err stays nil") {
		return nil
	}
	return l.err
}

func (c *memoryClient) Crash() error {
	c.end()
	if c.m.has("the dead are forgotten at once") {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.m.expire(c)
	}
	return nil
}

func (c *memoryClient) Leave(context.Context) error {
	c.end()
	if !c.m.has("Leave is a crash") {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.m.expire(c)
	}
	return nil
}

func (c *memoryClient) Close() error {
	c.end()
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.serverExpiry.Stop()
	c.m.expire(c)
	if c.m.has("Close fails") {
		return errStopped
	}
	return nil
}

func (c *memoryClient) Cut() (func(), error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.online = make(chan struct{})
	return func() {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		close(c.online)
	}, nil
}

// StopMajority cuts all clients off, since the reference has a single server.
func (m *memory) StopMajority(Client) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var heals []func()
	for _, c := range m.clients {
		if !c.stopped {
			c.online = make(chan struct{})
			heals = append(heals, func() { close(c.online) })
		}
	}
	m.down = map[string]bool{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.down = nil
		for _, heal := range heals {
			heal()
		}
	}, nil
}

func (m *memory) Waiting(_ context.Context, key string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.key(key).queue), nil
}

func (c *memoryClient) Held(_ context.Context, key string) (bool, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.has("who looks sees a lock that was given back") && time.Since(m.releasedAt[key]) < memoryLag*10 {
		return true, nil
	}
	return len(m.key(key).holders) > 0, nil
}

func (c *memoryClient) Watch(ctx context.Context, key string) (<-chan Change, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	w := make(chan Change, 1<<16)
	m.watches[key] = append(m.watches[key], w)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watches[key] = slices.DeleteFunc(m.watches[key], func(o chan Change) bool { return o == w })
		close(w)
	})
	return w, nil
}
