package member

import (
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// pendingRestarts are members that have restarted with another address, while gossip still lists
// their previous incarnations. Gossip accepts a restarted member within seconds; a restart that
// gossip hasn't confirmed by then is dropped.
type pendingRestarts struct {
	mu  sync.Mutex
	all map[vote.NodeID]pendingRestart // names listed by gossip, so there are no more restarts than members
}

type pendingRestart struct {
	member  Member
	instead vote.Incarnation
	until   time.Time
}

func (r *pendingRestarts) add(m Member, instead vote.Incarnation, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[vote.NodeID]pendingRestart)
	}
	r.all[m.Name] = pendingRestart{member: m, instead: instead, until: until}
}

// apply replaces the previous incarnations in members by the restarted members, and drops settled
// restarts.
func (r *pendingRestarts) apply(members []Member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range members {
		one, ok := r.all[m.Name]
		switch {
		case !ok:
		case m.Incarnation == one.instead && now.Before(one.until):
			members[i] = one.member
		default:
			delete(r.all, m.Name)
		}
	}
}
