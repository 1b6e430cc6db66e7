package watchmerge

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Reconfigure switches the merger to another electorate. For each place, to is the new place of the
// voter there, negative if the voter has left. New voters, like all voters, start their reports
// with a gap.
//
// Nothing is missed in between: majorities of two consecutive electorates share a voter, so a lease
// under the earlier electorate is reported by some voter of any majority under the new electorate.
// If the voters without a gap are no longer a majority, the merger reports a gap.
func (m *Merger) Reconfigure(e quorum.Electorate, to []int) {
	m.electorate = e
	m.electorateChanges++
	m.reporting, m.gapless, m.queried = m.reporting.Moved(to), m.gapless.Moved(to), m.queried.Moved(to)
	m.base, m.candidates = m.base.Moved(to), m.candidates.Moved(to)
	delivered := m.delivered
	m.delivered = [maxPlaces]vote.Instant{}
	for from, place := range to {
		if place >= 0 {
			m.delivered[place] = delivered[from]
		}
	}
	for _, p := range m.keys {
		for _, list := range [][]*leaseState{p.held, p.pending} {
			for _, c := range list {
				c.reportedBy, c.votedBy, c.endedBy = c.reportedBy.Moved(to), c.votedBy.Moved(to), c.endedBy.Moved(to)
			}
		}
		for _, w := range p.waiting {
			w.reportedBy = w.reportedBy.Moved(to)
		}
	}
	m.gapUnlessWhole()
}
