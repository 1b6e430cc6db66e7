package member

import (
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// rumours are members that have restarted with another address, while gossip still lists their old lives. Gossip takes them in
// within seconds; a rumour that isn't true by then is dropped.
type rumours struct {
	mu  sync.Mutex
	all map[vote.NodeID]rumour // by names that gossip lists, so there are no more than members
}

type rumour struct {
	member  Member
	instead vote.Life
	until   time.Time
}

func (r *rumours) add(m Member, instead vote.Life, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[vote.NodeID]rumour)
	}
	r.all[m.Name] = rumour{member: m, instead: instead, until: until}
}

// apply puts those who are rumoured in the place of their old lives, and drops what is settled.
func (r *rumours) apply(members []Member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range members {
		one, ok := r.all[m.Name]
		switch {
		case !ok:
		case m.Life == one.instead && now.Before(one.until):
			members[i] = one.member
		default:
			delete(r.all, m.Name)
		}
	}
}
