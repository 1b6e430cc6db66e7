package fence

import (
	"sync"
	"sync/atomic"
)

// Guard refuses tokens older than the newest token seen. A Guard belongs in the one process through
// which all writes to a resource go; in the holders themselves it would be useless, as each holder
// would have its own Guard.
//
// The zero value has seen no token. A Guard may be used from any goroutine, takes a few words of
// memory, and must not be copied.
//
// A Guard forgets its token when its process ends, and a new Guard accepts any token first. So a
// late write accepted after a restart can overwrite a newer write from before the restart. Where
// this matters, keep the newest token with the data, as sqlfence and objectfence do; or store the
// token yourself, and Check the stored token on the new Guard before any other call.
type Guard struct {
	writeMu sync.Mutex // held while a write runs
	newest  atomic.Uint64
}

// Do calls write, unless a newer token has been seen, and returns write's error. A refusal is a
// [StaleError], or [ErrToken].
//
// Check and write are one step: calls on one guard run one after another, and no write begins once
// a newer token has been seen. A newer token that arrives during a write waits for the end of the
// write, since the effects begun by the write may still occur; so give write a time limit of its
// own. Only effects completed when write returns are protected: write must not leave work behind.
//
// Several goroutines may write with the same token; they take turns. The token stays seen if write
// fails or panics. write must not call the guard.
func (g *Guard) Do(token uint64, write func() error) error {
	checkWrite(write)
	if err := g.advance(token); err != nil {
		return err
	}
	return g.write(token, write)
}

// Check returns nil and records the token, unless the token is refused as by [Guard.Do].
//
// When Check returns nil, every write of Do with an older token has ended and none will begin. But
// Check says nothing about later: a newer token may be seen before the caller of Check has written.
// Use Check to shut out older holders, and Do to write.
func (g *Guard) Check(token uint64) error {
	return g.Do(token, func() error { return nil })
}

// Newest returns the newest token seen; 0 if there is none.
func (g *Guard) Newest() uint64 { return g.newest.Load() }

// checkWrite panics if there is no function to call, before a token is recorded.
func checkWrite(write func() error) {
	if write == nil {
		panic("fence: Do was called with a nil function")
	}
}

// advance records the token as the newest, unless a newer token was seen. From then on older tokens
// are refused, including writes already waiting for their turn.
func (g *Guard) advance(token uint64) error {
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

// write waits for the token's turn, and refuses the token if a newer one has been seen meanwhile.
func (g *Guard) write(token uint64, write func() error) error {
	g.writeMu.Lock()
	defer g.writeMu.Unlock()
	if newest := g.newest.Load(); token < newest {
		return &StaleError{Token: token, Newest: newest}
	}
	return write()
}
