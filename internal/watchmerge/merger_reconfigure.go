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
func (t *Merger) Reconfigure(e quorum.Electorate, to []int) {
	t.electorate = e
	t.electorateChanges++
	t.reporting, t.gapless, t.queried = t.reporting.Moved(to), t.gapless.Moved(to), t.queried.Moved(to)
	t.base, t.candidates = t.base.Moved(to), t.candidates.Moved(to)
	delivered := t.delivered
	t.delivered = [maxPlaces]vote.Instant{}
	for from, place := range to {
		if place >= 0 {
			t.delivered[place] = delivered[from]
		}
	}
	for _, p := range t.keys {
		for _, list := range [][]*leaseState{p.held, p.pending} {
			for _, c := range list {
				c.reportedBy, c.votedBy, c.endedBy = c.reportedBy.Moved(to), c.votedBy.Moved(to), c.endedBy.Moved(to)
			}
		}
		for _, w := range p.waiting {
			w.reportedBy = w.reportedBy.Moved(to)
		}
	}
	t.gapUnlessWhole()
}
