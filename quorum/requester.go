package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// MaxRequests is how many requests of one node may be under way, held leases included. It is a voter's limit for one session.
const MaxRequests = 2 << 20

// Config is what a requester must know.
type Config struct {
	Self       vote.SessionID
	Electorate vote.Electorate // fixed, or the newest that is known of one that follows the living, which may be none yet
	Following  bool
	TTL        time.Duration // of the session at each voter
	Alone      bool          // each request is put to the voters, and no lease is passed on; to compare with
	ToAll      bool          // no voter is spared; see spare.go. For an exhaustive search: there a voter that was spared is one to which all words are late
}

// Requester asks for keys. Its zero value is not usable; see New.
type Requester struct {
	cfg    Config
	now    vote.Now
	out    []vote.Outbound
	events []Event
	electorates
	peers                 []*peer // by place
	begins                int     // the place of the first of those voters that are equally near
	order                 []int   // of the voters' places: the nearest first
	requests              map[vote.Number]*request
	seats                 map[vote.Number]*request                    // leases that were passed on, by the numbers of those who have them
	heads                 map[vote.Key]*request                       // who stands first in line for a key
	lines                 map[vote.Key]*line                          // those that have more to them than a head
	most                  struct{ requests, seats, heads, lines int } // how large these maps may have grown; see drop
	pending               []*request                                  // in any order
	last                  vote.Number
	seen                  vote.Token // the largest token seen on any key
	median                vote.Micros
	clocked               bool         // median is known
	refreshAt             vote.Instant // when the sessions are refreshed next, all together
	groups                []*group     // in order of their sets and floors
	lastGroup             GroupID
	uncovered             []vote.Number   // ballots whose votes agree, while their sessions must be refreshed first
	trying                sliding[timed]  // TryLocks, by when they end
	ending                sliding[timed]  // releases, by when they are given up
	spared                sliding[spared] // requests of which not all voters have heard yet, by when they do
	pace                  pace            // from a release to its confirmation by a majority
	lengths               []*request      // those with a length of their own whose votes are to be extended
	extendsNext, endsNext earliest        // of those, and of the groups
	barred                bool            // some voter didn't give some request the slot that it was asked for
	turned                bool            // some voter has turned some request down
	looks                 []*look         // that are under way
	watches               []*watch
	nonce                 uint64
	nameTaken             bool
	count                 Counters
	free                  pools
}

// Counters count what a requester has done in its life.
type Counters struct {
	Requests, Wins, FirstRound, Confirmations, Yields, Losses, Restatements, Mismatches, Passed uint64
}

type requestState uint8

const (
	statePending requestState = iota
	stateWon
	stateEnding // released, lost, failed or abandoned: what is left is to hear that the voters know
)

// request is one wish of this node for a key. It fills one of the sizes in which memory is given out, 128 bytes; what only few requests have is in
// ballot.rare.
type request struct {
	ballot
	key       vote.Key
	number    vote.Number
	user      vote.Number  // the number of whom it serves: its own, but for a lease that was passed on
	behind    vote.Number  // the newest request of this node when it was put to the voters
	time      vote.Micros  // of its stamp
	since     vote.Instant // when it was asked for; of one that has ended, when it was released, until a majority has confirmed that
	bid       vote.Token
	token     vote.Token // of the lease: the last of its run
	group     *group     // that covers the lease
	at        uint32     // its place among the members of its group, or in Requester.pending
	slot      vote.Slot  // of the lease
	mode      vote.Mode
	try       bool
	state     requestState
	lined     bool // it stands in a line
	parked    bool // the voters don't know of it
	wanted    bool // somebody waits at some voter
	sparing   bool // some voters haven't heard of it, on purpose; see spare
	waiting   bool // stands in Requester.uncovered
	confirmed bool // a confirmation round was needed
	tell      bool // the end is told by EventReleased
}

// Ask is a wish and what concerns the requester alone.
type Ask struct {
	vote.Wish
	Fixed bool   // a wish with a length of its own isn't extended: the lease ends by its time
	Value []byte // for others to see; not changed any more by whoever gave it
	Urge  bool   // whoever holds the key is to be asked for it
	Why   string // the reason to give
}

// Exclusive is an ask for a key for oneself alone.
func Exclusive(key vote.Key, try bool) Ask {
	return Ask{Wish: vote.Wish{Key: key, Mode: vote.Exclusive, Try: try}}
}

// timed is a request with a time limit. All limits of a kind are equally long, so lists of them are in order of time.
type timed struct {
	at     vote.Instant
	number vote.Number
}

// New returns a requester that knows no voter yet.
func New(cfg Config, now vote.Now) *Requester {
	q := &Requester{
		cfg: cfg, now: now, requests: make(map[vote.Number]*request), seats: make(map[vote.Number]*request),
		heads: make(map[vote.Key]*request), lines: make(map[vote.Key]*line),
		extendsNext: earliest{at: vote.Never}, endsNext: earliest{at: vote.Never},
	}
	q.goBy(cfg.Electorate, vote.Electorate{})
	q.refreshAt = now.Fast.Add(q.every())
	return q
}

// every is how long after one refresh the next is sent.
func (q *Requester) every() time.Duration { return q.cfg.TTL / vote.RefreshesPerTTL }

// Lock asks the voters for a key. The outcome comes as an event: granted, or (a TryLock, or when voters refuse) failed.
func (q *Requester) Lock(now vote.Now, ask Ask) (vote.Number, error) {
	q.begin(now)
	if len(q.requests) >= MaxRequests {
		return 0, ErrBusy
	}
	q.last++
	q.count.Requests++
	r, n := q.newRequest(), q.last
	r.key, r.mode, r.try = ask.Key, max(ask.Mode, vote.Exclusive), ask.Try
	r.number, r.user, r.time, r.since = n, n, q.stamp(), q.now.Fast
	if !ask.simple() {
		x := q.rareOf(r)
		x.ask = ask
		if s := q.seats[ask.Beside]; s != nil {
			x.ask.Beside = s.number
		}
		if len(ask.Value) > 0 {
			x.version = 1
		}
	}
	q.requests[n] = r
	q.most.requests = max(q.most.requests, len(q.requests))
	put(&q.pending, r)
	if q.standInLine(r) {
		q.judgeParked(r)
		return n, nil
	}
	if r.try {
		q.expect(&q.trying, r, func(n vote.Number) bool { return !q.isPending(n) })
	}
	q.speak(r)
	q.judge(r)
	return n, nil
}

// judgeParked ends a request at once that waits in line while so many voters refuse us that no majority is left.
func (q *Requester) judgeParked(r *request) {
	if r.parked {
		q.judge(r)
	}
}

// speak puts a request to the voters, of which it may spare some.
func (q *Requester) speak(r *request) {
	r.behind = q.last
	r.bid = q.bid()
	first := q.newest.Committee(r.key)
	if r.plain() && !q.cfg.ToAll {
		if few := q.first(q.counting()); few != ^Set(0) {
			first &= few
			q.spare(r)
		}
	}
	for _, p := range q.peers {
		if first.Has(p.place) && p.up() {
			q.askFor(p, r)
		}
	}
}

// bid returns the token that a lease is to have that is asked for now, or that somebody else gets now.
func (q *Requester) bid() vote.Token { return max(vote.TokenAt(q.now.Wall), q.seen.Next()) }

// stamp returns the time of a new request's stamp: our wall clock, brought to within S of the median of the voters' clocks, so
// that a node whose clock is slow doesn't overtake the others by more than that for ever.
func (q *Requester) stamp() vote.Micros {
	if !q.clocked {
		return q.now.Wall
	}
	s := vote.Micros(vote.Skew.Microseconds())
	mid := q.now.Wall + q.median
	return min(max(q.now.Wall, mid-s), mid+s)
}

// Release ends a request, pending or won. EventReleased tells when a majority has confirmed, or that it hasn't within a TTL.
func (q *Requester) Release(now vote.Now, n vote.Number) { q.giveBack(now, n, false) }

// Lapse is Release for a lease that its holder has lost, as far as the holder knows: whatever was to follow upon that follows.
func (q *Requester) Lapse(now vote.Now, n vote.Number) { q.giveBack(now, n, true) }

func (q *Requester) giveBack(now vote.Now, n vote.Number, lost bool) {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state == stateEnding || !lost && q.passOn(r) {
		return
	}
	r.tell = true
	q.end(r, lost)
	q.settleEnd(r)
}

// end stops counting the votes of a request and tells the voters that it is over; lost, if it was a lease that nobody gave back.
func (q *Requester) end(r *request, lost bool) {
	q.leaveLine(r)
	if r.state == statePending {
		remove(&q.pending, r)
	}
	var bid vote.Token
	if r.wanted {
		bid = q.bid() // what those who have waited for long bid is out of date, and each voter would propose what it thinks best
	}
	first := ^Set(0)
	if r.state == stateWon && !lost && q.isLonely(r) {
		first = q.first(r.set())
	}
	r.state = stateEnding
	q.letGo(r)
	q.ungroup(r)
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if p.up() && v.asked {
			gone := vote.OfRequest(r.number)
			x := q.rareVote(r, p.place)
			x.relSerial = 0
			if v.stands() && p.answered { // before the answer the book has no votes in it
				gone = gone.Plus(vote.OfVote(v.serial))
				x.relSerial = v.serial
			}
			m := q.say(p, vote.Ledger{}.Minus(gone), vote.KindRelease, r.number)
			m.Lost, m.Bid = lost, bid
			if !first.Has(p.place) {
				q.later()
			}
			x.relStream, x.relAt = p.stream, p.said
		}
		r.drop(p.place)
	}
	q.noteRelease(r)
	q.expect(&q.ending, r, func(n vote.Number) bool { return q.requests[n] == nil })
}

// hearReleased takes a voter's word that nothing of a request is left there.
func (q *Requester) hearReleased(p *peer, r *request) {
	r.votes[p.place].released = true
	q.paced(r)
	q.settleEnd(r)
}

// settleEnd tells of a release once a majority has confirmed, or everyone that ever heard of the request, and forgets the
// request once all those have.
func (q *Requester) settleEnd(r *request) {
	done, all := r.released(), true
	for i := range r.votes {
		all = all && (!r.votes[i].asked || done.Has(i))
	}
	if r.tell && (all || q.newest.Decides(done)) {
		r.tell = false
		q.tell(EventReleased, r.user)
	}
	if all {
		q.forget(r)
	}
}

// forget drops a request of which nothing is left.
func (q *Requester) forget(r *request) {
	q.requests = drop(q.requests, r.number, &q.most.requests)
	if len(q.seats) > 0 {
		q.seats = drop(q.seats, r.user, &q.most.seats)
	}
	q.recycle(r)
}

// giveUp stops waiting for confirmations. The sessions in which the request stood have ended by now, or end without it.
func (q *Requester) giveUp(r *request) {
	if r.tell {
		done := r.released()
		var missing []string
		for _, p := range q.voters() {
			if !done.Has(p.place) {
				missing = append(missing, p.state(q.now).String())
			}
		}
		q.tell(EventReleased, r.user).Wait = Wait{WaitNoQuorum, fmt.Sprintf(
			"%d of %d voters confirmed the release; not confirmed: %s", (done & q.newest.All()).Len(), q.newest.Size(), strings.Join(missing, ", "))}
	}
	q.forget(r)
}

// fail ends a request that can't be granted.
func (q *Requester) fail(r *request, why WaitReason) {
	wait := q.wait(r, why)
	q.tell(EventFailed, r.user).Wait = wait
	q.end(r, false)
	q.settleEnd(r)
}

// begin notes the time; a clock never goes back.
func (q *Requester) begin(now vote.Now) {
	now.Fast = max(now.Fast, q.now.Fast)
	q.now = now
	q.expire()
}

// tell adds an event of a request, of zero for none. The caller puts in what else there is to tell, before anything else is told: the event is
// large, and is made where it stays.
func (q *Requester) tell(kind EventKind, n vote.Number) *Event {
	q.events = append(q.events, Event{})
	e := &q.events[len(q.events)-1]
	e.Kind, e.Number = kind, n
	return e
}

// say sends an ordered message about a request on the voter's current stream, and books what it does to the voter's ledger. The caller puts in what else
// there is to say, before anything else is said.
func (q *Requester) say(p *peer, delta vote.Ledger, kind vote.Kind, n vote.Number) *vote.Message {
	p.said++
	if delta != (vote.Ledger{}) {
		p.book.say(p.said, delta)
	}
	if p.book.full() && p.answered {
		p.refreshAt = min(p.refreshAt, p.refreshed.Add(bookEvery))
	}
	m := q.send(p.conn)
	m.Kind, m.Stream, m.Number = kind, p.stream, n
	return m
}

// send adds an empty message, to be filled before the next is added. What lies in the list's room behind its end is zero.
func (q *Requester) send(conn vote.Conn) *vote.Message {
	if n := len(q.out); n < cap(q.out) {
		q.out = q.out[:n+1]
	} else {
		q.out = append(q.out, vote.Outbound{})
	}
	o := &q.out[len(q.out)-1]
	o.Conn = conn
	return &o.Message
}

// urgent sends a message in the refresh lane.
func (q *Requester) urgent(p *peer, m *vote.Message) { *q.send(p.conn) = *m }

// closes has a connection closed.
func (q *Requester) closes(conn vote.Conn) {
	q.out = append(q.out, vote.Outbound{Conn: conn, Close: true})
}

// Drain appends what is to be sent and told, and forgets it.
func (q *Requester) Drain(out []vote.Outbound, ev []Event) ([]vote.Outbound, []Event) {
	out, ev = append(out, q.out...), append(ev, q.events...)
	clear(q.out)
	clear(q.events)
	q.out, q.events = q.out[:0], q.events[:0]
	return out, ev
}

// Said returns what is to be sent, and forgets it. It takes an empty list in exchange, whose room must be cleared, and with it that room.
func (q *Requester) Said(empty []vote.Outbound) []vote.Outbound {
	out := q.out
	q.out = empty[:0]
	return out
}

// Told is the same for what is to be told.
func (q *Requester) Told(empty []Event) []Event {
	events := q.events
	q.events = empty[:0]
	return events
}

// Alarm adds a text that an operator should see to what is to be told.
func (q *Requester) Alarm(text string) { q.tell(EventAlarm, 0).Text = text }

// NameTaken reports whether a voter has said that another live process bears our name, and forgets it.
func (q *Requester) NameTaken() bool {
	t := q.nameTaken
	q.nameTaken = false
	return t
}

// Counters returns what the requester has done in its life.
func (q *Requester) Counters() Counters { return q.count }

// Tick lets time pass: sessions are refreshed, leases end, voters that are silent are called anew.
func (q *Requester) Tick(now vote.Now) {
	q.begin(now)
	if q.now.Fast >= q.refreshAt {
		q.refreshAt = q.now.Fast.Add(q.every())
		for _, p := range q.peers {
			q.refresh(p)
		}
		q.unbar()
		q.askAgain()
		q.watchLater()
	}
	q.askTheRest()
	q.extendDue()
	q.endLooks()
	q.forgetBefore()
	for _, p := range q.peers {
		if p.refreshAt <= q.now.Fast {
			q.refresh(p)
		}
		if p.up() && p.conn != vote.LocalConn && q.now.Fast >= p.lastWord.Add(q.patience(p)) {
			q.hangUp(p, fmt.Sprintf("no answer for %v", q.now.Fast.Sub(p.lastWord).Round(time.Millisecond)))
		}
	}
	for q.trying.len() > 0 && (q.trying.first().at <= q.now.Fast || !q.isPending(q.trying.first().number)) {
		n := q.trying.first().number
		q.trying.pop()
		if q.isPending(n) {
			r := q.requests[n]
			q.fail(r, q.why(r))
		}
	}
	for q.ending.len() > 0 && (q.ending.first().at <= q.now.Fast || q.requests[q.ending.first().number] == nil) {
		if r := q.requests[q.ending.first().number]; r != nil {
			q.giveUp(r)
		}
		q.ending.pop()
	}
}

// patience is how long a voter may say nothing. A long statement takes a while to arrive, and a voter that must find out first which
// of two processes bears our name takes a while to answer.
func (q *Requester) patience(p *peer) time.Duration {
	if !p.answered {
		return q.cfg.TTL
	}
	return silence(q.cfg.TTL)
}

func (q *Requester) isPending(n vote.Number) bool {
	r := q.requests[n]
	return r != nil && r.state == statePending
}

// Next returns the instant of the fast clock at which Tick has something to do next.
func (q *Requester) Next() vote.Instant {
	next := min(q.refreshAt, q.beforeEnds(), q.firstEnd(), q.firstExtension())
	for _, p := range q.peers {
		next = min(next, p.refreshAt)
		if p.up() && p.conn != vote.LocalConn {
			next = min(next, p.lastWord.Add(q.patience(p)))
		}
	}
	if len(q.looks) > 0 {
		next = min(next, q.looks[0].at)
	}
	if s := q.firstSpared(); s != nil {
		next = min(next, s.at)
	}
	if q.trying.len() > 0 {
		next = min(next, q.trying.first().at)
	}
	if q.ending.len() > 0 {
		next = min(next, q.ending.first().at)
	}
	return next
}

// Why tells what stands between a pending request and its grant.
func (q *Requester) Why(now vote.Now, n vote.Number) Wait {
	q.now.Fast = max(q.now.Fast, now.Fast)
	r := q.find(n)
	if r == nil || r.state != statePending {
		return Wait{}
	}
	return q.wait(r, q.why(r))
}

// wait tells why a request waits or fails, in numbers.
func (q *Requester) wait(r *request, why WaitReason) Wait {
	switch why {
	case WaitUnfit:
		others := uint16(0)
		for i := range r.votes {
			others = max(others, r.votes[i].unfit)
		}
		return Wait{why, fmt.Sprintf("%d permits are asked for here, while others use %d; all must agree", r.wish().Permits, others)}
	case WaitClash:
		return Wait{why, "an older upgrade of the same key waits for this lease to end"}
	}
	return Wait{why, q.census()}
}

func (q *Requester) why(r *request) WaitReason {
	var counting, refusing, busy, unfit Set
	for _, p := range q.peers {
		if p.counts() && !q.behind(p) {
			counting = counting.With(p.place)
		}
		if p.refused != vote.ReasonNone {
			refusing = refusing.With(p.place)
		}
		if r.votes[p.place].busy {
			busy = busy.With(p.place)
		}
		if r.votes[p.place].unfit != 0 {
			unfit = unfit.With(p.place)
		}
	}
	e := q.newest
	switch {
	case !e.Known():
		return WaitNoQuorum
	case !e.Decides(e.All() &^ refusing):
		return WaitRefused
	case !e.Decides(e.All() &^ r.taken()):
		return WaitHeld
	case !e.Decides(e.All() &^ unfit):
		return WaitUnfit
	case !e.Decides(e.All() &^ busy):
		return WaitBusy
	case q.decides(counting):
		return WaitHeld
	default:
		return WaitNoQuorum
	}
}

// census says how many voters count and what is with the others.
func (q *Requester) census() string {
	if !q.newest.Known() {
		return "no electorate is known: this node has not been voted into one, nor met anybody who knows one"
	}
	var b strings.Builder
	counting := 0
	for _, p := range q.voters() {
		if p.counts() && !q.behind(p) {
			counting++
		}
	}
	verb := "count"
	if counting == 1 {
		verb = "counts"
	}
	fmt.Fprintf(&b, "%d of %d voters %s", counting, q.newest.Size(), verb)
	sep := ": "
	for _, p := range q.voters() {
		if !p.counts() || q.behind(p) {
			b.WriteString(sep)
			b.WriteString(q.stateOf(p, q.now).String())
			sep = ", "
		}
	}
	return b.String()
}

// Voters returns every voter as it looks from here, in order of names.
func (q *Requester) Voters(now vote.Now) []VoterState {
	all := make([]VoterState, 0, len(q.peers))
	for _, p := range q.voters() {
		all = append(all, q.stateOf(p, now))
	}
	return all
}

// Ready reports whether a majority of the voters answers and counts.
func (q *Requester) Ready() bool {
	var s Set
	for _, p := range q.peers {
		if p.counts() && !q.behind(p) {
			s = s.With(p.place)
		}
	}
	return q.decides(s)
}

// stateOf is how a voter looks, its electorate included.
func (q *Requester) stateOf(p *peer, now vote.Now) VoterState {
	s := p.state(now)
	if s.State == Reachable && q.behind(p) {
		s.State, s.Text = Behind, fmt.Sprintf("it goes by electorate %d", p.goes)
	}
	return s
}

// sorted returns the requests that are wanted (nil: all) in order of their numbers, so that nothing depends on the order of a map.
func (q *Requester) sorted(wanted func(*request) bool) []*request {
	var all []*request
	if wanted == nil {
		all = make([]*request, 0, len(q.requests))
	}
	for _, r := range q.requests {
		if wanted == nil || wanted(r) {
			all = append(all, r)
		}
	}
	return byNumber(all)
}

// byNumber puts requests in order. Their numbers lie beside each other while they are sorted: of a million, most would have to be fetched from afar each
// time that they are looked at.
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
