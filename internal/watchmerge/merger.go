package watchmerge

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Kind is the kind of an event about the watched keys.
type Kind uint8

// The kinds of events.
const (
	// Granted : a lease was granted; with Current, the lease is held.
	Granted Kind = iota + 1
	// Released : a lease was released.
	Released
	// Lost : a lease ended without a release, as far as any voter has reported.
	Lost
	// Waiting : a request waits.
	Waiting
	// Changed : a lease has another value or mode. After an upgrade the lease has another
	// token, and Previous is the token before.
	Changed
	// Gap : events between here and the next Synced may be missing.
	Gap
	// Confirmed : a majority of the voters has reported a lease as held (confirmed). Applications
	// have no use for this event: a lease is held before its voters know.
	Confirmed
	// Synced : the state has been reported in full; from here on events follow as they happen.
	Synced
)

// Event is an event of a Merger. The token is the first of the lease's token block.
type Event struct {
	Kind     Kind
	Current  bool // the event happened earlier, and the state still holds
	Previous vote.Token
	At       vote.Micros // when the event happened or the state began, as far as known
	View     vote.View
}

// Merger is the watch merger: each voter reports events about the watched keys on its own, and the
// merger makes one ordered stream of them.
//
// A Merger is a deterministic state machine without a clock. Its inputs are the reports of single
// voters (AddReports) and the views of a majority (AddResult, AddKeyResult); it says when a query
// should begin (WantsQuery), and Drain returns the events.
//
// Why no event is missed without a gap: a voter remembers its events in order, and reports a gap if
// an event was forgotten before this merger received the event. If a lease's node can reach a
// majority M of the voters, all of M are told of the lease, and of its end. Let W (base) be voters
// that have reported without a gap since the query on which the state rests. If W is a majority, W
// and M share a voter. Either the report of this voter arrives, or a gap arrives in its place and
// the voter leaves W. So either a missing event arrives later, or W is no longer a majority, and
// then the merger reports a gap.
//
// A voter that had a gap may have forgotten a lease that came and went, and no query shows such a
// lease. So the voter comes back to W only after a query, and once a majority of W has reported all
// events from before that query: see readmit.
//
// With a gap, all voters are asked anew (WantsRestart), and the merger waits for them to start
// their reports: the reports that a voter still had to send are older than the next state.
//
// A grant is reported once a majority of the voters has reported the lease and voted for it, and
// once all conflicting leases are over; the end is reported once any voter has reported the
// release. Why this order is right: the majorities of two conflicting leases share a voter. The
// voter reports in order, and reported the end of the earlier lease before voting for the later
// lease. If a single report sufficed, a lease could be reported before an earlier lease unknown to
// this voter. When an expected report fails to arrive, the key is in doubt: see Doubts.
//
// The order of a key's leases takes precedence over completeness: if a lease is first reported
// after a newer conflicting lease, the merger leaves the older lease out and reports a gap. This
// happens on a node after a partition, when the node hears about the meantime from one voter after
// the other.
type Merger struct {
	electorate        quorum.Electorate
	electorateChanges int        // how often the electorate has changed
	reporting         quorum.Set // voters known to report events
	gapless           quorum.Set // voters without a gap since the newest query that was answered
	base              quorum.Set // voters that count for completeness; see readmit
	// candidates are voters of gapless to come to base, since a query that began at the instant
	// candidatesAt, and delivered says, by place, up to when a voter has reported all its events.
	candidates   quorum.Set
	candidatesAt vote.Instant
	delivered    [maxPlaces]vote.Instant
	synced       bool
	restart      bool        // the voters are to be asked anew
	omitted      bool        // a lease was left out
	now          vote.Micros // the time of the current call

	keys       map[vote.Key]*keyState
	tombstones ring   // tombstones of finished leases
	released   ring   // released requests without a reported grant
	waiters    ring   // requests reported as waiting
	reports    uint64 // how many reports there have been

	doubts          doubtList
	reportsAtDoubts uint64   // the value of reports at the last call of Doubts
	callsUntilAll   int      // calls of Doubts until one may want a query for all keys again
	unreported      vote.Key // a key with a lease that a query has shown, at the last call of Applied

	querying       bool
	queryWanted    bool       // another query is wanted as soon as the current query is over
	queries        uint64     // the number of the newest query
	reportsAtQuery uint64     // the value of reports when the newest query began
	applied        uint64     // the number of the newest query on which the state rests
	queried        quorum.Set // the value of reporting when the newest query began
	out            []Event
}

// keyState is the merged state of a key.
type keyState struct {
	held       []*leaseState          // in order of tokens
	pending    []*leaseState          // grants still to be reported, in order of tokens; see Merger.next
	newest     [4]vote.Token          // the newest reported token, by mode
	waiting    map[requestRef]*waiter // waiting requests, as far as they are remembered
	tombstones int                    // how many tombstones refer to the key
	querying   bool                   // a query for the key is in progress, since the key was in doubt
	doubt      *list.Element          // the key's place in Merger.doubts; nil if the key isn't in doubt
}

// requestRef identifies a request.
type requestRef struct {
	owner  vote.SessionID
	number vote.Number
}

func stampOf(s *vote.View) vote.Stamp {
	return vote.Stamp{Time: s.Time, Owner: s.Owner, Number: s.Number}
}

func refOf(s *vote.View) requestRef { return requestRef{s.Owner, s.Number} }

// waiter is the merged state of a waiting request.
type waiter struct {
	view       vote.View
	since      vote.Micros
	reportedBy quorum.Set // voters with a report of the waiting request
	announced  bool
}

// leaseState is the merged state of a lease.
type leaseState struct {
	view           vote.View
	since          vote.Micros
	reportedBy     quorum.Set // voters with a report of the lease as held
	votedBy        quorum.Set // voters in heard with a vote for the lease
	endedBy        quorum.Set // voters with a report of an end without a release
	end            Kind       // how the lease has ended, if over: Released or Lost
	confirmed      bool       // confirmed: each voter of a majority has reported the lease
	sure           bool       // queries have shown the request to be a lease
	hits           int        // how many queries in a row have shown the lease
	misses         int        // how many queries in a row have not shown the lease
	shownHeld      bool       // some query has shown the lease as held, even if newer reports differ
	lastReport     uint64     // the value of Merger.reports at the newest report about the lease
	changesAtStart int        // the value of Merger.electorateChanges when the lease was first reported
}

// New returns a Merger without any state.
func New(e quorum.Electorate) *Merger {
	return &Merger{electorate: e, keys: make(map[vote.Key]*keyState), tombstones: ring{max: maxTombstones}, released: ring{max: maxTombstones}, waiters: ring{max: maxWaiters}}
}

// maxPlaces is how many places an electorate has at most: a [quorum.Set] has as many bits.
const maxPlaces = 64

const (
	// maxTombstones is how many finished leases are remembered, so that a late report does not
	// announce a lease anew. A voter remembers no more events, so the reports of two voters that
	// both report without a gap are no further apart.
	maxTombstones = 16384
	// maxWaiters is how many waiting requests are remembered. The voters' reports about one request
	// arrive close together.
	maxWaiters = 4096
)

// Drain moves the pending events to the end of out.
func (t *Merger) Drain(out []Event) []Event {
	out = append(out, t.out...)
	clear(t.out)
	t.out = t.out[:0]
	return out
}

// State returns Gap, the held leases and the known waiting requests, and Synced. Keys are
// in order of names, leases in order of tokens. While the merger has a gap, State returns Gap
// alone. Gap and Synced have the wall-clock time now.
func (t *Merger) State(now vote.Micros) []Event {
	t.now = now
	return t.state([]Event{{Kind: Gap, At: now}})
}

func (t *Merger) state(out []Event) []Event {
	if !t.synced {
		return out // Synced comes with the state, as soon as the state is known
	}
	for _, name := range t.names() {
		p := t.keys[name]
		for _, c := range p.held {
			out = append(out, Event{Kind: Granted, Current: true, At: c.since, View: c.view})
			if c.confirmed {
				out = append(out, Event{Kind: Confirmed, Current: true, At: c.since, View: c.view})
			}
		}
		var waiting []*waiter
		for _, w := range p.waiting {
			if w.announced {
				waiting = append(waiting, w)
			}
		}
		slices.SortFunc(waiting, func(a, b *waiter) int { return stampOf(&a.view).Compare(stampOf(&b.view)) })
		for _, w := range waiting {
			out = append(out, Event{Kind: Waiting, Current: true, At: w.since, View: w.view})
		}
	}
	return append(out, Event{Kind: Synced, At: t.now})
}

// names returns the known keys in order, so that nothing depends on the order of a map.
func (t *Merger) names() []vote.Key {
	names := make([]vote.Key, 0, len(t.keys))
	for name := range t.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// each calls f for each known key, in order. A call of f may forget keys further on: adding a
// tombstone drops the oldest tombstone.
func (t *Merger) each(f func(name vote.Key, p *keyState)) {
	for _, name := range t.names() {
		if p := t.keys[name]; p != nil {
			f(name, p)
		}
	}
}

// AddReports takes in the reports of the voter at a place. The wall-clock time now is only passed
// on in events. With these reports the voter has reported all its events from before the instant
// asOf; zero if that isn't known.
func (t *Merger) AddReports(now vote.Micros, place int, gap bool, views []vote.View, asOf vote.Instant) {
	t.now = now
	if gap {
		t.voterGap(place)
	}
	for i := range views {
		s := views[i]
		s.Token = s.Token.First()
		t.addReport(place, &s)
	}
	t.reportGap()
	t.deliver(place, asOf)
	t.readmit()
}

// deliver notes that a voter has reported all its events from before an instant.
func (t *Merger) deliver(place int, asOf vote.Instant) {
	t.delivered[place] = max(t.delivered[place], asOf)
}

// readmit has the candidates count for completeness again once a majority of the voters that count
// has reported all events from before the candidates' query. Then an event from before the query
// was reported by this majority, and the candidates report all later events.
func (t *Merger) readmit() {
	if t.candidates == 0 {
		return
	}
	var whole quorum.Set
	for place, at := range t.delivered {
		if t.base.Has(place) && at >= t.candidatesAt {
			whole = whole.With(place)
		}
	}
	if t.electorate.Decides(whole) {
		t.base, t.candidates = t.base|t.candidates, 0
	}
}

// reportGap reports a gap if a lease was left out.
func (t *Merger) reportGap() {
	if t.omitted && t.synced {
		t.out = t.state(append(t.out, Event{Kind: Gap, At: t.now}))
	}
	t.omitted = false
}

// voterGap handles a voter's report of a gap, and the first report of a voter.
func (t *Merger) voterGap(place int) {
	t.reporting, t.gapless, t.queried = t.reporting.With(place), t.gapless.Without(place), t.queried.Without(place)
	t.base, t.candidates, t.delivered[place] = t.base.Without(place), t.candidates.Without(place), 0
	for _, p := range t.keys {
		for _, c := range slices.Concat(p.held, p.pending) {
			// The voter may have restarted.
			c.reportedBy, c.votedBy, c.endedBy = c.reportedBy.Without(place), c.votedBy.Without(place), c.endedBy.Without(place)
		}
	}
	t.gapUnlessWhole()
}

// gapUnlessWhole reports a gap, once, if no majority has reported without a gap. Otherwise a query
// follows, for the events of the other voters.
func (t *Merger) gapUnlessWhole() {
	switch {
	case t.synced && !t.electorate.Decides(t.base):
		t.gap()
	case t.synced || t.electorate.Decides(t.reporting):
		t.wantQuery()
	}
}

// gap reports a gap, once, and has the voters asked anew.
func (t *Merger) gap() {
	if !t.synced {
		return
	}
	t.synced, t.restart, t.querying, t.queryWanted = false, true, false, false
	t.base, t.candidates, t.gapless, t.queried, t.reporting = 0, 0, 0, 0, 0
	t.doubts.clear()
	t.out = append(t.out, Event{Kind: Gap, At: t.now})
	for _, p := range t.keys {
		p.newest = [4]vote.Token{} // voters that forgot may begin anew with lower tokens
	}
}

// WantsRestart reports whether the node is to end its watch at the voters, and to begin the watch
// anew: after a gap. Reports of the earlier watch, and the result of the query under way, must not
// be passed to the merger any more.
func (t *Merger) WantsRestart() bool {
	wanted := t.restart
	t.restart = false
	return wanted
}

func (t *Merger) wantQuery() { t.queryWanted = true }

// Queries returns how many queries have begun.
func (t *Merger) Queries() uint64 { return t.queries }

// Applied returns the number of the newest query that the merger has taken in, the first being 1,
// and whether State is complete.
func (t *Merger) Applied() (look uint64, whole bool) {
	if !t.synced {
		return t.applied, false
	}
	shown := func(p *keyState) bool { // by a query, but not reported yet
		return slices.ContainsFunc(p.pending, func(c *leaseState) bool { return c.shownHeld })
	}
	// The key found at the last call usually decides the next calls as well, without a search.
	if p := t.keys[t.unreported]; p != nil && p.doubt != nil && shown(p) {
		return t.applied, false
	}
	for d := range t.doubts.all() {
		if shown(d.state) {
			t.unreported = d.key
			return t.applied, false
		}
	}
	return t.applied, true
}

// Synced reports whether the state has been reported in full, without a gap since.
func (t *Merger) Synced() bool { return t.synced }

// Requery makes the merger want a query, although nothing is known to be missing.
func (t *Merger) Requery() { t.wantQuery() }

// WantsQuery reports whether a query for the watched keys is to begin now. The merger assumes that
// the query begins, and AddResult follows.
func (t *Merger) WantsQuery() bool {
	if t.querying || !t.queryWanted {
		return false
	}
	t.querying, t.queryWanted = true, false
	t.queries++
	t.queried, t.reportsAtQuery = t.reporting, t.reports
	return true
}

// AddResult takes in the query's view; nil if the query failed.
func (t *Merger) AddResult(now vote.Micros, shown *quorum.QueryResult) {
	t.now = now
	t.querying = false
	if shown == nil {
		t.queryWanted = t.electorate.Decides(t.reporting)
		return
	}
	t.gapless |= t.queried
	// An earlier query of the same candidates is kept, so that many queries don't keep them
	// waiting.
	if fresh := t.queried &^ t.base; fresh&^t.candidates != 0 {
		t.candidates, t.candidatesAt = fresh, shown.Began
	}
	if !t.electorate.Decides(t.gapless) {
		t.queryWanted = t.electorate.Decides(t.reporting)
		return
	}
	t.applied = t.queries
	if t.synced {
		t.compare(shown)
		t.reportGap()
		t.readmit()
		return
	}
	t.rebase(shown)
	t.synced, t.omitted, t.base, t.candidates = true, false, t.gapless, 0
	t.out = t.state(t.out)
	t.each(t.advance)
}

// addReport takes in a report about one request. The token is the first of its block.
func (t *Merger) addReport(place int, s *vote.View) {
	t.reports++
	if t.tombstones.has(refOf(s)) {
		return
	}
	p := t.keys[s.Key]
	switch s.State {
	case vote.Waiting:
		t.addWaiting(place, p, s)
	case vote.Holding, vote.GrantedElsewhere, vote.Changed:
		p = t.keyState(s.Key)
		t.addHeld(place, p, s)
		t.advance(s.Key, p)
	case vote.Released, vote.Ended:
		t.addEnd(place, p, s)
	}
}

// keyState returns the state of a key, and creates the state if need be.
func (t *Merger) keyState(name vote.Key) *keyState {
	p := t.keys[name]
	if p == nil {
		p = &keyState{}
		t.keys[name] = p
	}
	return p
}

// addWaiting reports a waiting request, once: when the voters without a report of this waiting
// request are no majority, or when a majority's view shows the request.
func (t *Merger) addWaiting(place int, p *keyState, s *vote.View) {
	id := refOf(s)
	var w *waiter
	if p != nil {
		if p.find(id) != nil {
			return
		}
		w = p.waiting[id]
	}
	if w == nil {
		if t.waiters.has(id) {
			return // the request no longer waits
		}
		p = t.keyState(s.Key)
		if p.waiting == nil {
			p.waiting = make(map[requestRef]*waiter)
		}
		w = &waiter{view: *s, since: t.sinceOf(s)}
		p.waiting[id] = w
		if old, ok := t.waiters.put(s.Key, id); ok {
			t.forgetWaiter(old)
		}
	}
	if place != noVoter {
		w.reportedBy = w.reportedBy.With(place)
		if e := t.electorate; e.Decides(e.All() &^ w.reportedBy) {
			return // a majority may be about to grant the request
		}
	}
	if w.announced {
		return
	}
	w.announced = true
	t.emit(Event{Kind: Waiting, At: w.since, View: *s})
}

// sinceOf returns since when a report has been true, on this node's clock.
func (t *Merger) sinceOf(s *vote.View) vote.Micros {
	return t.now - vote.Micros(s.For.Microseconds())
}

func (t *Merger) forgetWaiter(old tombstone) {
	if p := t.keys[old.key]; p != nil {
		delete(p.waiting, old.id)
		t.forget(old.key, p)
	}
}

// addHeld takes in the report of a held lease.
func (t *Merger) addHeld(place int, p *keyState, s *vote.View) {
	c := p.find(refOf(s))
	if c == nil {
		if c = t.newLease(p, s); c == nil {
			return
		}
	}
	c.lastReport, c.misses = t.reports, 0
	if c.end == Lost { // not reported yet, and resynced by the owner meanwhile
		c.end = 0
	}
	c.reportedBy, c.endedBy = c.reportedBy.With(place), c.endedBy.Without(place)
	if s.State == vote.Holding {
		c.votedBy = c.votedBy.With(place)
	}
	t.update(p, c, s)
}

// update updates a known lease from a report or a view.
func (t *Merger) update(p *keyState, c *leaseState, s *vote.View) {
	t.confirm(p, c)
	held, changed := slices.Contains(p.held, c), false
	if s.Version > c.view.Version {
		c.view.Version, c.view.Value, changed = s.Version, s.Value, true
	}
	// The opposite change would be another request.
	if s.Mode == vote.Shared && c.view.Mode == vote.Exclusive {
		c.view.Mode, changed = vote.Shared, true
		if held {
			p.newest[vote.Shared] = max(p.newest[vote.Shared], c.view.Token)
		}
	}
	if changed && held {
		t.emit(Event{Kind: Changed, At: t.now, View: c.view})
	}
}

// newLease creates the state of a lease at its first report; nil if the report comes too late.
// During a gap no report is too late: the lease with the larger token may be over, and the voters
// may have forgotten its token. Then the view that ends the gap decides. (Found by worlds with
// watches where the electorate changes.)
func (t *Merger) newLease(p *keyState, s *vote.View) *leaseState {
	id := refOf(s)
	delete(p.waiting, id)
	if t.synced && p.late(s) {
		t.addTombstone(s.Key, p, id)
		t.omitted = true
		return nil
	}
	c := &leaseState{view: *s, since: t.sinceOf(s), lastReport: t.reports, changesAtStart: t.electorateChanges}
	c.view.State = vote.Holding
	if t.released.has(id) {
		c.end = Released
	}
	p.pending = insert(p.pending, c)
	return c
}

// confirm reports a lease as confirmed, if its grant was reported and a majority has reported the
// lease as held.
func (t *Merger) confirm(p *keyState, c *leaseState) {
	if !c.confirmed && t.electorate.Decides(c.reportedBy) && slices.Contains(p.held, c) {
		c.confirmed = true
		t.emit(Event{Kind: Confirmed, At: t.now, View: c.view})
	}
}

// addEnd takes in a voter's report of the end of a lease.
func (t *Merger) addEnd(place int, p *keyState, s *vote.View) {
	id := refOf(s)
	var c *leaseState
	if p != nil {
		delete(p.waiting, id)
		c = p.find(id)
	}
	switch {
	case c == nil && s.State == vote.Released && t.synced: // reports of the grant, if any, are late
		if !t.released.has(id) { // another voter may have reported the release before
			t.released.put(s.Key, id)
		}
		if p != nil {
			t.forget(s.Key, p)
		}
		return
	case c == nil && s.State == vote.Released:
		t.addTombstone(s.Key, t.keyState(s.Key), id)
		return
	// An earlier vote for the same request ended, before the grant.
	case c == nil || s.State == vote.Ended && s.Token < c.view.Token:
		return
	case s.State == vote.Released:
		c.end = Released
	default:
		c.endedBy, c.hits = c.endedBy.With(place), 0
		// The lease is over once the remaining voters can't be a majority. A lease granted under an
		// earlier config epoch may have a majority of the earlier electorate only: then queries
		// settle the matter.
		if e := t.electorate; c.end == 0 && c.changesAtStart == t.electorateChanges && !e.MayGoOn(e.All()&^c.endedBy) {
			c.end = Lost
		}
	}
	c.lastReport = t.reports
	t.advance(s.Key, p)
}

// advance reports the ends of a key's leases, and the coming grants without a conflict.
func (t *Merger) advance(name vote.Key, p *keyState) {
	for {
		if i := slices.IndexFunc(p.held, p.hasEnded); i >= 0 {
			t.reportEnd(name, p, p.held[i])
		} else if i := t.nextGrant(p); i >= 0 {
			t.grant(name, p, p.pending[i])
		} else {
			break
		}
	}
	t.doubt(name, p)
	t.forget(name, p)
}

// hasEnded reports whether the end of a lease is to be reported. During an upgrade a lease does not
// end, but changes; if the upgrade fails, the lease ends then.
func (p *keyState) hasEnded(c *leaseState) bool {
	return c.end != 0 && !slices.ContainsFunc(p.pending, func(o *leaseState) bool { return o.upgrades(c) })
}

// nextGrant returns the index of the first coming grant to report, negative if there is none: the
// grant is known to be a lease, conflicts with no held lease, and neither conflicts with nor
// upgrades an earlier coming grant.
func (t *Merger) nextGrant(p *keyState) int {
	for i, c := range p.pending {
		if (c.sure || t.electorate.Decides(c.votedBy)) &&
			!slices.ContainsFunc(p.pending[:i], func(o *leaseState) bool { return c.conflicts(o) || c.upgrades(o) }) &&
			!slices.ContainsFunc(p.held, c.conflicts) {
			return i
		}
	}
	return -1
}

// reportEnd reports the end of a lease.
func (t *Merger) reportEnd(name vote.Key, p *keyState, c *leaseState) {
	p.held = without(p.held, c)
	t.addTombstone(name, p, refOf(&c.view))
	t.emit(Event{Kind: c.end, At: t.now, View: c.view})
}

// grant reports a coming lease as held, or as the replacement of another lease for an upgrade.
func (t *Merger) grant(name vote.Key, p *keyState, c *leaseState) {
	p.pending = without(p.pending, c)
	was := vote.Token(0)
	if i := slices.IndexFunc(p.held, c.upgrades); i >= 0 {
		h := p.held[i]
		p.held = without(p.held, h)
		t.addTombstone(name, p, refOf(&h.view))
		was = h.view.Token
	}
	p.held = insert(p.held, c)
	p.newest[c.view.Mode] = max(p.newest[c.view.Mode], c.view.Token)
	if was != 0 {
		t.emit(Event{Kind: Changed, Previous: was, At: t.now, View: c.view})
	} else {
		t.emit(Event{Kind: Granted, At: c.since, View: c.view})
	}
	t.confirm(p, c)
}

func without(list []*leaseState, c *leaseState) []*leaseState {
	return slices.DeleteFunc(list, func(o *leaseState) bool { return o == c })
}

// emit appends an event, unless the initial state has yet to be reported.
func (t *Merger) emit(e Event) {
	if t.synced {
		t.out = append(t.out, e)
	}
}

// addTombstone adds a tombstone for a finished lease, and drops the oldest tombstone beyond the
// limit.
func (t *Merger) addTombstone(name vote.Key, p *keyState, id requestRef) {
	p.tombstones++
	if old, ok := t.tombstones.put(name, id); ok {
		if q := t.keys[old.key]; q != nil {
			q.tombstones--
			t.forget(old.key, q)
		}
	}
}

// forget deletes a key without any state.
func (t *Merger) forget(name vote.Key, p *keyState) {
	if len(p.held)+len(p.pending)+len(p.waiting)+p.tombstones == 0 {
		t.doubts.remove(p)
		delete(t.keys, name)
	}
}

func (p *keyState) find(id requestRef) *leaseState {
	for _, list := range [][]*leaseState{p.held, p.pending} {
		for _, c := range list {
			if refOf(&c.view) == id {
				return c
			}
		}
	}
	return nil
}

// late reports whether a lease is first reported after a newer conflicting lease.
func (p *keyState) late(s *vote.View) bool {
	for mode, newest := range p.newest {
		if (vote.Mode(mode) != s.Mode || s.Mode == vote.Exclusive) && s.Token < newest {
			return true
		}
	}
	c := &leaseState{view: *s}
	return slices.ContainsFunc(p.held, func(h *leaseState) bool { return c.conflicts(h) && s.Token < h.view.Token })
}

// upgrades reports whether c replaces h, a shared lease of the same session.
func (c *leaseState) upgrades(h *leaseState) bool {
	return c.view.Beside != 0 && c.view.Beside == h.view.Number && c.view.Owner == h.view.Owner && h.view.Mode == vote.Shared
}

// conflicts reports whether two leases conflict: they can't be held at the same time.
func (c *leaseState) conflicts(h *leaseState) bool {
	switch {
	case c.upgrades(h):
		return false
	case c.view.Mode != h.view.Mode || c.view.Mode == vote.Exclusive:
		return true
	}
	return c.view.Mode == vote.Permit && c.view.Slot == h.view.Slot
}

func insert(list []*leaseState, c *leaseState) []*leaseState {
	i, _ := slices.BinarySearchFunc(list, c, func(a, b *leaseState) int {
		return cmp.Or(cmp.Compare(a.view.Token, b.view.Token), cmp.Compare(a.view.Owner.Node, b.view.Owner.Node),
			cmp.Compare(a.view.Number, b.view.Number))
	})
	return slices.Insert(list, i, c)
}

// tombstone is one remembered request of a key.
type tombstone struct {
	key vote.Key
	id  requestRef
}

// ring remembers the newest requests.
type ring struct {
	max  int
	set  map[requestRef]bool
	list []tombstone
	next int // the index of the oldest request, once the list is full
}

func (r *ring) has(id requestRef) bool { return r.set[id] }

// put remembers a request that the ring doesn't have. A full ring forgets its oldest request in
// exchange, and put returns that request.
func (r *ring) put(key vote.Key, id requestRef) (old tombstone, ok bool) {
	if r.set == nil {
		r.set = make(map[requestRef]bool)
	}
	r.set[id] = true
	if len(r.list) < r.max {
		r.list = append(r.list, tombstone{key, id})
		return tombstone{}, false
	}
	old, r.list[r.next] = r.list[r.next], tombstone{key, id}
	r.next = (r.next + 1) % r.max
	delete(r.set, old.id)
	return old, true
}
