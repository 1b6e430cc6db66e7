package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// requestList is the list of all requests in order of their numbers: nothing depends on the order
// of a map, and a pass over a million requests can pause at any of them. A request is added at the
// end, since numbers rise.
type requestList struct{ first, last *request }

func (l *requestList) add(r *request) {
	if l.last == nil {
		l.first = r
	} else {
		l.last.next, r.prev = r, l.last
	}
	l.last = r
}

// remove removes a request. A pass that would come to this request next goes on behind it: see
// Requester.removeRequest.
func (l *requestList) remove(r *request) {
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

// pass is a pass over the list in pieces: over all requests up to a number.
type pass struct {
	next *request // the first request not passed yet; nil at the end
	upTo vote.Number
}

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

// removeRequest removes a request, and makes the passes under way go on behind it.
func (l *requestLayer) removeRequest(r *request) {
	for _, p := range l.peers {
		if p.syncBuilder != nil {
			p.syncBuilder.without(r)
		}
		if p.answerReader != nil {
			p.answerReader.without(r)
		}
	}
	l.review.without(r)
	l.removeFromTable(r)
}

// forgetUnsent forgets a request that is over before any voter has heard of it.
func (l *requestLayer) forgetUnsent(r *request) {
	l.leavePending(r)
	l.removeRequest(r)
	l.recycle(r)
}
