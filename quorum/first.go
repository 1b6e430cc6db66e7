package quorum

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

// Whom a request is put to first: the nearest majority. This node's own voter is the nearest of all; of those that are about equally near, each node begins with
// another one, so that not all nodes wake the same ones.

// farAway is how long a round trip to one of them may take before it isn't worth while to spare the others: they would be asked before an answer comes, and the
// fastest answers of all come sooner than those of some.
const farAway = spareMax / 2

// nearby is by how much the round trips to two voters may differ that are about equally near, besides a quarter of the shorter one. Within one machine or
// switch they differ more from one moment to the next.
const nearby = 100 * time.Microsecond

// first returns those out of a set of voters to which words go first: the fewest that decide, the nearest before others. Where the set doesn't decide, one of those is
// far away, or the electorate has just changed, they are all.
func (q *Requester) first(out Set) Set {
	if q.before.Known() {
		return ^Set(0)
	}
	var few Set
	for _, place := range q.order {
		if out.Has(place) {
			if few = few.With(place); q.newest.Decides(few) && q.peers[place].rtt <= farAway {
				return few
			}
		}
	}
	return ^Set(0)
}

// beginning returns the place at which the order of voters begins that are equally near.
func (q *Requester) beginning() int {
	for i, p := range q.peers {
		if p.name == q.cfg.Self.Node {
			return i
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.cfg.Self.Node))
	return int(h.Sum32() % uint32(max(len(q.peers), 1)))
}

// counting returns the voters whose votes count and who answer in time, as far as is known. One that goes by an electorate that is over votes in time, and every lock would wait until
// the others are asked, since its vote is of no use.
func (q *Requester) counting() (s Set) {
	for i, p := range q.peers {
		if p.counts() && !p.slow && !q.behind(p) {
			s = s.With(i)
		}
	}
	return s
}

// setOrder finds out which voters are near.
func (q *Requester) setOrder() {
	q.order = q.order[:0]
	for i := range q.peers {
		q.order = append(q.order, (q.begins+i)%len(q.peers))
	}
	if q.cfg.ToAll {
		return // the order is the same for ever, so a search needn't tell states apart by round trips
	}
	trip := func(place int) time.Duration {
		if p := q.peers[place]; p.rtt > 0 {
			return p.rtt
		}
		return time.Hour // unknown
	}
	slices.SortStableFunc(q.order, func(a, b int) int { return cmp.Compare(trip(a), trip(b)) })
	for rest := q.order; len(rest) > 0; {
		near, most := 1, trip(rest[0])*5/4+nearby
		for near < len(rest) && trip(rest[near]) <= most {
			near++
		}
		slices.SortFunc(rest[:near], func(a, b int) int {
			return cmp.Compare((a-q.begins+len(q.peers))%len(q.peers), (b-q.begins+len(q.peers))%len(q.peers))
		})
		rest = rest[near:]
	}
}

// isLonely reports whether nobody else is known to want the key of a request: nobody elsewhere, and no other caller here.
func (q *Requester) isLonely(r *request) bool { return !r.wanted && q.lines[r.key] == nil }

// later lets the word that was said last wait a moment, since nobody waits for it.
func (q *Requester) later() { q.out[len(q.out)-1].Later = true }
