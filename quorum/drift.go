package quorum

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// drift detects a voter's clock that gains on this node's clock by more than two clocks within rho
// can. Then the voter's promises end sooner than this node reckons, and exclusion is no longer
// assured: an operator has to know. A pause of this machine not shown by its own clocks is
// detected, too. A voter's clock that falls behind does no harm and isn't detected.
//
// An acknowledgement carries the voter's clock at some instant between the refresh and the arrival
// of the acknowledgement. So between two such readings this node's clock advanced at most from the
// sending of the first refresh to the arrival of the second acknowledgement. If the voter's clock
// advanced by more than the bound allows for this time, one of the two clocks is wrong. Of all
// earlier readings only the reading with the least lead of the voter's clock has to be kept.
type drift struct {
	incarnation vote.Incarnation
	first       reading // where the measurement of the lead begins
	least       reading // the reading with the least lead
	lead        time.Duration
	text        string       // the latest finding; heard clears findings older than driftForget
	found       vote.Instant // when the finding was made, on this node's clock
}

// reading is what a voter's clock showed, and the earliest that this node's clock can have shown at
// the same instant.
type reading struct {
	voter, own vote.Instant
}

const (
	// driftTick is the granularity of two clocks together: on Windows each may tick only 64 times a
	// second.
	driftTick = 2 * time.Second / 64
	// driftForget is how long a finding is worth reporting. Lasting drift is found again long
	// before.
	driftForget = 10 * time.Minute
)

// driftSlack is how far a voter's clock may lead: the clocks' granularity, or the margin by which a
// holder learns of a loss early, if larger.
func driftSlack(ttl time.Duration) time.Duration { return max(driftTick, vote.Margin(ttl)) }

// ahead returns by how much the voter's clock advanced since the first reading beyond what the
// bound allows for the advance of this node's clock.
func (d *drift) ahead(voter, own vote.Instant) time.Duration {
	ran := max(own.Sub(d.first.own), 0)
	return voter.Sub(d.first.voter) - ran - vote.Drift(ran)
}

// add takes in an acknowledgement that arrives now, and reports whether it shows too large a
// difference between the clocks, with no other finding in the last driftForget.
func (d *drift) add(incarnation vote.Incarnation, voter, sent, now vote.Instant, ttl time.Duration) bool {
	if d.text != "" && now.Sub(d.found) > driftForget {
		d.text = ""
	}
	r := reading{voter, sent}
	if incarnation != d.incarnation {
		d.incarnation, d.first, d.least, d.lead = incarnation, r, r, 0
		return false
	}
	if d.ahead(voter, now) > d.lead+driftSlack(ttl) {
		isNew := d.text == ""
		d.text = fmt.Sprintf("its clock ran for %v while this node's ran for at most %v", voter.Sub(d.least.voter), now.Sub(d.least.own))
		d.found, d.first, d.least, d.lead = now, r, r, 0
		return isNew
	}
	if lead := d.ahead(voter, sent); lead < d.lead {
		d.least, d.lead = r, lead
	}
	return false
}

// checkDrift compares a voter's clock with this node's. A node's own voter reads the same clocks.
func (l *sessionLayer) checkDrift(p *peer, m *vote.Message) {
	if p.name == l.cfg.Self.Node {
		return
	}
	p.rate.add(m.Incarnation, m.Clock, m.Sent, l.now.Fast)
	if p.drift.add(m.Incarnation, m.Clock, m.Sent, l.now.Fast, l.ttl()) {
		l.emit(EventDrift, 0).Text = fmt.Sprintf(
			"the clocks of %s and of this node differ by more than the %d in a thousand that leases allow for: %s. While that goes on two nodes may "+
				"believe that they hold one lock: check both clocks, and whether this machine is paused from outside", p.name, 2*vote.RhoPerMille, p.drift.text)
	}
}
