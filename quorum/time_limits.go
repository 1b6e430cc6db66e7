package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// timeLimits has the requests with a time limit: TryLocks, and releases.
type timeLimits struct {
	trying sliding[timed] // TryLocks, by their time limits
	ending sliding[timed] // releases, by when they are given up
}

// timed is a request with a time limit. All limits of a kind are equally long, so their lists are
// in order of time.
type timed struct {
	at     vote.Instant
	number vote.Number
}

// firstLimit returns the earliest time limit.
func (l *timeLimits) firstLimit() vote.Instant {
	first := vote.Never
	if l.trying.len() > 0 {
		first = l.trying.first().at
	}
	if l.ending.len() > 0 {
		first = min(first, l.ending.first().at)
	}
	return first
}

// expect adds a request to a list of requests with a time limit. Entries at the front are dropped
// if over, unless their time limit comes before the next refresh: then the refresh drops them in
// any case.
func (l *requestLayer) expect(list *sliding[timed], r *request, over func(vote.Number) bool) {
	for list.len() > 0 && list.first().at > l.refreshAt && over(list.first().number) {
		list.pop()
	}
	list.push(timed{l.now.Fast.Add(l.cfg.TTL), r.number})
}
