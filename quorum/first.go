package quorum

import (
	"hash/fnv"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Whom a request is put to first. All voters hear of it, but a majority is enough to win, and each voter that is woken costs as much as the whole of a
// lock costs here. So the words to the others may wait a moment for more to travel with (see [vote.Outbound]): they are as safe as late words always are, and
// where one of the first is slow, the others are asked that moment later.

// first returns those out of a set of voters to which words go at once: the fewest that decide, this node's own voter among them, and after it those that
// follow in the order of places, so that not all nodes wake the same ones. Where the set doesn't decide, or the electorate has just changed, all go at once.
func (q *Requester) first(out Set) Set {
	if q.before.Known() {
		return ^Set(0)
	}
	var few Set
	for i := range q.peers {
		if place := (q.begins + i) % len(q.peers); out.Has(place) {
			if few = few.With(place); q.newest.Decides(few) {
				return few
			}
		}
	}
	return ^Set(0)
}

// beginning returns the place at which first begins.
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

// counting returns the voters whose votes count, as far as is known.
func (q *Requester) counting() (s Set) {
	for i, p := range q.peers {
		if p.counts() {
			s = s.With(i)
		}
	}
	return s
}

// isLonely reports whether nobody else is known to want the key of a request: nobody elsewhere, and no other caller here.
func (q *Requester) isLonely(r *request) bool { return !r.wanted && q.lines[r.key] == nil }

// later lets words wait a moment that nobody waits for.
func later(words []vote.Outbound) {
	for i := range words {
		words[i].Later = true
	}
}
