package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// roll is the list of all requests in order of their numbers: nothing depends on the order of a
// map, and a pass over a million requests can pause at any of them. A request is added at the end,
// since numbers rise.
type roll struct{ first, last *request }

func (l *roll) add(r *request) {
	if l.last == nil {
		l.first = r
	} else {
		l.last.next, r.prev = r, l.last
	}
	l.last = r
}

// remove removes a request. A pass that would come to this request next goes on behind it: see
// Requester.strike.
func (l *roll) remove(r *request) {
	if r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// pass is a pass over the roll in pieces: over all requests up to a number.
type pass struct {
	next *request // the first request not passed yet; nil at the end
	upTo vote.Number
}

// pass returns a pass over all present requests.
func (q *Requester) pass() pass { return pass{q.roll.first, q.last} }

// has reports whether a request has been passed, or was made after the pass began.
func (p *pass) has(r *request) bool {
	return p.next == nil || r.number < p.next.number || r.number > p.upTo
}

// take returns the next request, which counts as passed from now on; nil at the end. The caller may
// end the request.
func (p *pass) take() *request {
	r := p.next
	if r == nil || r.number > p.upTo {
		p.next = nil
		return nil
	}
	p.next = r.next
	return r
}

// without makes the pass go on behind a request about to be removed.
func (p *pass) without(r *request) {
	if p.next == r {
		p.next = r.next
	}
}

// enroll adds a new request.
func (q *Requester) enroll(r *request) {
	q.requests[r.number] = r
	q.most.requests = max(q.most.requests, len(q.requests))
	q.roll.add(r)
}

// strike removes a request.
func (q *Requester) strike(r *request) {
	for _, p := range q.peers {
		if p.making != nil {
			p.making.without(r)
		}
		if p.reading != nil {
			p.reading.without(r)
		}
	}
	q.review.without(r)
	q.roll.remove(r)
	q.requests = drop(q.requests, r.number, &q.most.requests)
}

// sorted returns the wanted requests (all if wanted is nil) in order of their numbers, so that
// nothing depends on the order of a map.
func (q *Requester) sorted(wanted func(*request) bool) []*request {
	var all []*request
	if wanted == nil {
		all = make([]*request, 0, len(q.requests))
	}
	for r := q.roll.first; r != nil; r = r.next {
		if wanted == nil || wanted(r) {
			all = append(all, r)
		}
	}
	return all
}
