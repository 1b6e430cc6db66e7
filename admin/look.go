package admin

import (
	"context"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// looks has the states of keys that were shown to refused requests in the last lookAge, or are
// being asked for.
//
// Clients that try again and again are refused thousands of times a second, and the state of a
// crowded key comes from all voters, with up to 1,024 waiters. So all requests of a key that are
// refused within lookAge of an answer get that answer: the node asks the voters once for all of
// them, and for at most MaxAnswers keys at a time. The states of at most maxLooks keys are kept.
type looks struct {
	mu       sync.Mutex
	byKey    map[string]*look
	underWay int // looks whose voters haven't answered yet
}

// look is the state of a key for refused requests. The first refused request asks the voters;
// the others wait for the answer.
type look struct {
	done chan struct{} // closed once lock is set
	lock *Lock         // nil if the voters didn't answer in time
}

// at returns the state of a key for a refused request; nil if the state isn't known in time. ctx is
// that of the request, and inspect asks the voters.
func (l *looks) at(ctx context.Context, key string, inspect func(context.Context, string) (lockmesh.Info, error)) *Lock {
	k, first := l.begin(key)
	switch {
	case k == nil:
		return nil
	case first:
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		// Also after a panic: otherwise the key's refused requests would wait for an answer.
		defer l.end(key, k)
		if info, err := inspect(ctx, key); err == nil {
			k.lock = summaryOf(&info)
		}
		return k.lock
	}
	select {
	case <-k.done:
		return k.lock
	case <-ctx.Done():
		return nil
	}
}

// begin returns the look at a key, and whether the caller is the first and asks the voters; nil if
// there are too many looks.
func (l *looks) begin(key string) (k *look, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byKey[key]; k != nil {
		return k, false
	}
	if l.underWay >= MaxAnswers {
		return nil, false
	}
	l.underWay++
	if l.byKey == nil {
		l.byKey = make(map[string]*look)
	}
	k = &look{done: make(chan struct{})}
	l.byKey[key] = k
	return k, true
}

// end ends a look, whose state of the key is kept for lookAge. Without a state, as when the client
// of the first request has gone, the next refused request asks the voters again.
func (l *looks) end(key string, k *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	close(k.done)
	if k.lock == nil || len(l.byKey) > maxLooks {
		delete(l.byKey, key)
		return
	}
	time.AfterFunc(lookAge, func() { l.forget(key) })
}

func (l *looks) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byKey, key)
}
