package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Renewal says what a voter's answer to a refresh, to a sync or to an extension has brought about.
type Renewal struct {
	RoundTrip time.Duration // from the message of this node to the voter's answer
	// The leases that last longer than before, due to the answer. Without such leases the fields
	// below are zero.
	Leases int
	Left   time.Duration // how long the leases had left, at least
	TTL    time.Duration // how long a vote lasts without another answer
}

// renewals collects what an answer extends, for the report of the answer.
type renewals struct {
	report bool // the shell wants reports
	leases int
	until  vote.Instant // the earliest end of the leases so far; unless leases is zero
}

// begin forgets what was extended for other reasons than an answer.
func (c *renewals) begin() { c.leases = 0 }

// add counts the leases of a group with an end that moves.
func (c *renewals) add(g *group, until vote.Instant) {
	if !c.report || until <= g.until || len(g.members) == 0 {
		return
	}
	if c.leases == 0 || g.until < c.until {
		c.until = g.until
	}
	c.leases += len(g.members)
}

// reportRenewal reports an answer of a voter to a message sent at an instant, with the leases
// counted since begin. ttl is how long a vote of these leases lasts.
func (l *leaseLayer) reportRenewal(p *peer, sent vote.Instant, ttl time.Duration) {
	c := &l.renewals
	if !c.report {
		return
	}
	r := &Renewal{RoundTrip: l.now.Fast.Sub(sent), Leases: c.leases}
	if c.leases > 0 {
		r.Left, r.TTL = max(c.until.Sub(l.now.Fast), 0), ttl
	}
	e := l.emit(EventRenewed, 0)
	e.Who, e.Renewal = p.name, r
}
