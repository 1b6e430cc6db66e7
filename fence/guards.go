package fence

import (
	"container/list"
	"errors"
	"sync"
)

// DefaultGuards is how many resources [Guards] remember one by one unless told otherwise. With names as long as they may be that is about
// 40 MB, with names of 20 bytes 10.
const DefaultGuards = 1 << 16

// Guards is a [Guard] for each of many resources, by name. It may be used from any goroutine and must not be copied.
//
// Its memory is bounded. When there are too many resources, the one that was unused for longest is forgotten, and what it had seen
// goes into a floor that all forgotten and all unknown resources share: they refuse tokens under it. So no late writer ever
// gets in for that reason, but somebody who has held a lock for long, without writing, may be refused as if it had
// been lost. The error then says so; locking again gives a larger token. Avoid it with a limit well above the number of resources in use.
type Guards struct {
	limit int

	mu    sync.Mutex
	floor uint64 // no forgotten resource has seen a newer token
	known map[string]*guarded
	idle  list.List // of *guarded: those that no call uses, the longest unused in front
}

type guarded struct {
	Guard
	name  string
	users int           // calls under way; in idle if there are none
	place *list.Element // in idle; nil while used
}

// NewGuards returns Guards that remember so many resources one by one; 0 or less means [DefaultGuards]. Calls under way
// keep theirs even beyond the limit.
func NewGuards(limit int) *Guards {
	if limit <= 0 {
		limit = DefaultGuards
	}
	return &Guards{limit: limit, known: map[string]*guarded{}}
}

// Do calls write, unless the resource has seen a newer token, and returns its error. It is [Guard.Do] of that resource;
// others don't wait for it. A refusal is a [StaleError], [ErrToken] or [ErrResource].
func (gs *Guards) Do(resource string, token uint64, write func() error) error {
	if err := ValidateName(resource); err != nil {
		return err
	}
	if err := Validate(token); err != nil {
		return err
	}
	g, err := gs.take(resource, token)
	if err != nil {
		return named(resource, err)
	}
	defer gs.give(g)
	refused := true
	err = g.write(token, func() error {
		refused = false
		return write()
	})
	if refused {
		return named(resource, err)
	}
	return err
}

// Check returns nil and takes note of the token, unless it is refused. It is [Guard.Check] of that resource.
func (gs *Guards) Check(resource string, token uint64) error {
	return gs.Do(resource, token, func() error { return nil })
}

// Newest returns the newest token that the resource has seen; for one that is unknown or forgotten, the token under which
// it refuses, which is 0 as long as none was forgotten.
func (gs *Guards) Newest(resource string) uint64 {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.known[resource]; g != nil {
		return g.Newest()
	}
	return gs.floor
}

// take shows the token to the resource's guard, and keeps the guard in memory until give. Who is refused changes nothing.
func (gs *Guards) take(resource string, token uint64) (*guarded, error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.known[resource]
	if g == nil {
		if token < gs.floor {
			return nil, &StaleError{Token: token, Newest: gs.floor, Forgotten: true}
		}
		g = &guarded{name: resource}
		gs.known[resource] = g
	}
	// A new guard sees its token before anyone else can find it, so the floor holds for those who do.
	if err := g.see(token); err != nil {
		return nil, err
	}
	if g.place != nil {
		gs.idle.Remove(g.place)
		g.place = nil
	}
	g.users++
	gs.forget()
	return g, nil
}

func (gs *Guards) give(g *guarded) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.users--; g.users == 0 {
		g.place = gs.idle.PushBack(g)
		gs.forget()
	}
}

// forget brings the number of resources down to the limit, as far as they aren't in use.
func (gs *Guards) forget() {
	for len(gs.known) > gs.limit && gs.idle.Len() > 0 {
		g := gs.idle.Remove(gs.idle.Front()).(*guarded)
		gs.floor = max(gs.floor, g.Newest())
		delete(gs.known, g.name)
	}
}

// named tells a refusal of ours which resource it is about.
func named(resource string, err error) error {
	var stale *StaleError
	if errors.As(err, &stale) {
		stale.Resource = resource
	}
	return err
}
