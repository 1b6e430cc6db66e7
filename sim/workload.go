package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Load says what the clients on each node request. All durations are means.
type Load struct {
	Clients  int // on each node; zero for none
	Keys     int // number of keys that the clients contend for
	Think    time.Duration
	Hold     time.Duration
	Patience time.Duration // after which a waiting client gives up
	Try      int           // percentage of TryLocks among the requests
	Forever  int           // percentage of requests that never give up
	Long     int           // percentage of leases that are held ten times as long

	// Kinds says by place how the keys are used. Keys beyond the list are plain locks.
	Kinds []Kind
	Mix   Mix

	// Asks, if not nil, are the clients' requests, and none is drawn. [World.Asks] returns the
	// requests of a run.
	Asks []Ask
}

// State is the state of a request.
type State uint8

// A request goes from Waiting to Granted or to an end, and from Granted to Lost, to Crashed or, by
// way of Releasing, to Released.
const (
	Waiting State = iota
	Granted
	Failed    // a TryLock lost, or the voters refused
	Lost      // the lease has expired
	Releasing // given back, and not confirmed yet
	Released
	Crashed // its process has crashed
)

func (s State) String() string {
	return [...]string{"waiting", "granted", "failed", "lost", "releasing", "released", "crashed"}[s]
}

// Request is a client's request for a key, as the client sees it.
type Request struct {
	Node   string
	Key    string
	Ask    Ask       // the request as made
	Mode   vote.Mode // the present mode: a writer may downgrade to shared
	Slot   vote.Slot // of a permit
	Try    bool
	Number vote.Number
	State  State
	Token  vote.Token
	Wait   quorum.Wait // why the request failed, or wasn't confirmed as released
	Asked  time.Duration
	Had    time.Duration // when it was granted
	Ended  time.Duration

	p        *process
	key      *lockKey
	seat     vote.Number // alias: the number under which voters know the lease
	top      vote.Token  // the last token of its block
	group    quorum.GroupID
	client   int          // index in its process; -1 for a scenario's request
	asked    vote.Instant // on the fast clock
	released vote.Instant
	stops    int           // its process's count of stops at the request or release
	hold     time.Duration // for how long its client wants the lease
	until    Moment        // when its validity ends in the world's time, with the guard
	end      vote.Instant  // the same on its node's fast clock, without the guard
	over     vote.Instant  // the earliest instant at which its node could know of the end
	endAt    Moment        // end in the world's time
	gaveBack Moment
	expired  bool          // the lease ended before its release was confirmed
	behind   bool          // its node didn't know the newest electorate at the end
	given    bool          // given back while held
	turn     time.Duration // see Ask.Turn
	base     *Request      // for an upgrade: the shared lease to replace
	up       *Request      // the upgrade that waits beside this lease
	fixed    vote.Instant  // the latest end of a fixed lease
	shared   Moment        // when the lease was downgraded to shared
	overAt   Moment        // when the lease was over, if the key was still kept from others
	was      been
	era      int // of tokens; see lockKey.topped

	overtaken int // by how many younger requests
}

// load is the part of the world that requests locks.
type load struct {
	// draining: clients make no new requests and soon give their leases back.
	draining bool
	waiting  int // number of waiting requests
	asks     []Ask
}

// client is a user on a node.
type client struct {
	r    *Request
	due  Moment // when it acts next
	plan uint32 // number of the valid plan; events of earlier plans are void
	luck *rand.Rand
	once bool // it makes a single request
}

func (w *World) setUpLoad() {
	l := &w.opt.Load
	l.Keys = max(l.Keys, 1)
	for i := range l.Keys {
		w.keyOf(vote.Key(fmt.Sprintf("key-%d", i)))
	}
	w.setUpAsks()
}

func (w *World) startClients(p *process) {
	if w.draining || w.opt.Load.Asks != nil {
		return
	}
	p.clients = make([]client, w.opt.Load.Clients)
	for i := range p.clients {
		c := &p.clients[i]
		c.luck = rand.New(w.chance("client", p.host.alias, p.host.lives, i))
		w.plan(p, i, c.mean(w.opt.Load.Think))
	}
}

// mean draws a duration between zero and twice the mean.
func (c *client) mean(d time.Duration) time.Duration { return within(c.luck, 2*d) }

func (c *client) percent(n int) bool { return c.luck.IntN(100) < n }

// plan has a client act after d, unless something happens to the client before.
func (w *World) plan(p *process, i int, d time.Duration) {
	c := &p.clients[i]
	c.due = w.now.add(d) + 1
	c.plan++
	w.push(event{at: c.due, kind: eventClient, p: p, n: uint64(c.plan)<<32 | uint64(i)})
}

// act takes a client's next step: to ask, to give up, or to give back.
func (w *World) act(p *process, n uint64) {
	i := int(uint32(n))
	c := &p.clients[i]
	if c.plan != uint32(n>>32) || c.due > w.now {
		return // another plan is valid by now
	}
	l := &w.opt.Load
	switch r := c.r; {
	case r == nil:
		if w.draining {
			return
		}
		k := w.lockKeys[c.luck.IntN(l.Keys)]
		a := Ask{At: time.Duration(c.due), Node: p.host.alias, Key: string(k.name), Try: c.percent(l.Try), Hold: c.mean(l.Hold)}
		if c.percent(l.Long) {
			a.Hold *= 10
		}
		if !c.percent(l.Forever) {
			a.Patience = c.mean(l.Patience) + 1
		}
		w.drawKind(p.host, c, k, &a)
		if !w.want(p, i, a) {
			w.plan(p, i, c.mean(l.Think))
		}
	case r.State == Waiting && w.draining:
	case r.up != nil && r.up.State == Waiting:
		if !w.draining { // the client gives its upgrade up, after waiting for others to go
			w.plan(p, i, r.hold)
			w.release(r.up)
		}
	case r.State == Granted && r.turn > 0 && !w.draining:
		r.turn = 0
		w.turns(r)
	case r.State == Waiting || r.State == Granted:
		w.release(r)
	}
}

// ask requests a key, as an upgrade of base if base isn't nil. It returns nil if the node refuses
// the request. The caller must call settle.
func (w *World) ask(p *process, a Ask, base *Request) *Request {
	now := p.read(w.now)
	k := w.keyOf(vote.Key(a.Key))
	beside := vote.Number(0)
	if base != nil {
		beside = base.Number
	}
	wish := a.wish(beside)
	r := &Request{
		Node: p.host.alias, Key: a.Key, Ask: a, Mode: wish.Mode, Try: a.Try, Number: vote.Number(len(p.asked)), Asked: w.Now(),
		p: p, key: k, client: -1, asked: now.Fast, stops: p.stops, base: base,
	}
	// The request is listed before Lock, since the node's own voter may promise the key at once.
	p.asked = append(p.asked, r)
	n, err := p.m.Lock(now, wish)
	if err != nil {
		p.asked = p.asked[:len(p.asked)-1]
		w.note(p.host, "is refused %q: %v", k.name, err)
		return nil
	}
	if n != r.Number {
		w.violate(checkNumbers, "%s numbers a request %d after %d", p.host.name, n, r.Number-1)
		return nil
	}
	p.requests[n] = r
	k.changed = w.now
	if r.base != nil {
		k.upgrading = r.Asked
	}
	k.mixed = k.mixed || r.Mode != vote.Exclusive || r.Ask.Delay > 0 || r.Ask.MinHold > 0 || r.Ask.Length > 0
	w.pic.asked(r)
	w.waiting++
	k.waits = append(k.waits, r)
	w.fig.Requests++
	w.mix(uint64(n)<<8 | uint64(k.i))
	if w.trace != nil {
		verb := "Lock"
		if a.Try {
			verb = "TryLock"
		}
		w.note(p.host, "%s(%q) is request %d%s", verb, k.name, n, r.manner())
	}
	return r
}

// release gives a lease back, or gives a waiting request up.
func (w *World) release(r *Request) {
	p := r.p
	switch r.State {
	case Waiting:
		w.unwait(r)
		w.fig.Abandoned++
	case Granted:
		r.given = w.believes(r)
		w.unhold(r)
	default:
		return
	}
	now := p.read(w.now)
	r.key.changed = w.now
	r.State, r.released, r.gaveBack, r.stops = Releasing, now.Fast, w.now, p.stops
	w.pic.ended(w, r, Released)
	w.note(p.host, "releases request %d", r.Number)
	p.m.Release(now, r.Number)
	w.settle(p)
}

// finish ends a request, and frees its client for the next.
func (w *World) finish(r *Request, s State) {
	w.hist.over(w, r, s)
	w.marksOfEnd(r, s)
	if r.State == Waiting {
		w.unwait(r)
	}
	r.State, r.Ended, r.behind = s, w.Now(), w.isBehind(r.p)
	if w.opt.Observe != nil {
		w.opt.Observe.Ended(r)
	}
	w.pic.ended(w, r, s)
	delete(r.p.requests, r.Number)
	r.key.changed = w.now
	if s != Crashed {
		w.turned(r)
	}
	if r.client >= 0 && s != Crashed && r.p.clients[r.client].r == r {
		c := &r.p.clients[r.client]
		c.r, c.due = nil, never
		if !c.once {
			w.plan(r.p, r.client, c.mean(w.opt.Load.Think))
		}
	}
}

// unwait removes a request from the waiting requests.
func (w *World) unwait(r *Request) {
	w.waiting--
	r.key.waits = slices.DeleteFunc(r.key.waits, func(o *Request) bool { return o == r })
}

// granted plans for how long a client holds its lease.
func (w *World) granted(r *Request) {
	if w.opt.Observe != nil {
		w.opt.Observe.Granted(r)
	}
	if r.client < 0 {
		if w.draining {
			w.At(5*time.Millisecond, func() { w.release(r) })
		}
		return
	}
	d := r.hold
	switch {
	case w.draining:
		d = w.soon(r, 10*time.Millisecond)
	case r.turn > 0 && r.turn < d:
		d = r.turn
		r.hold -= d
	default:
		r.turn = 0
	}
	w.plan(r.p, r.client, d)
}

// drain has clients make no more requests and give their leases back. Waiting clients keep waiting,
// however long.
func (w *World) drain() {
	w.draining = true
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		for _, k := range w.lockKeys {
			for _, r := range k.holds {
				if r.p == h.p && r.client < 0 {
					w.granted(r)
				}
			}
		}
		for i := range h.p.clients {
			switch r := h.p.clients[i].r; {
			case r == nil, r.State == Waiting:
				h.p.clients[i].due = never
			case r.State == Granted:
				w.plan(h.p, i, w.soon(r, 200*time.Millisecond))
			}
		}
	}
}

// soon draws when a client gives its lease back at the end. The draw depends on the request alone,
// so drawn requests and given ones (Load.Asks) behave the same.
func (w *World) soon(r *Request, most time.Duration) time.Duration {
	return within(rand.New(w.chance("soon", r.p.host.alias, r.p.host.lives, r.Number)), most)
}
