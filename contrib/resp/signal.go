package resp

import (
	"container/list"
	"context"
	"math"
	"strconv"
	"sync"
	"time"
)

// signals are lists for the clients of a server, to tell each other of a free lock:
// LPUSH and BLPOP. They live in memory here, and nowhere else in the mesh: a waiter at another
// server waits until its timeout. No lock is held by a signal, so a lost signal costs time
// and nothing else.
type signals struct {
	mu    sync.Mutex
	lists map[string]*signalList
	order list.List // the lists' names, the oldest in front
}

// signalList is a list of signals, or the waiters for one; a list with waiters has no items.
type signalList struct {
	items   []string // the last is the head, pushed last
	end     time.Time
	waiters list.List // of chan string
	place   *list.Element
}

// of returns the list of a key, or nil. The caller holds mu.
func (s *signals) of(key string) *signalList {
	l := s.lists[key]
	if l != nil && !l.end.IsZero() && !time.Now().Before(l.end) {
		l.items, l.end = nil, time.Time{}
		s.tidy(key, l)
		return s.lists[key]
	}
	return l
}

// open returns the list of a key, made if need be. The caller holds mu.
func (s *signals) open(key string) *signalList {
	if l := s.of(key); l != nil {
		return l
	}
	if s.lists == nil {
		s.lists = make(map[string]*signalList)
	}
	l := &signalList{place: s.order.PushBack(key)}
	s.lists[key] = l
	// The oldest go first; lists with waiters stay, and are as many as there are connections.
	for at := s.order.Front(); at != nil && len(s.lists) > maxSignals; {
		next, name := at.Next(), at.Value.(string)
		if old := s.lists[name]; old != l && old.waiters.Len() == 0 {
			s.forget(name, old)
		}
		at = next
	}
	return l
}

// tidy forgets a list without items and waiters. The caller holds mu.
func (s *signals) tidy(key string, l *signalList) {
	if len(l.items) == 0 && l.waiters.Len() == 0 {
		s.forget(key, l)
	}
}

func (s *signals) forget(key string, l *signalList) {
	s.order.Remove(l.place)
	delete(s.lists, key)
}

func (s *signals) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of(key)
	return l != nil && len(l.items) > 0
}

// push adds items, or hands them to waiters, and returns the length of the list before waiters took
// their items, as Redis does.
func (s *signals) push(key string, items []string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.open(key)
	length := len(l.items) + len(items)
	l.items = append(l.items, items...)
	for len(l.items) > 0 && l.waiters.Len() > 0 {
		last := len(l.items) - 1
		l.waiters.Remove(l.waiters.Front()).(chan string) <- l.items[last]
		l.items = l.items[:last]
	}
	if over := len(l.items) - maxSignalItems; over > 0 {
		l.items = append([]string(nil), l.items[over:]...)
	}
	s.tidy(key, l)
	return length
}

// pop takes the item pushed last.
func (s *signals) pop(key string) (item string, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of(key)
	if l == nil || len(l.items) == 0 {
		return "", false
	}
	last := len(l.items) - 1
	item, l.items = l.items[last], l.items[:last]
	s.tidy(key, l)
	return item, true
}

// await takes an item as soon as there is an item. has is false if ctx ends first.
func (s *signals) await(ctx context.Context, key string) (item string, has bool) {
	s.mu.Lock()
	l := s.open(key)
	if last := len(l.items) - 1; last >= 0 {
		item, l.items = l.items[last], l.items[:last]
		s.tidy(key, l)
		s.mu.Unlock()
		return item, true
	}
	given := make(chan string, 1)
	place := l.waiters.PushBack(given)
	s.mu.Unlock()
	select {
	case item = <-given:
		return item, true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case item = <-given: // in the last moment
		return item, true
	default:
	}
	l.waiters.Remove(place)
	s.tidy(key, l)
	return "", false
}

func (s *signals) del(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of(key)
	if l == nil || len(l.items) == 0 {
		return false
	}
	l.items, l.end = nil, time.Time{}
	s.tidy(key, l)
	return true
}

func (s *signals) expire(key string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of(key); l != nil {
		l.end = time.Now().Add(d)
		s.of(key) // forgotten at once, if the time is over
	}
}

func (s *signals) left(key string) (left time.Duration, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of(key)
	if l == nil || l.end.IsZero() {
		return 0, false
	}
	return time.Until(l.end), true
}

func (s *signals) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lists)
}

func doLPush(x *call) reply {
	key, items := x.args[0], x.args[1:]
	for _, item := range items {
		if len(item) > maxSignalLen {
			return refused("the item has %d bytes, more than %d: lists are for signals between clients", len(item), maxSignalLen)
		}
	}
	v, err := x.look(key)
	switch {
	case err != nil:
		return x.given(err)
	case v.own != nil || v.foreign:
		return errWrongType
	}
	return integer(x.s.signals.push(key, items))
}

func doLPop(x *call) reply {
	if len(x.args) > 1 {
		return refused("LPOP with a count isn't offered")
	}
	item, none := x.pop(x.args[0])
	if none != nil {
		return none
	}
	return bulk(item)
}

// pop takes a signal. none is null if there is none, and an error if the key is no list.
func (x *call) pop(key string) (item string, none reply) {
	if item, has := x.s.signals.pop(key); has {
		return item, nil
	}
	v, err := x.look(key)
	switch {
	case err != nil:
		return "", x.given(err)
	case v.exists():
		return "", errWrongType
	}
	return "", null{}
}

// popLocked is pop for a command without its key's lock.
func (x *call) popLocked(key string) (item string, none reply) {
	ctx, cancel := context.WithTimeout(x.ctx, x.s.patience())
	defer cancel()
	unlock, err := x.s.locks.lock(ctx, key)
	if err != nil {
		return "", x.given(err)
	}
	defer unlock()
	y := *x
	y.ctx = ctx
	return y.pop(key)
}

func doBLPop(x *call) reply {
	if len(x.args) > 2 {
		return refused("BLPOP of several keys isn't offered")
	}
	key := x.args[0]
	seconds, err := strconv.ParseFloat(x.args[1], 64)
	switch {
	case err != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return failure("ERR timeout is not a float or out of range")
	case seconds < 0 || seconds*1000 > math.MaxInt64: // Redis calls both negative
		return failure("ERR timeout is negative")
	}
	item, none := x.popLocked(key)
	if none == nil {
		return array{bulk(key), bulk(item)}
	}
	if none != (null{}) {
		return none
	}
	wait := maxBlock
	if seconds > 0 {
		wait = time.Duration(min(seconds, maxBlock.Seconds()) * float64(time.Second))
	}
	if x.conn.flush() != nil { // answers to earlier requests
		return nullArray{}
	}
	var r reply = nullArray{}
	x.conn.whileConnected(x.ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if item, has := x.s.signals.await(ctx, key); has {
			r = array{bulk(key), bulk(item)}
		}
	})
	return r
}
