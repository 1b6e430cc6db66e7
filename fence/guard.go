package fence

import (
	"sync"
	"sync/atomic"
)

// Guard refuses tokens older than the newest that it has seen. It stands in the one process through which all writes to a resource
// go; in the holders themselves it would be useless, as each would have its own.
//
// Its zero value has seen nothing. It may be used from any goroutine, takes a few words of memory, and must not be copied.
//
// A guard forgets when its process ends, and a new one accepts whatever comes first. So a late write that a restart has let
// through can overwrite a newer one of before the restart. Where that matters, keep the newest token with the data, as sqlfence and
// objectfence do; or store it yourself, and Check it on the new guard before anything else.
type Guard struct {
	turn   sync.Mutex // held while a write runs
	newest atomic.Uint64
}

// Do calls write, unless a newer token has been seen, and returns its error. A refusal is a [StaleError], or [ErrToken].
//
// Check and write are one step: calls on one guard run one after another, and no write begins once a newer token has been seen. A newer
// one that comes during a write waits for its end, since what the write has begun may still take effect; so give write a time
// limit of its own. Only what has taken effect when write returns is protected: it must not leave work behind.
//
// Several goroutines may write by one token; they take turns. The token stays seen if write fails or panics. write must not call
// the guard.
func (g *Guard) Do(token uint64, write func() error) error {
	if err := g.see(token); err != nil {
		return err
	}
	return g.write(token, write)
}

// Check returns nil and takes note of the token, unless it is refused as by [Guard.Do].
//
// When it returns nil, every write of Do by an older token has ended and none will begin. But it says nothing about later: a newer
// token may be seen before its caller has written. Use it to shut out older holders, and Do to write.
func (g *Guard) Check(token uint64) error {
	return g.Do(token, func() error { return nil })
}

// Newest returns the newest token that was seen; 0 if none was.
func (g *Guard) Newest() uint64 { return g.newest.Load() }

// see makes the token the newest, unless a newer one was seen. From then on older ones are refused, even those that wait for
// their turn already.
func (g *Guard) see(token uint64) error {
	if err := Validate(token); err != nil {
		return err
	}
	for {
		newest := g.newest.Load()
		if token < newest {
			return &StaleError{Token: token, Newest: newest}
		}
		if g.newest.CompareAndSwap(newest, token) {
			return nil
		}
	}
}

// write waits for the token's turn, and refuses it if a newer one has come meanwhile.
func (g *Guard) write(token uint64, write func() error) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if newest := g.newest.Load(); token < newest {
		return &StaleError{Token: token, Newest: newest}
	}
	return write()
}
