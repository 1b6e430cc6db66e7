package member

import "github.com/lockmesh/lockmesh/internal/vote"

// diff returns the changes since known, in the order of now, and updates known. The member called
// self is skipped: a node needs no news of itself.
//
// Events are derived from the members' current state, not from the sequence of gossip messages. So
// no queue can overflow: however slow the receiver is, the receiver ends up with the current state.
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
		// Gossip forgets only members that failed or left long ago; their end was reported then.
		if !seen[name] {
			delete(known, name)
		}
	}
	return events
}

// change returns the event between two states of a member; zero if there is nothing to report.
func change(old Member, had bool, m Member) EventKind {
	wasAlive := had && old.State == vote.Alive
	switch {
	case m.State == vote.Alive && !wasAlive:
		return Joined
	case m.State == vote.Alive && (m.Incarnation != old.Incarnation || m.Dir != old.Dir || m.Addr != old.Addr):
		return Updated
	case m.State == vote.Left && had && old.State != vote.Left:
		return MemberLeft
	case m.State == vote.Failed && wasAlive:
		return MemberFailed
	}
	return 0
}
