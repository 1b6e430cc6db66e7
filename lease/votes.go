package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// voteTable has what a voter knows of its votes beyond the keys and the sessions.
type voteTable struct {
	serial    vote.Serial // of the newest promise
	residuals residualVotes
	reminders reminders
	// lapsedAt is when a vote last ended, or may have ended, without having been given back by its
	// owner: the vote's time or its session is over. The lease may go on by the votes of other
	// voters. A query that asked another voter before the other voter gave its vote, and this voter
	// after this voter's vote had ended, would see too few votes for the lease at both voters; so
	// each answer to a query states for how long the voter hasn't lost a vote.
	lapsedAt vote.Instant
}

// nextSerial returns the serial of a new promise.
func (t *voteTable) nextSerial() vote.Serial {
	t.serial++
	return t.serial
}

// lapsed records that a vote ends here, or may have ended; see voteTable.lapsedAt.
func (l *voteLayer) lapsed() { l.votes.lapsedAt = l.now.Slow }
