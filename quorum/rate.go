package quorum

import (
	"math"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// rate measures how much faster a voter's clock runs than this node's, for operators: no lock
// depends on it. (drift watches the bound that exclusion assumes.)
//
// An acknowledgement carries the voter's clock at some instant between the refresh and the arrival
// of the acknowledgement: in the middle, to within half the round trip. So the ratio of the
// advances of both clocks between two such readings is known to within the sum of these halves,
// divided by the time between the readings. The longer ago the first reading, the surer the ratio.
type rate struct {
	incarnation vote.Incarnation
	base        halfway // the reading from which the rate is measured
	next        halfway // the surest reading of the second half of the window, the next base
	ppm         int64   // the newest measurement; zero while unknown
}

// halfway is what a voter's clock showed, and what this node's clock showed at the same instant, to
// within a doubt.
type halfway struct {
	voter, own vote.Instant
	doubt      time.Duration
}

const (
	// rateBegins is for how long the surest reading is looked for, as the first base.
	rateBegins = 10 * time.Second
	// rateWindow is the longest time over which a rate is measured: long enough for a network with
	// round trips of 100 ms, and short enough to show a change of the rate within hours.
	rateWindow = time.Hour
	// rateDoubt is the largest doubt of a rate that is shown, in parts per million. Clocks of common
	// machines differ by up to 100.
	rateDoubt = 20
	// rateLate is by how much longer than the base's a doubt may be. A longer round trip says that
	// the refresh or its acknowledgement waited somewhere.
	rateLate = time.Millisecond
)

// millionths returns a part of a positive time.
func millionths(part, of time.Duration) float64 { return float64(part) / float64(of) * 1e6 }

// add takes in an acknowledgement that arrives now.
func (m *rate) add(incarnation vote.Incarnation, voter, sent, now vote.Instant) {
	half := max(now.Sub(sent), 0) / 2
	r := halfway{voter, sent.Add(half), half}
	ran := r.own.Sub(m.base.own)
	switch {
	case incarnation != m.incarnation, ran < 0, ran > 2*rateWindow:
		// Within two windows the base moves, unless all round trips are longer now than at its time.
		*m = rate{incarnation: incarnation, base: r}
		return
	case ran < rateBegins:
		if r.doubt < m.base.doubt {
			m.base = r
		}
		return
	case r.doubt > m.base.doubt+rateLate:
		return
	}
	// Not in integers: a clock that leaps would overflow them.
	if millionths(m.base.doubt+r.doubt, ran) <= rateDoubt {
		m.ppm = int64(math.Round(millionths(r.voter.Sub(m.base.voter)-ran, ran)))
	}
	if ran >= rateWindow/2 && (m.next == halfway{} || r.doubt <= m.next.doubt) {
		m.next = r
	}
	if ran >= rateWindow {
		m.base, m.next = m.next, halfway{}
	}
}
