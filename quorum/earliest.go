package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// earliest is the minimum of several instants, kept so that a message doesn't have to look at them
// all. The minimum may be too early while stale.
type earliest struct {
	at    vote.Instant
	stale bool
}

// add adds an instant.
func (e *earliest) add(at vote.Instant) { e.at = min(e.at, at) }

// remove removes an instant that was added.
func (e *earliest) remove(at vote.Instant) { e.stale = e.stale || at <= e.at }
