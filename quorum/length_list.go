package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// lengthList lists requests with a length of their own and votes to extend, in the order in which
// they were added. To remove one of thousands costs no more than to remove the only one.
type lengthList struct {
	all  []*request // nil in the place of a removed request
	gone int        // how many are nil
	next earliest   // of the next extensions
}

// start adds a request with votes to extend periodically, for the first time at an instant, unless
// the list has the request.
func (l *lengthList) start(r *request, at vote.Instant) {
	if r.cold.extendAt == 0 {
		r.cold.extendAt = at
		l.next.add(at)
		l.add(r)
	}
}

// stop removes a request, if the list has it.
func (l *lengthList) stop(r *request) {
	if r.cold != nil && r.cold.extendAt != 0 {
		l.next.remove(r.cold.extendAt)
		r.cold.extendAt = 0
		l.remove(r)
	}
}

// first returns when the first votes are due for extension.
func (l *lengthList) first(work *meter) vote.Instant {
	if e := &l.next; e.stale {
		*e = earliest{at: vote.Never}
		work.spend(len(l.all) / scanned)
		for _, r := range l.all {
			if r != nil {
				e.add(r.cold.extendAt)
			}
		}
	}
	return l.next.at
}

// add adds a request at the end.
func (l *lengthList) add(r *request) {
	r.cold.lengthAt = uint32(len(l.all))
	l.all = append(l.all, r)
}

// remove removes a request.
func (l *lengthList) remove(r *request) {
	l.all[r.cold.lengthAt] = nil
	if l.gone++; l.gone <= len(l.all)/2 {
		return
	}
	left := make([]*request, 0, len(l.all)-l.gone)
	for _, o := range l.all {
		if o != nil {
			o.cold.lengthAt = uint32(len(left))
			left = append(left, o)
		}
	}
	l.all, l.gone = left, 0
}

// len returns how many requests are listed.
func (l *lengthList) len() int { return len(l.all) - l.gone }
