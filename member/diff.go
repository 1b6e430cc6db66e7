package member

import "github.com/lockmesh/lockmesh/internal/vote"

// diff returns what has changed since known, in the order of now, and brings known up to date. The member called self is passed over:
// a node needs no news of itself.
//
// Events are made from what the members are and not from what gossip said on the way. So there is no queue to overflow: however
// slow the receiver is, it ends up with the truth.
func diff(known map[vote.NodeID]Member, now []Member, self vote.NodeID) []Event {
	var events []Event
	seen := make(map[vote.NodeID]bool, len(now))
	for _, m := range now {
		if m.Name == self {
			continue
		}
		seen[m.Name] = true
		old, had := known[m.Name]
		known[m.Name] = m
		if kind := change(old, had, m); kind != 0 {
			events = append(events, Event{Member: m, Kind: kind})
		}
	}
	for name := range known {
		// Gossip forgets only members that failed or left long ago; that was told then.
		if !seen[name] {
			delete(known, name)
		}
	}
	return events
}

// change returns what happened between two looks at a member; zero for nothing worth telling.
func change(old Member, had bool, m Member) EventKind {
	wasAlive := had && old.State == Alive
	switch {
	case m.State == Alive && !wasAlive:
		return Joined
	case m.State == Alive && (m.Life != old.Life || m.Dir != old.Dir || m.Addr != old.Addr):
		return Updated
	case m.State == Left && had && old.State != Left:
		return MemberLeft
	case m.State == Failed && wasAlive:
		return MemberFailed
	}
	return 0
}
