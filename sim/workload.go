package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Load says what the clients on each node want. All durations are means.
type Load struct {
	Clients  int // on each node; zero for none
	Keys     int // that they contend for
	Think    time.Duration
	Hold     time.Duration
	Patience time.Duration // after which a waiting client gives up
	Try      int           // percent of requests that are TryLocks
	Forever  int           // percent of requests that wait however long it takes
	Long     int           // percent of leases that are held ten times as long

	Kinds []Kind // what the keys are to their users, by place; all locks where it is empty
	Mix   Mix

	// Asks, if not nil, are the clients' requests, and none is drawn. [World.Asks] returns those of a run.
	Asks []Ask
}

// State is what has become of a request.
type State uint8

// A request goes from Waiting to Granted or an end, and from Granted to Lost or Released.
const (
	Waiting State = iota
	Granted
	Failed    // a TryLock lost, or the voters refuse
	Lost      // the lease's instant has passed
	Releasing // given back, and not confirmed yet
	Released
	Crashed // its process is dead
)

func (s State) String() string {
	return [...]string{"waiting", "granted", "failed", "lost", "releasing", "released", "crashed"}[s]
}

// Request is one wish for a key, as its client sees it.
type Request struct {
	Node   string
	Key    string
	Ask    Ask       // what was asked for
	Mode   vote.Mode // now: a writer may let others in beside it
	Slot   vote.Slot // of a permit
	Try    bool
	Number vote.Number
	State  State
	Token  vote.Token
	Wait   quorum.Wait // why it failed, or what its release lacks
	Asked  time.Duration
	Had    time.Duration // when it was granted
	Ended  time.Duration

	p        *process
	key      *lockKey
	seat     vote.Number // by which voters know its lease
	top      vote.Token  // the last of its run
	group    quorum.GroupID
	client   int          // of its process; -1 when a scenario has asked
	asked    vote.Instant // on the fast clock
	released vote.Instant
	stops    int           // of its process when it was asked or released
	hold     time.Duration // for how long its client wants it
	until    Moment        // when its cover ends in the world's time, guard included
	end      vote.Instant  // the same on its node's fast clock, without the guard
	over     vote.Instant  // when its node could know at the soonest that it ends
	endAt    Moment        // when end is, in the world's time
	gaveBack Moment
	expired  bool          // its lease ended before its release was confirmed
	given    bool          // back, while it was held
	turn     time.Duration // see Ask
	base     *Request      // which an upgrade is to take the place of
	up       *Request      // the upgrade that waits beside it
	fixed    vote.Instant  // the latest end of a lease that isn't extended
	shared   Moment        // when it let others in beside it
	overAt   Moment        // when nobody believed in it any more
	was      been
	era      int // of tokens; see lockKey.topped

	overtaken int // by how many younger requests
}

// load is the part of the world that wants locks.
type load struct {
	draining bool // nobody asks for anything new, and what is had is given back soon
	waiting  int  // requests that are waiting
	asks     []Ask
}

// client is one user on a node.
type client struct {
	r    *Request
	due  Moment // when it acts next
	plan uint32 // the plan that counts; events of earlier ones are void
	luck *rand.Rand
	once bool // it has come for one request
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

// mean draws a duration between nothing and twice the mean.
func (c *client) mean(d time.Duration) time.Duration { return within(c.luck, 2*d) }

func (c *client) percent(n int) bool { return c.luck.IntN(100) < n }

// plan has a client act in d, unless something happens to it before.
func (w *World) plan(p *process, i int, d time.Duration) {
	c := &p.clients[i]
	c.due = w.now.add(d) + 1
	c.plan++
	w.push(event{at: c.due, kind: eventClient, p: p, n: uint64(c.plan)<<32 | uint64(i)})
}

// act is a client's next step: ask, give up, or give back.
func (w *World) act(p *process, n uint64) {
	i := int(uint32(n))
	c := &p.clients[i]
	if c.plan != uint32(n>>32) || c.due > w.now {
		return // it has other plans by now
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
		if !w.draining { // enough of waiting for the others to go
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

// ask asks for a key, beside what is held of it if that is given; nil when the node is too busy. The caller settles.
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
	p.asked = append(p.asked, r) // before, as the node's own voter may promise it at once
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
	r.State, r.Ended = s, w.Now()
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

// unwait takes a request from those that wait.
func (w *World) unwait(r *Request) {
	w.waiting--
	r.key.waits = slices.DeleteFunc(r.key.waits, func(o *Request) bool { return o == r })
}

// granted plans how long a client holds.
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

// drain lets clients ask for nothing more and give back what they hold. Those that wait go on waiting, however long.
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

// soon draws when a client gives back at the end. It depends on the request alone, so it doesn't matter who has drawn that.
func (w *World) soon(r *Request, most time.Duration) time.Duration {
	return within(rand.New(w.chance("soon", r.p.host.alias, r.p.host.lives, r.Number)), most)
}
