package locktest

import (
	"context"
	"slices"
	"time"
)

// memoryLock is a lock of a memory. The server's mutex guards it.
type memoryLock struct {
	r        *memoryRequest
	deadline time.Time // at the grant
	done     chan struct{}
	err      error
}

// end ends the lock, unless it has ended before; mu is held.
func (l *memoryLock) end(err error) {
	m := l.r.c.m
	if l.err != nil {
		return
	}
	l.err = err
	delete(l.r.c.locks, l)
	if !m.has("Done stays open") && !m.has("Done is closed at once") {
		close(l.done)
	}
}

func (l *memoryLock) Unlock(ctx context.Context) error {
	c, m := l.r.c, l.r.c.m
	m.mu.Lock()
	if l.err != nil {
		defer m.mu.Unlock()
		k := m.key(l.r.name)
		switch {
		case m.has("Unlock frees whoever holds") && len(k.holders) > 0:
			m.free(k.holders[0])
		case m.has("Unlock frees what its client holds"):
			if i := slices.IndexFunc(k.holders, func(r *memoryRequest) bool { return r.c == c }); i >= 0 {
				m.free(k.holders[i])
			}
		case m.has("a second Unlock is silent"), m.has("the Unlock of what was lost is silent") && l.err == errGone:
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
	case <-c.way():
	case <-c.stop:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err() // it may be called again
	}
	if m.has("Unlock returns before it has happened") {
		time.AfterFunc(20*memoryLag, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.free(l.r)
		})
		return nil
	}
	m.mu.Lock()
	if l.err != nil {
		defer m.mu.Unlock()
		return l.err
	}
	l.end(errReleased)
	was := m.free(l.r)
	m.mu.Unlock()
	if !was {
		return errGone
	}
	answer := time.NewTimer(memoryLag)
	defer answer.Stop()
	select {
	case <-answer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() // and it has happened all the same
	}
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
		return l.r.c.until.Add(m.ttl)
	}
	return l.r.c.until
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
	c.session.Stop()
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

func (m *memory) Waiting(_ context.Context, key string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.key(key).line), nil
}
