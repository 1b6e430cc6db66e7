package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// requestTable has all requests of a node that aren't forgotten, each by its number and, after a
// hand-off, by the number of its caller; and in two lists: all in order of their numbers, and the
// pending ones.
type requestTable struct {
	requests map[vote.Number]*request
	ordered  requestList // the same requests
	// Leases that were handed off, by the numbers of their present callers.
	aliases map[vote.Number]*request
	// Upper bounds of the sizes of these maps so far; see drop.
	mostRequests, mostAliases int
	pending                   []*request  // in any order
	last                      vote.Number // of the newest request
	review                    review
	barred                    bool // some voter gave a request another slot than requested
	rejected                  bool // some voter turned a request down
	free                      struct {
		requests pool[request]
		cold     pool[coldFields]
	}
}

// newRequestTable returns an empty table.
func newRequestTable() requestTable {
	return requestTable{requests: make(map[vote.Number]*request), aliases: make(map[vote.Number]*request)}
}

// create returns a new pending request with the next number, and room for the votes of so many
// voters.
func (t *requestTable) create(voters int) *request {
	r := t.free.requests.take()
	if r == nil {
		r = &request{tally: tally{votes: make([]countedVote, voters)}}
	}
	t.last++
	r.state, r.number, r.caller = statePending, t.last, t.last
	t.addToTable(r)
	put(&t.pending, r)
	return r
}

// addToTable adds a new request.
func (t *requestTable) addToTable(r *request) {
	t.requests[r.number] = r
	t.mostRequests = max(t.mostRequests, len(t.requests))
	t.ordered.add(r)
}

// leavePending notes that a pending request is pending no more.
func (t *requestTable) leavePending(r *request) { remove(&t.pending, r) }

// changeCaller gives a request to another caller.
func (t *requestTable) changeCaller(r *request, caller vote.Number) {
	delete(t.aliases, r.caller)
	r.caller = caller
	t.aliases[caller] = r
	t.mostAliases = max(t.mostAliases, len(t.aliases))
}

// dropAlias forgets under which other number the caller knows a request, if any.
func (t *requestTable) dropAlias(r *request) {
	if len(t.aliases) > 0 {
		t.aliases = drop(t.aliases, r.caller, &t.mostAliases)
	}
}

// removeFromTable removes a request; see Requester.removeRequest.
func (t *requestTable) removeFromTable(r *request) {
	t.ordered.remove(r)
	t.requests = drop(t.requests, r.number, &t.mostRequests)
}

// find returns a caller's request by the caller's number: the caller's own request, or the request
// behind a lease handed off to the caller. Nil means that the request is over.
func (t *requestTable) find(n vote.Number) *request {
	if r := t.aliases[n]; r != nil {
		return r
	}
	if r := t.requests[n]; r != nil && r.caller == n {
		return r
	}
	return nil
}

// Alias returns the number under which the voters know a caller's request: another number than the
// caller's after a hand-off.
func (t *requestTable) Alias(n vote.Number) vote.Number {
	if r := t.aliases[n]; r != nil {
		return r.number
	}
	return n
}

// Open returns how many requests are under way, held leases and unconfirmed releases included.
func (t *requestTable) Open() int { return len(t.requests) }

// isPending reports whether a request waits for its outcome.
func (t *requestTable) isPending(n vote.Number) bool {
	r := t.requests[n]
	return r != nil && r.state == statePending
}

// pass returns a pass over all present requests.
func (t *requestTable) pass() pass { return pass{t.ordered.first, t.last} }

// sorted returns the wanted requests (all if wanted is nil) in order of their numbers, so that
// nothing depends on the order of a map.
func (t *requestTable) sorted(wanted func(*request) bool) []*request {
	var all []*request
	if wanted == nil {
		all = make([]*request, 0, len(t.requests))
	}
	for r := t.ordered.first; r != nil; r = r.next {
		if wanted == nil || wanted(r) {
			all = append(all, r)
		}
	}
	return all
}

// coldOf returns the cold fields of a request for writing, and creates them if need be.
func (t *requestTable) coldOf(r *request) *coldFields {
	if r.cold == nil {
		if r.cold = t.free.cold.take(); r.cold == nil {
			r.cold = &coldFields{votes: make([]coldVote, len(r.votes))}
		}
	}
	return r.cold
}

// coldVote returns the cold fields of a voter's vote for writing.
func (t *requestTable) coldVote(r *request, place int) *coldVote { return &t.coldOf(r).votes[place] }

// recycle returns a finished request to the pool. Until reuse the request is in stateEnding, so
// code with a stale pointer leaves the request alone.
func (t *requestTable) recycle(r *request) {
	if x := r.cold; x != nil {
		clear(x.votes)
		*x = coldFields{votes: x.votes}
		t.free.cold.give(x)
	}
	clear(r.votes)
	*r = request{tally: tally{votes: r.votes}, state: stateEnding}
	t.free.requests.give(r)
}

// moveTallies moves the votes of all requests to the new places of their voters.
func (t *requestTable) moveTallies(places int, to []int) {
	for _, r := range t.requests {
		votes := make([]countedVote, places)
		movePlaces(votes, r.votes, to)
		r.votes = votes
		if r.cold != nil {
			votes := make([]coldVote, places)
			movePlaces(votes, r.cold.votes, to)
			r.cold.votes = votes
		}
	}
	// The pooled lists have room for the earlier number of voters.
	t.free.requests, t.free.cold = nil, nil
}

// review is the task of evaluating the pending requests anew, where there are many: a pass over all
// requests. A voter that comes or goes during a pass makes for another pass afterwards.
type review struct {
	pass
	again bool
}

// begin begins a pass, at once or after the pass under way.
func (v *review) begin(p pass) {
	if v.next != nil {
		v.again = true
		return
	}
	v.pass = p
}

// byNumber sorts requests. Their numbers are copied next to each other for the sort: of a million
// requests, most would otherwise be fetched from distant memory at each comparison.
func byNumber(all []*request) []*request {
	type numbered struct {
		number vote.Number
		r      *request
	}
	order := make([]numbered, len(all))
	for i, r := range all {
		order[i] = numbered{r.number, r}
	}
	slices.SortFunc(order, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	for i := range order {
		all[i] = order[i].r
	}
	return all
}
