package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/fault"
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
type State = check.State

// The states of a request; see [check.State].
const (
	Waiting   = check.Waiting
	Granted   = check.Granted
	Failed    = check.Failed
	Lost      = check.Lost
	Releasing = check.Releasing
	Released  = check.Released
	Crashed   = check.Crashed
)

// Request is a client's request for a key, as the client sees it.
type Request struct {
	check.Lease
	Ask  Ask         // the request as made
	Wait quorum.Wait // why the request failed, or wasn't confirmed as released

	p        *process
	key      *lockKey
	group    quorum.GroupID
	client   int          // index in its process; -1 for a scenario's request
	asked    vote.Instant // on the fast clock
	released vote.Instant
	stops    int           // its process's count of stops at the request or release
	hold     time.Duration // for how long its client wants the lease
	until    Moment        // when its validity ends in the world's time, with the margin
	end      vote.Instant  // the same on its node's fast clock, without the margin
	over     vote.Instant  // the earliest instant at which its node could know of the end
	behind   bool          // its node didn't know the newest electorate at the end
	turn     time.Duration // see Ask.Turn
	base     *Request      // for an upgrade: the shared lease to replace
	up       *Request      // the upgrade that waits beside this lease
	fixed    vote.Instant  // the latest end of a fixed lease
	shared   Moment        // when the lease was downgraded to shared
	overAt   Moment        // when the lease was over, if the key was still kept from others
	was      been
	// set is the version of the newest value that the node has given the lease, and noted the
	// newest version that a majority has confirmed.
	set, noted uint64

	overtaken int // by how many younger requests
}

// load is the part of the world that requests locks.
type load struct {
	w *World
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
	rng  *rand.Rand
	once bool // it makes a single request
}

func (ld *load) setUpLoad() {
	l := &ld.w.opt.Load
	l.Keys = max(l.Keys, 1)
	for i := range l.Keys {
		ld.w.judge.keyOf(vote.Key(fmt.Sprintf("key-%d", i)))
	}
	ld.setUpAsks()
}

func (ld *load) startClients(p *process) {
	if ld.draining || ld.w.opt.Load.Asks != nil {
		return
	}
	p.clients = make([]client, ld.w.opt.Load.Clients)
	for i := range p.clients {
		c := &p.clients[i]
		c.rng = rand.New(ld.w.chance("client", p.host.alias, p.host.starts, i))
		ld.plan(p, i, c.mean(ld.w.opt.Load.Think))
	}
}

// mean draws a duration between zero and twice the mean.
func (c *client) mean(d time.Duration) time.Duration { return fault.Within(c.rng, 2*d) }

func (c *client) percent(n int) bool { return c.rng.IntN(100) < n }

// plan has a client act after d, unless something happens to the client before.
func (ld *load) plan(p *process, i int, d time.Duration) {
	c := &p.clients[i]
	c.due = ld.w.now.Add(d) + 1
	c.plan++
	ld.w.push(event{at: c.due, kind: eventClient, p: p, n: uint64(c.plan)<<32 | uint64(i)})
}

// act takes a client's next step: to ask, to give up, or to give back.
func (ld *load) act(p *process, n uint64) {
	i := int(uint32(n))
	c := &p.clients[i]
	if c.plan != uint32(n>>32) || c.due > ld.w.now {
		return // another plan is valid by now
	}
	l := &ld.w.opt.Load
	switch r := c.r; {
	case r == nil:
		if ld.draining {
			return
		}
		k := ld.w.judge.lockKeys[c.rng.IntN(l.Keys)]
		a := Ask{At: time.Duration(c.due), Node: p.host.alias, Key: string(k.name), Try: c.percent(l.Try), Hold: c.mean(l.Hold)}
		if c.percent(l.Long) {
			a.Hold *= 10
		}
		if !c.percent(l.Forever) {
			a.Patience = c.mean(l.Patience) + 1
		}
		ld.drawKind(p.host, c, k, &a)
		if !ld.want(p, i, a) {
			ld.plan(p, i, c.mean(l.Think))
		}
	case r.State == Waiting && ld.draining:
	case r.up != nil && r.up.State == Waiting:
		if !ld.draining { // the client gives its upgrade up, after waiting for others to go
			ld.plan(p, i, r.hold)
			ld.release(r.up)
		}
	case r.State == Granted && r.turn > 0 && !ld.draining:
		r.turn = 0
		ld.turns(r)
	case r.State == Waiting || r.State == Granted:
		ld.release(r)
	}
}

// ask requests a key, as an upgrade of base if base isn't nil. It returns nil if the node refuses
// the request. The caller must call settle.
func (ld *load) ask(p *process, a Ask, base *Request) *Request {
	now := p.read(ld.w.now)
	k := ld.w.judge.keyOf(vote.Key(a.Key))
	beside := vote.Number(0)
	if base != nil {
		beside = base.Number
	}
	spec := a.spec(beside)
	r := &Request{
		Lease: check.Lease{
			Node: p.host.alias, Key: a.Key, Mode: spec.Mode, Try: a.Try, Number: vote.Number(len(p.asked)), Asked: ld.w.Now(), Owner: p.id, Host: p.host.i,
			Permits: a.Permits, Delay: a.Delay, MinHold: a.MinHold, Length: a.Length,
		},
		Ask: a, p: p, key: k, client: -1, asked: now.Fast, stops: p.stops, base: base,
	}
	if base != nil {
		r.Base = &base.Lease
	}
	// The request is listed before Lock, since the node's own voter may promise the key at once.
	if r.Ask.Value {
		r.set = 1
	}
	p.asked = append(p.asked, r)
	n, err := p.m.Lock(now, spec)
	if err != nil {
		p.asked = p.asked[:len(p.asked)-1]
		ld.w.note(p.host, "is refused %q: %v", k.name, err)
		return nil
	}
	if n != r.Number {
		ld.w.judge.violate(checkNumbers, "%s numbers a request %d after %d", p.host.name, n, r.Number-1)
		return nil
	}
	p.requests[n] = r
	k.changed = ld.w.now
	if r.base != nil {
		k.upgrading = r.Asked
	}
	k.mixed = k.mixed || r.Mode != vote.Exclusive || r.Ask.Delay > 0 || r.Ask.MinHold > 0 || r.Ask.Length > 0
	ld.w.pic.Asked(ld.w.Now(), r.p.host.i, r.pictured(), r.Key)
	ld.waiting++
	k.waits = append(k.waits, r)
	ld.w.fig.Requests++
	ld.w.mix(uint64(n)<<8 | uint64(k.i))
	if ld.w.trace != nil {
		verb := "Lock"
		if a.Try {
			verb = "TryLock"
		}
		ld.w.note(p.host, "%s(%q) is request %d%s", verb, k.name, n, r.manner())
	}
	return r
}

// release gives a lease back, or gives a waiting request up.
func (ld *load) release(r *Request) {
	p := r.p
	switch r.State {
	case Waiting:
		// The shell asks why as it gives a call up, and tells the caller.
		ld.w.refusals.checkGivenUp(r, p.m.PendingReason(p.read(ld.w.now), r.Number))
		ld.unwait(r)
		ld.w.fig.Abandoned++
	case Granted:
		r.Given = ld.w.judge.believes(r)
		ld.w.judge.unhold(r)
	default:
		return
	}
	now := p.read(ld.w.now)
	r.key.changed = ld.w.now
	r.State, r.released, r.GaveBack, r.stops = Releasing, now.Fast, ld.w.now, p.stops
	ld.w.picturesEnd(r, Released)
	ld.w.note(p.host, "releases request %d", r.Number)
	p.m.Release(now, r.Number)
	ld.w.settle(p)
}

// finish ends a request, and frees its client for the next.
func (ld *load) finish(r *Request, s State) {
	r.Confirmed = s == Released && r.Wait.Reason == quorum.WaitNone && !r.Expired
	ld.w.histories.over(r, s)
	ld.w.marks.marksOfEnd(r, s)
	if r.State == Waiting {
		ld.unwait(r)
	}
	r.State, r.Ended, r.behind = s, ld.w.Now(), ld.w.histories.isBehind(r.p)
	if ld.w.opt.Observe != nil {
		ld.w.opt.Observe.Ended(r)
	}
	ld.w.picturesEnd(r, s)
	delete(r.p.requests, r.Number)
	r.key.changed = ld.w.now
	if s != Crashed {
		ld.turned(r)
	}
	if r.client >= 0 && s != Crashed && r.p.clients[r.client].r == r {
		c := &r.p.clients[r.client]
		c.r, c.due = nil, never
		if !c.once {
			ld.plan(r.p, r.client, c.mean(ld.w.opt.Load.Think))
		}
	}
}

// unwait removes a request from the waiting requests.
func (ld *load) unwait(r *Request) {
	ld.waiting--
	r.key.waits = slices.DeleteFunc(r.key.waits, func(o *Request) bool { return o == r })
}

// granted plans for how long a client holds its lease.
func (ld *load) granted(r *Request) {
	if ld.w.opt.Observe != nil {
		ld.w.opt.Observe.Granted(r)
	}
	if r.client < 0 {
		if ld.draining {
			ld.w.At(5*time.Millisecond, func() { ld.release(r) })
		}
		return
	}
	d := r.hold
	switch {
	case ld.draining:
		d = ld.soon(r, 10*time.Millisecond)
	case r.turn > 0 && r.turn < d:
		d = r.turn
		r.hold -= d
	default:
		r.turn = 0
	}
	ld.plan(r.p, r.client, d)
}

// drain has clients make no more requests and give their leases back. Waiting clients keep waiting,
// however long.
func (ld *load) drain() {
	ld.draining = true
	for _, h := range ld.w.hosts {
		if h.p == nil {
			continue
		}
		for _, k := range ld.w.judge.lockKeys {
			for _, r := range k.holds {
				if r.p == h.p && r.client < 0 {
					ld.granted(r)
				}
			}
		}
		for i := range h.p.clients {
			switch r := h.p.clients[i].r; {
			case r == nil, r.State == Waiting:
				h.p.clients[i].due = never
			case r.State == Granted:
				ld.plan(h.p, i, ld.soon(r, 200*time.Millisecond))
			}
		}
	}
}

// soon draws when a client gives its lease back at the end. The draw depends on the request alone,
// so drawn requests and given ones (Load.Asks) behave the same.
func (ld *load) soon(r *Request, most time.Duration) time.Duration {
	return fault.Within(rand.New(ld.w.chance("soon", r.p.host.alias, r.p.host.starts, r.Number)), most)
}
