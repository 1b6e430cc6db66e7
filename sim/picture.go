package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Picture records a run for drawing. Give a Picture to [Options], let the world run, and call
// [World.WritePicture]. A Picture belongs to a single world, only observes, and never changes the
// run. The zero value records the whole run. Set a window for a long run, since a picture of more
// than about a minute is large and hard to read.
type Picture struct {
	From time.Duration // the window's start in the world's time
	To   time.Duration // the window's end; zero for the end of the run

	tracks  []*track // by host
	cuts    map[[2]int]Moment
	stalled map[*link][2]Moment
	bands   []band
	sent    map[*byte]Moment // when each frame under way was sent, by the address of its first byte
	lock    arrows           // messages that ask for, give and take votes
	upkeep  arrows           // refreshes and their answers
	breaks  []broken
}

// track is the record of a host.
type track struct {
	host   *host
	lives  []stretch
	quiet  []stretch
	pauses []stretch
	deaths []Moment
	clocks []stretch // clock changes; from and to are equal
	held   map[*Request]bool
	waits  map[*Request]bool
	leases []shownLease
	waited []shownWait
}

// stretch is a span of time; to is never while the span lasts.
type stretch struct {
	from, to Moment
	text     string
}

// shownLease is a lease.
type shownLease struct {
	from   Moment
	over   Moment // when its user stopped believing in the lease
	to     Moment // when its node ended the lease: after over if the process was stopped
	key    string
	token  vote.Token
	number vote.Number
	end    State // Granted while the lease lasts
}

// shownWait is the time for which a request waits.
type shownWait struct {
	from, to Moment
	key      string
	number   vote.Number
}

// band is a span during which a way between two hosts is cut, or a side of a connection is held up.
type band struct {
	stretch
	way     [2]int
	stalled bool
}

// arrow is a message that has arrived.
type arrow struct {
	from, to   int
	sent, came Moment
	text       string
	kind       vote.Kind
}

// arrows are messages of the same sort: the first arrowsMost, and the number of all.
type arrows struct {
	list  []arrow
	total int
}

// broken is a connection that broke.
type broken struct {
	at   Moment
	a, b int
}

// arrowsMost is how many messages a picture shows at most, and lockArrowsMost how many of them in
// full ink. More messages would make a grey cloud.
const (
	arrowsMost     = 600
	lockArrowsMost = 250
)

func (p *Picture) setUp() {
	p.cuts = make(map[[2]int]Moment)
	p.stalled = make(map[*link][2]Moment)
	p.sent = make(map[*byte]Moment)
}

// covers reports whether a span overlaps the window.
func (p *Picture) covers(from, to Moment) bool {
	return to >= Moment(p.From) && (p.To == 0 || from <= Moment(p.To))
}

func (p *Picture) shows(at Moment) bool { return p.covers(at, at) }

// track returns a host's record. The host of a duplicate process gets its record with its first
// start.
func (p *Picture) track(h *host) *track {
	for len(p.tracks) <= h.i {
		p.tracks = append(p.tracks, &track{held: make(map[*Request]bool), waits: make(map[*Request]bool)})
	}
	t := p.tracks[h.i]
	t.host = h
	return t
}

func (p *Picture) begin(list *[]stretch, at Moment, text string) {
	*list = append(*list, stretch{at, never, text})
}

// end closes the last span of a list if the span is open, and drops the span if the window doesn't
// cover it.
func (p *Picture) end(list *[]stretch, at Moment) {
	if n := len(*list) - 1; n >= 0 && (*list)[n].to == never {
		(*list)[n].to = at
		if !p.covers((*list)[n].from, at) {
			*list = (*list)[:n]
		}
	}
}

// started, died, paused and resumed follow a host's processes.
func (p *Picture) started(w *World, h *host) {
	if p == nil {
		return
	}
	t := p.track(h)
	p.begin(&t.lives, w.now, h.p.id.String())
	p.settled(w, h.p)
}

func (p *Picture) died(w *World, h *host) {
	if p == nil {
		return
	}
	t := p.track(h)
	p.end(&t.lives, w.now)
	p.end(&t.quiet, w.now)
	p.end(&t.pauses, w.now)
	if p.shows(w.now) {
		t.deaths = append(t.deaths, w.now)
	}
}

func (p *Picture) paused(w *World, h *host, how string) {
	if p != nil {
		p.begin(&p.track(h).pauses, w.now, how)
	}
}

func (p *Picture) resumed(w *World, h *host) {
	if p != nil {
		p.end(&p.track(h).pauses, w.now)
	}
}

// clockChanged records a step or a new rate of a host's clocks.
func (p *Picture) clockChanged(w *World, h *host, text string) {
	if p != nil && p.shows(w.now) {
		t := p.track(h)
		t.clocks = append(t.clocks, stretch{w.now, w.now, text})
	}
}

// settled records the start and the end of a voter's startup quarantine.
func (p *Picture) settled(w *World, q *process) {
	v := q.m.Voter()
	if v == nil || q.dead {
		return
	}
	t := p.track(q.host)
	open := len(t.quiet) > 0 && t.quiet[len(t.quiet)-1].to == never
	switch quiet := v.Quiet() > 0; {
	case quiet && !open:
		p.begin(&t.quiet, w.now, "")
	case !quiet && open:
		p.end(&t.quiet, w.now)
	}
}

// asked, granted and ended follow a request.
func (p *Picture) asked(r *Request) {
	if p != nil {
		p.track(r.p.host).waits[r] = true
	}
}

func (p *Picture) granted(w *World, r *Request) {
	if p == nil {
		return
	}
	p.ended(w, r, Waiting)
	p.track(r.p.host).held[r] = true
}

// ended closes a request's wait, or its lease, which has ended in the given way.
func (p *Picture) ended(w *World, r *Request, how State) {
	if p == nil {
		return
	}
	t := p.track(r.p.host)
	switch {
	case t.waits[r]:
		delete(t.waits, r)
		if from := Moment(r.Asked); p.covers(from, w.now) {
			t.waited = append(t.waited, shownWait{from, w.now, r.Key, r.Number})
		}
	case t.held[r]:
		delete(t.held, r)
		if l := t.lease(r, w.now, how); p.covers(l.from, l.to) {
			t.leases = append(t.leases, l)
		}
	}
}

// lease returns the record of a lease at its end, or at a moment while the lease is held.
func (t *track) lease(r *Request, at Moment, how State) shownLease {
	l := shownLease{from: Moment(r.Had), over: at, to: at, key: r.Key, token: r.Token, number: r.Number, end: how}
	for _, x := range t.pauses {
		if x.to > l.from && x.text == pauseNames[pauseUnseen] {
			return l // the user believed in the lease for longer than the world's clock says
		}
	}
	l.over = max(l.from, min(at, r.until.add(-vote.Margin(r.p.host.ttl))))
	return l
}

// cutting records that a way is cut, or is free again; n is how many faults cut the way now.
func (p *Picture) cutting(w *World, from, to *host, n int) {
	if p == nil {
		return
	}
	way := [2]int{from.i, to.i}
	began, open := p.cuts[way]
	switch {
	case n > 0 && !open:
		p.cuts[way] = w.now
	case n <= 0 && open:
		delete(p.cuts, way)
		if p.covers(began, w.now) {
			p.bands = append(p.bands, band{stretch{began, w.now, ""}, way, false})
		}
	}
}

// stalling does the same as cutting for a side of a connection.
func (p *Picture) stalling(w *World, l *link, side uint8, n int) {
	if p == nil {
		return
	}
	s := p.stalled[l] // the moment plus one; zero means not stalled
	switch began := s[side] - 1; {
	case n > 0 && began < 0:
		s[side] = w.now + 1
	case n <= 0 && began >= 0:
		s[side] = 0
		if p.covers(began, w.now) {
			p.bands = append(p.bands, band{stretch{began, w.now, ""}, l.way(side), true})
		}
	}
	if p.stalled[l] = s; s == [2]Moment{} {
		delete(p.stalled, l)
	}
}

func (l *link) way(side uint8) [2]int { return [2]int{l.ends[side].host.i, l.ends[1-side].host.i} }

func (p *Picture) broke(w *World, l *link) {
	if p != nil && p.shows(w.now) {
		p.breaks = append(p.breaks, broken{w.now, l.ends[0].host.i, l.ends[1].host.i})
	}
}

// dispatched records when a frame was sent, and arrived records its arrow. No other frame has the
// same buffer until the frame has arrived.
func (p *Picture) dispatched(w *World, f []byte) {
	if len(f) > 0 && (p.To == 0 || w.now <= Moment(p.To)) {
		p.sent[&f[0]] = w.now
	}
}

func (p *Picture) arrived(w *World, from, to *host, f []byte, m *vote.Message) {
	sent, ok := p.sent[&f[0]]
	delete(p.sent, &f[0])
	if !ok || !p.covers(sent, w.now) {
		return
	}
	sort := &p.lock
	if m.Kind.Urgent() {
		sort = &p.upkeep
	}
	if sort.total++; sort.total <= arrowsMost {
		sort.list = append(sort.list, arrow{from.i, to.i, sent, w.now, string(appendMessage(nil, m)), m.Kind})
	}
}

// openBands returns all bands, open ones included, in an order independent of map iteration.
func (p *Picture) openBands(until Moment) []band {
	all := slices.Clone(p.bands)
	for way, began := range p.cuts {
		if p.covers(began, until) {
			all = append(all, band{stretch{began, until, ""}, way, false})
		}
	}
	for l, s := range p.stalled {
		for side := range uint8(2) {
			if began := s[side] - 1; began >= 0 && p.covers(began, until) {
				all = append(all, band{stretch{began, until, ""}, l.way(side), true})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b band) int {
		return compareAll(int64(a.from-b.from), int64(a.to-b.to), int64(bit(a.stalled)-bit(b.stalled)), int64(a.way[0]-b.way[0]),
			int64(a.way[1]-b.way[1]))
	})
	return all
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareAll returns the sign of the first difference that isn't zero.
func compareAll(diffs ...int64) int {
	for _, d := range diffs {
		if d != 0 {
			return int(d>>63) | 1
		}
	}
	return 0
}

// shown returns a host's leases and waits in order, open ones included.
func (t *track) shown(p *Picture, until Moment) ([]shownLease, []shownWait) {
	leases, waits := slices.Clone(t.leases), slices.Clone(t.waited)
	for r := range t.held {
		if l := t.lease(r, until, Granted); p.covers(l.from, l.to) {
			leases = append(leases, l)
		}
	}
	for r := range t.waits {
		if from := Moment(r.Asked); p.covers(from, until) {
			waits = append(waits, shownWait{from, until, r.Key, r.Number})
		}
	}
	slices.SortFunc(leases, func(a, b shownLease) int { return compareAll(int64(a.from-b.from), int64(a.number)-int64(b.number)) })
	slices.SortFunc(waits, func(a, b shownWait) int { return compareAll(int64(a.from-b.from), int64(a.number)-int64(b.number)) })
	return leases, waits
}
