package quorum

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// drift watches whether a voter's clock gains on this node's by more than two clocks within rho may differ. Then the voter's promises end
// sooner than this node reckons, and exclusion isn't assured any more: an operator has to know. It is seen, too, after this machine
// was paused without any clock of it showing that. The other way round nothing is lost, so that isn't watched.
//
// An acknowledgement says what the voter's clock showed at some instant between the refresh and its arrival. So between two
// acknowledgements this node's clock ran for no longer than from the sending of the first refresh to the arrival of the second
// acknowledgement; if the voter's ran for longer than the bound allows for that, one of the two is wrong. Of all earlier
// acknowledgements it is enough to keep the one after which the voter's clock has the least lead.
type drift struct {
	life  vote.Life
	first reading // since when the lead is reckoned
	least reading // with the least lead
	lead  time.Duration
	text  string       // what was found last; empty when that is long ago
	found vote.Instant // when, on this node's clock
}

// reading is what a voter's clock showed, and the earliest that this node's showed at that instant.
type reading struct {
	voter, own vote.Instant
}

const (
	// driftTick is how coarse two clocks together may be: on Windows each may tick 64 times a second only.
	driftTick = 2 * time.Second / 64
	// driftForget is for how long what was found is worth telling. Drift that goes on is found again long before.
	driftForget = 10 * time.Minute
)

// driftSlack is by how much a voter's clock may lead: its coarseness, and what a holder is told of a loss too early anyway.
func driftSlack(ttl time.Duration) time.Duration { return max(driftTick, vote.Guard(ttl)) }

// ahead returns by how much more the voter's clock ran since the first reading than the bound allows for what this node's ran.
func (d *drift) ahead(voter, own vote.Instant) time.Duration {
	ran := max(own.Sub(d.first.own), 0)
	return voter.Sub(d.first.voter) - ran - vote.Drift(ran)
}

// heard takes in an acknowledgement that arrives now, and reports whether it shows that the clocks differ by too much, as none has for long.
func (d *drift) heard(life vote.Life, voter, sent, now vote.Instant, ttl time.Duration) bool {
	if d.text != "" && now.Sub(d.found) > driftForget {
		d.text = ""
	}
	r := reading{voter, sent}
	if life != d.life {
		d.life, d.first, d.least, d.lead = life, r, r, 0
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

// watch holds a voter's clock against this node's. A node's own voter reads the same clocks.
func (q *Requester) watch(p *peer, m *vote.Message) {
	if p.name != q.cfg.Self.Node && p.drift.heard(m.Life, m.Clock, m.Sent, q.now.Fast, q.cfg.TTL) {
		q.tell(EventDrift, 0).Text = fmt.Sprintf(
			"the clocks of %s and of this node differ by more than the %d in a thousand that leases allow for: %s. While that goes on two nodes may "+
				"believe that they hold one lock: check both clocks, and whether this machine is paused from outside", p.name, 2*vote.RhoPerMille, p.drift.text)
	}
}
