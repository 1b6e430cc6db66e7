package timeline

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Recording records a run for drawing. A Recording belongs to a single run, only observes, and
// never changes the run. The zero value records the whole run. Set a window for a long run, since a
// picture of more than about a minute is large and hard to read. The methods of a nil Recording do
// nothing. Hosts are numbered from 0, and all times are the world's.
type Recording struct {
	From time.Duration // the window's start
	To   time.Duration // the window's end; zero for the end of the run

	hosts   []host
	tracks  []*track // by host, up to the last that has started
	cuts    map[[2]int]time.Duration
	stalled map[uint64][2]time.Duration
	ways    map[uint64][2]int // of the stalled connections: from side 0 to side 1
	bands   []band
	sent    map[*byte]time.Duration // when each frame under way was sent, by the address of its first byte
	lock    arrows                  // messages that ask for, give and take votes
	upkeep  arrows                  // refreshes and their answers
	breaks  []broken
}

// never is the end of a span that lasts.
const never = time.Duration(1<<63 - 1)

// RequestID identifies a request in the whole run.
type RequestID struct {
	Session vote.SessionID
	Number  vote.Number
}

// Lease is a lease as its user sees it.
type Lease struct {
	Key     string
	Token   vote.Token
	Granted time.Duration
	// Believed returns until when the user may believe in the lease, as known now.
	Believed func() time.Duration
}

// host is what is known of a host from the beginning.
type host struct {
	name  string
	voter bool
}

// track is the record of a host.
type track struct {
	host    int
	running []stretch
	quiet   []stretch
	pauses  []stretch
	deaths  []time.Duration
	clocks  []stretch // clock changes; from and to are equal
	held    map[RequestID]Lease
	waits   map[RequestID]wait
	leases  []shownLease
	waited  []shownWait
}

// wait is a request that waits.
type wait struct {
	from time.Duration
	key  string
}

// stretch is a span of time; to is never while the span lasts.
type stretch struct {
	from, to time.Duration
	text     string
	unseen   bool // a pause that no clock shows
}

// shownLease is a lease.
type shownLease struct {
	from   time.Duration
	over   time.Duration // when its user stopped believing in the lease
	to     time.Duration // when its node ended the lease: after over if the process was stopped
	key    string
	token  vote.Token
	number vote.Number
	how    string // how it ended; empty while it lasts
	lost   bool
}

// shownWait is the time for which a request waits.
type shownWait struct {
	from, to time.Duration
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
	sent, came time.Duration
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
	at   time.Duration
	a, b int
}

// arrowsMost is how many messages a picture shows at most, and lockArrowsMost how many of them in
// full ink. More messages would make a grey cloud.
const (
	arrowsMost     = 600
	lockArrowsMost = 250
)

// covers reports whether a span overlaps the window.
func (r *Recording) covers(from, to time.Duration) bool {
	return to >= r.From && (r.To == 0 || from <= r.To)
}

func (r *Recording) shows(at time.Duration) bool { return r.covers(at, at) }

// Host names a host, before anything else is recorded of it.
func (r *Recording) Host(n int, name string, voter bool) {
	if r == nil {
		return
	}
	for len(r.hosts) <= n {
		r.hosts = append(r.hosts, host{})
	}
	r.hosts[n] = host{name, voter}
}

// track returns a host's record.
func (r *Recording) track(host int) *track {
	for len(r.tracks) <= host {
		r.tracks = append(r.tracks, &track{host: len(r.tracks), held: make(map[RequestID]Lease), waits: make(map[RequestID]wait)})
	}
	return r.tracks[host]
}

func begin(list *[]stretch, at time.Duration, text string) {
	*list = append(*list, stretch{from: at, to: never, text: text})
}

// end closes the last span of a list if the span is open, and drops the span if the window doesn't
// cover it.
func (r *Recording) end(list *[]stretch, at time.Duration) {
	if n := len(*list) - 1; n >= 0 && (*list)[n].to == never {
		(*list)[n].to = at
		if !r.covers((*list)[n].from, at) {
			*list = (*list)[:n]
		}
	}
}

// Started records the start of a process.
func (r *Recording) Started(at time.Duration, host int, process string) {
	if r != nil {
		begin(&r.track(host).running, at, process)
	}
}

// Died records the end of a host's process.
func (r *Recording) Died(at time.Duration, host int) {
	if r == nil {
		return
	}
	t := r.track(host)
	r.end(&t.running, at)
	r.end(&t.quiet, at)
	r.end(&t.pauses, at)
	if r.shows(at) {
		t.deaths = append(t.deaths, at)
	}
}

// Paused records that a host's process is kept from running. unseen says that no clock shows the
// pause.
func (r *Recording) Paused(at time.Duration, host int, how string, unseen bool) {
	if r == nil {
		return
	}
	t := r.track(host)
	begin(&t.pauses, at, how)
	t.pauses[len(t.pauses)-1].unseen = unseen
}

// Resumed ends the pause of a host's process.
func (r *Recording) Resumed(at time.Duration, host int) {
	if r != nil {
		r.end(&r.track(host).pauses, at)
	}
}

// ClockChanged records a step or a new rate of a host's clocks.
func (r *Recording) ClockChanged(at time.Duration, host int, text string) {
	if r != nil && r.shows(at) {
		t := r.track(host)
		t.clocks = append(t.clocks, stretch{from: at, to: at, text: text})
	}
}

// Quiet records whether a host's voter is in its startup quarantine.
func (r *Recording) Quiet(at time.Duration, host int, quiet bool) {
	if r == nil {
		return
	}
	t := r.track(host)
	open := len(t.quiet) > 0 && t.quiet[len(t.quiet)-1].to == never
	switch {
	case quiet && !open:
		begin(&t.quiet, at, "")
	case !quiet && open:
		r.end(&t.quiet, at)
	}
}

// Asked records that a request waits from now on.
func (r *Recording) Asked(at time.Duration, host int, id RequestID, key string) {
	if r != nil {
		r.track(host).waits[id] = wait{at, key}
	}
}

// Granted records that a request has become a lease.
func (r *Recording) Granted(at time.Duration, host int, id RequestID, l Lease) {
	if r == nil {
		return
	}
	r.Ended(at, host, id, "", false)
	r.track(host).held[id] = l
}

// Ended records the end of a request's wait, or of its lease: how the lease ended, and whether it
// was lost.
func (r *Recording) Ended(at time.Duration, host int, id RequestID, how string, lost bool) {
	if r == nil {
		return
	}
	t := r.track(host)
	if x, ok := t.waits[id]; ok {
		delete(t.waits, id)
		if r.covers(x.from, at) {
			t.waited = append(t.waited, shownWait{x.from, at, x.key, id.Number})
		}
	} else if l, ok := t.held[id]; ok {
		delete(t.held, id)
		if s := t.lease(id, l, at, how, lost); r.covers(s.from, s.to) {
			t.leases = append(t.leases, s)
		}
	}
}

// lease returns the record of a lease at its end, or at a moment while the lease is held.
func (t *track) lease(id RequestID, l Lease, at time.Duration, how string, lost bool) shownLease {
	s := shownLease{from: l.Granted, over: at, to: at, key: l.Key, token: l.Token, number: id.Number, how: how, lost: lost}
	for _, x := range t.pauses {
		if x.to > s.from && x.unseen {
			return s // the user believed in the lease for longer than the world's clock says
		}
	}
	s.over = max(s.from, min(at, l.Believed()))
	return s
}

// Cutting records that a way is cut, or is free again; n is how many faults cut the way now.
func (r *Recording) Cutting(at time.Duration, from, to, n int) {
	if r == nil {
		return
	}
	way := [2]int{from, to}
	began, open := r.cuts[way]
	switch {
	case n > 0 && !open:
		if r.cuts == nil {
			r.cuts = make(map[[2]int]time.Duration)
		}
		r.cuts[way] = at
	case n <= 0 && open:
		delete(r.cuts, way)
		if r.covers(began, at) {
			r.bands = append(r.bands, band{stretch{from: began, to: at}, way, false})
		}
	}
}

// Stalling does the same as Cutting for a side of a connection, between the hosts of side 0 and
// side 1.
func (r *Recording) Stalling(at time.Duration, link uint64, hosts [2]int, side uint8, n int) {
	if r == nil {
		return
	}
	if r.stalled == nil {
		r.stalled, r.ways = make(map[uint64][2]time.Duration), make(map[uint64][2]int)
	}
	s := r.stalled[link] // the moment plus one; zero means not stalled
	switch began := s[side] - 1; {
	case n > 0 && began < 0:
		s[side] = at + 1
	case n <= 0 && began >= 0:
		s[side] = 0
		if r.covers(began, at) {
			r.bands = append(r.bands, band{stretch{from: began, to: at}, way(hosts, side), true})
		}
	}
	r.stalled[link], r.ways[link] = s, hosts
	if s == [2]time.Duration{} {
		delete(r.stalled, link)
		delete(r.ways, link)
	}
}

// way returns the way on which a side sends.
func way(hosts [2]int, side uint8) [2]int { return [2]int{hosts[side], hosts[1-side]} }

// Broke records that a connection between two hosts broke.
func (r *Recording) Broke(at time.Duration, hosts [2]int) {
	if r != nil && r.shows(at) {
		r.breaks = append(r.breaks, broken{at, hosts[0], hosts[1]})
	}
}

// Dispatched records that a frame is sent. No other frame may have the same buffer until Arrived.
func (r *Recording) Dispatched(at time.Duration, frame []byte) {
	if r == nil || len(frame) == 0 || r.To != 0 && at > r.To {
		return
	}
	if r.sent == nil {
		r.sent = make(map[*byte]time.Duration)
	}
	r.sent[&frame[0]] = at
}

// Arrived records the arrival of a frame's message. describe returns the message as text.
func (r *Recording) Arrived(at time.Duration, from, to int, frame []byte, kind vote.Kind, describe func() string) {
	if r == nil {
		return
	}
	sent, ok := r.sent[&frame[0]]
	delete(r.sent, &frame[0])
	if !ok || !r.covers(sent, at) {
		return
	}
	sort := &r.lock
	if kind.Urgent() {
		sort = &r.upkeep
	}
	if sort.total++; sort.total <= arrowsMost {
		sort.list = append(sort.list, arrow{from, to, sent, at, describe(), kind})
	}
}

// openBands returns all bands, open ones included, in an order independent of map iteration.
func (r *Recording) openBands(until time.Duration) []band {
	all := slices.Clone(r.bands)
	for way, began := range r.cuts {
		if r.covers(began, until) {
			all = append(all, band{stretch{from: began, to: until}, way, false})
		}
	}
	for link, s := range r.stalled {
		for side := range uint8(2) {
			if began := s[side] - 1; began >= 0 && r.covers(began, until) {
				all = append(all, band{stretch{from: began, to: until}, way(r.ways[link], side), true})
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
func (t *track) shown(p *Recording, until time.Duration) ([]shownLease, []shownWait) {
	leases, waits := slices.Clone(t.leases), slices.Clone(t.waited)
	for id, l := range t.held {
		if s := t.lease(id, l, until, "", false); p.covers(s.from, s.to) {
			leases = append(leases, s)
		}
	}
	for id, x := range t.waits {
		if p.covers(x.from, until) {
			waits = append(waits, shownWait{x.from, until, x.key, id.Number})
		}
	}
	slices.SortFunc(leases, func(a, b shownLease) int { return compareAll(int64(a.from-b.from), int64(a.number)-int64(b.number)) })
	slices.SortFunc(waits, func(a, b shownWait) int { return compareAll(int64(a.from-b.from), int64(a.number)-int64(b.number)) })
	return leases, waits
}
