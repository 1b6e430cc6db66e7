package quorum

import (
	"cmp"
	"slices"
	"time"
)

// Requests are sent first to the nearest majority. A node's own voter is the nearest of all. Among
// voters at about the same distance each node begins with a different voter, so that not all nodes
// wake the same voters.

// maxNearestRTT is the longest round trip to a voter of the nearest majority at which sparing the
// other voters pays. Beyond maxNearestRTT the deferred requests would be sent before an answer
// arrives, and the fastest answers of all voters arrive sooner than the answers of a few given
// voters.
const maxNearestRTT = maxHedgeDelay / 2

// nearby is by how much the round trips to two voters at about the same distance may differ,
// besides a quarter of the shorter round trip. Within one machine or switch, round trips vary by
// more than a quarter from one moment to the next.
const nearby = 100 * time.Microsecond

// distances are the voters in order of their distances from this node.
type distances struct {
	order      []int         // the voters' places, nearest first
	firstPlace int           // the first place among equally near voters
	far        time.Duration // the longest known round trip to a voter
	keepsOrder bool          // the order doesn't change with the round trips
}

// setOrder sorts the voters by distance.
func (d *distances) setOrder(peers []*peer) {
	d.order, d.far = d.order[:0], 0
	for i, p := range peers {
		d.order = append(d.order, (d.firstPlace+i)%len(peers))
		d.far = max(d.far, p.rtt)
	}
	if d.keepsOrder {
		// The order never changes, so an exhaustive search needn't tell states apart by round
		// trips.
		return
	}
	trip := func(place int) time.Duration {
		if p := peers[place]; p.rtt > 0 {
			return p.rtt
		}
		return time.Hour // unknown
	}
	slices.SortStableFunc(d.order, func(a, b int) int { return cmp.Compare(trip(a), trip(b)) })
	for rest := d.order; len(rest) > 0; {
		near, most := 1, trip(rest[0])*5/4+nearby
		for near < len(rest) && trip(rest[near]) <= most {
			near++
		}
		slices.SortFunc(rest[:near], func(a, b int) int {
			return cmp.Compare((a-d.firstPlace+len(peers))%len(peers), (b-d.firstPlace+len(peers))%len(peers))
		})
		rest = rest[near:]
	}
}

// isUncontended reports whether no other request for the key is known, neither on another node nor
// on this node.
func (q *Requester) isUncontended(r *request) bool {
	return !r.contended && q.queues[r.key] == nil
}

// nearestMajority returns the voters, out of a set, to which messages go first: the fewest that
// decide, the nearest preferred. The result is all voters if the set doesn't decide, if a voter
// needed for the majority is far away, or if the electorate has just changed.
func (l *sessionLayer) nearestMajority(out Set) Set {
	if l.before.Known() {
		return ^Set(0)
	}
	var few Set
	for _, place := range l.order {
		if out.Has(place) {
			if few = few.With(place); l.newest.Decides(few) && l.peers[place].rtt <= maxNearestRTT {
				return few
			}
		}
	}
	return ^Set(0)
}

// counting returns the voters with votes that count and with timely answers, as far as known. A
// voter behind the config epoch is left out: its answers are timely, but its vote is of no use, and
// every lock would wait for the deferred requests.
func (l *sessionLayer) counting() (s Set) {
	for i, p := range l.peers {
		if p.counts() && !p.slow && !l.isBehind(p) {
			s = s.With(i)
		}
	}
	return s
}
