package fence

import (
	"container/list"
	"errors"
	"sync"
)

// DefaultGuards is the default number of resources that [Guards] remember individually. With names
// of the maximum length they take about 40 MB, with names of 20 bytes 10 MB.
const DefaultGuards = 1 << 16

// Guards is a [Guard] for each of many resources, by name. A Guards may be used from any goroutine
// and must not be copied. The zero Guards remembers [DefaultGuards] resources.
//
// Its memory is bounded. When there are too many resources, the least recently used resource is
// forgotten, and its token raises a minimum token shared by all forgotten and all unknown
// resources: they refuse tokens below the minimum. So forgetting never lets a late writer in, but a
// client that has held a lock for long, without writing, may be refused as if the lock had been
// lost. The error then says so (see Forgotten of [StaleError]); locking again yields a larger
// token. To avoid such refusals, choose a limit well above the number of resources in use.
type Guards struct {
	limit int

	mu       sync.Mutex
	minToken uint64 // the minimum token: no forgotten resource has seen a newer token
	byName   map[string]*guardEntry
	// The elements of idle are the *guarded without users, the least recently used in front.
	idle list.List
}

type guardEntry struct {
	Guard
	name     string
	users    int           // calls under way; in idle if there are none
	idleElem *list.Element // in idle; nil while used
}

// NewGuards returns Guards that remember limit resources individually; 0 or less means
// [DefaultGuards]. Resources with calls under way are kept even beyond the limit.
func NewGuards(limit int) *Guards {
	return &Guards{limit: limit}
}

// Do calls write, unless the resource has seen a newer token, and returns write's error. Do is
// [Guard.Do] of the resource; calls for other resources don't wait. A refusal is a [StaleError],
// [ErrToken] or [ErrResource].
func (gs *Guards) Do(resource string, token uint64, write func() error) error {
	checkWrite(write)
	if err := ValidateName(resource); err != nil {
		return err
	}
	if err := Validate(token); err != nil {
		return err
	}
	g, err := gs.acquire(resource, token)
	if err != nil {
		return withResource(resource, err)
	}
	defer gs.release(g)
	refused := true
	err = g.write(token, func() error {
		refused = false
		return write()
	})
	if refused {
		return withResource(resource, err)
	}
	return err
}

// Check returns nil and records the token, unless the token is refused. Check is [Guard.Check] of
// the resource.
func (gs *Guards) Check(resource string, token uint64) error {
	return gs.Do(resource, token, func() error { return nil })
}

// Newest returns the newest token that the resource has seen; for an unknown or forgotten resource,
// the minimum token, which is 0 until a resource is forgotten.
func (gs *Guards) Newest(resource string) uint64 {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.byName[resource]; g != nil {
		return g.Newest()
	}
	return gs.minToken
}

// acquire presents the token to the resource's guard, and keeps the guard in memory until release.
// A refused token changes nothing.
func (gs *Guards) acquire(resource string, token uint64) (*guardEntry, error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byName[resource]
	if gs.byName == nil {
		gs.byName = make(map[string]*guardEntry)
	}
	if g == nil {
		if token < gs.minToken {
			return nil, &StaleError{Token: token, Newest: gs.minToken, Forgotten: true}
		}
		g = &guardEntry{name: resource}
		gs.byName[resource] = g
	}
	// A new guard sees its token before any other goroutine can find the guard, so the minimum
	// token holds for later callers.
	if err := g.advance(token); err != nil {
		return nil, err
	}
	if g.idleElem != nil {
		gs.idle.Remove(g.idleElem)
		g.idleElem = nil
	}
	g.users++
	gs.evict()
	return g, nil
}

func (gs *Guards) release(g *guardEntry) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.users--; g.users == 0 {
		g.idleElem = gs.idle.PushBack(g)
		gs.evict()
	}
}

// evict removes unused resources until their number is within the limit.
func (gs *Guards) evict() {
	limit := gs.limit
	if limit <= 0 {
		limit = DefaultGuards
	}
	for len(gs.byName) > limit && gs.idle.Len() > 0 {
		g := gs.idle.Remove(gs.idle.Front()).(*guardEntry)
		gs.minToken = max(gs.minToken, g.Newest())
		delete(gs.byName, g.name)
	}
}

// withResource sets the name of the resource in a refusal.
func withResource(resource string, err error) error {
	var stale *StaleError
	if errors.As(err, &stale) {
		stale.Resource = resource
	}
	return err
}
