package plan

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
)

// class is the purpose of a lock.
type class uint8

const (
	forProbe class = iota
	forLoad
	forPost
	classes
)

// world is one run of a scenario.
type world struct {
	*measures
	s         *Scenario
	w         *sim.World
	nodes     []*nodeState
	names     map[string]*nodeState
	processes map[vote.SessionID]*process
	load      []*key
	posts     []*key

	ready   bool // the nodes have come to rest, and events are counted
	holding int  // leases that are held
	up      int  // nodes that run
	since   time.Duration
}

// nodeState is one node, across its incarnations.
type nodeState struct {
	place
	i       int
	process *process // nil while the node is down
	safe    bool     // the node doesn't crash; for tests
	n       int      // incarnations so far

	// Each concern draws from a stream of its own, so that removing a concern leaves the others
	// unchanged.
	users   *rand.Rand
	crashes *rand.Rand
	stops   *rand.Rand
}

// process is one process: an incarnation of a node.
type process struct {
	node    *nodeState
	classes []class // of all requests, by number
	open    map[vote.Number]*request
	probes  *key
}

// key is a lock.
type key struct {
	name    string
	class   class
	waiting []*request
	gap     gap
	from    time.Duration // when the gap began
}

// gap is the reason why a contended key has no holder.
type gap uint8

const (
	noGap gap = iota
	gapRelease
	gapDeath
)

// request is one request.
type request struct {
	process   *process
	key       *key
	r         *sim.Request
	held      bool
	contested bool // the request took more than one round
	then      func()
	after     func()
}

// Streams of random numbers, besides the streams of sim.
const (
	streamClocks = 100 + iota
	streamParts
	streamUsers
	streamCrashes
	streamPauses
	streamOutages
)

func stream(seed, concern uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, concern<<32|uint64(i)))
}

// options converts a scenario to the options of a world.
func (s *Scenario) options(seed uint64) sim.Options {
	nodes := s.nodes()
	o := sim.Options{Seed: seed, MaxTTL: time.Duration(s.MaxTTL), LateMessages: true}
	clocks := stream(seed, streamClocks, 0)
	within := func(most int64) int64 { return clocks.Int64N(2*most+1) - most }
	for _, n := range nodes {
		if n.voter {
			o.Voters++
		} else {
			o.Clients++
		}
		o.Names = append(o.Names, n.name)
		o.TTL = append(o.TTL, time.Duration(s.TTL))
		o.Clocks.PPM = append(o.Clocks.PPM, within(int64(s.Clocks.PPM)))
		o.Clocks.Wall = append(o.Clocks.Wall, time.Duration(within(int64(s.Clocks.Wall))))
	}
	known := make(map[*Link]*delays)
	ways := make([]*delays, len(nodes)*len(nodes))
	for i, a := range nodes {
		for j, b := range nodes {
			if i == j {
				continue
			}
			l := s.way(a, b)
			if known[l] == nil {
				known[l] = newDelays(l)
				o.Net.Most = max(o.Net.Most, known[l].most())
			}
			ways[i*len(nodes)+j] = known[l]
		}
	}
	o.Net.Delay = func(from, to int, draw uint64) time.Duration { return ways[from*len(nodes)+to].of(draw) }
	return o
}

// newWorld starts a world and lets it come to rest: all nodes run, all voters count.
func newWorld(s *Scenario, seed uint64, alter func(*sim.Options)) *world {
	x := &world{s: s, measures: newMeasures(s), names: make(map[string]*nodeState), processes: make(map[vote.SessionID]*process)}
	for i, p := range s.nodes() {
		n := &nodeState{
			place: p, i: i, users: stream(seed, streamUsers, i), crashes: stream(seed, streamCrashes, i), stops: stream(seed, streamPauses, i),
		}
		x.nodes = append(x.nodes, n)
		x.names[n.name] = n
	}
	for i := range s.Load.Keys {
		x.load = append(x.load, &key{name: fmt.Sprintf("key-%d", i+1), class: forLoad})
	}
	for i := range s.Posts.Count {
		x.posts = append(x.posts, &key{name: fmt.Sprintf("post-%d", i+1), class: forPost})
	}
	o := s.options(seed)
	o.Observe = x
	if alter != nil {
		alter(&o)
	}
	x.w = sim.New(o)
	x.w.Script.Awake()
	x.ready, x.since = true, x.w.Now()
	for _, n := range x.nodes {
		x.keepTime(n, o.Clocks.PPM[n.i])
		x.begin(n)
		x.probing(n)
		x.crashing(n)
		x.pausing(n)
	}
	x.majority()
	x.parting(stream(seed, streamParts, 0))
	x.outages(seed)
	return x
}

// pass accounts for the time since the last change, before a change.
func (x *world) pass() {
	d := x.w.Now() - x.since
	x.since += d
	x.heldFor += time.Duration(x.holding) * d
	x.upFor += time.Duration(x.up) * d
}

// begin records a new incarnation of a node, and starts its users.
func (x *world) begin(n *nodeState) {
	x.pass()
	x.up++
	// A residual vote of a crashed incarnation's probe may stand for a TTL, so the next incarnation
	// has a key of its own.
	l := &process{node: n, open: make(map[vote.Number]*request), probes: &key{name: fmt.Sprintf("probe/%s/%d", n.name, n.n%3), class: forProbe}}
	l.classes = append(l.classes, 0) // numbers begin with 1
	n.n++
	n.process = l
	x.processes[x.w.Session(n.name)] = l
	if !n.locks {
		return
	}
	for range x.s.Load.Clients {
		x.think(l)
	}
	for i, k := range x.posts {
		if x.stands(n, i) {
			x.w.AtNode(n.name, x.exp(n.users, standWithin), func() { x.stand(l, k) })
		}
	}
}

// stands reports whether a node is a candidate for a post.
func (x *world) stands(n *nodeState, post int) bool {
	var locking, at int
	for _, o := range x.nodes {
		if o.locks {
			if o == n {
				at = locking
			}
			locking++
		}
	}
	first := post % locking
	return (at-first+locking)%locking < candidates
}

// exp draws from the exponential distribution, in whole microseconds.
func (x *world) exp(r *rand.Rand, mean Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean)).Round(time.Microsecond)
}

// lock requests a key on behalf of a running process. It calls then when the lease is granted, and
// after when the request fails or the lease is lost.
func (x *world) lock(l *process, k *key, then, after func()) *request {
	i := &request{process: l, key: k, then: then, after: after}
	k.waiting = append(k.waiting, i)
	l.classes = append(l.classes, k.class)
	l.open[vote.Number(len(l.classes)-1)] = i
	i.r = x.w.Script.Lock(l.node.name, k.name)
	return i
}

// release releases a lease, or gives a request up.
func (x *world) release(i *request) {
	if i.held {
		x.unhold(i)
		if k := i.key; k.class == forPost && len(k.waiting) > 0 {
			k.gap, k.from = gapRelease, x.w.Now()
		}
	}
	x.unwait(i)
	i.after = nil
	x.w.Script.Release(i.r)
}

func (x *world) unhold(i *request) {
	x.pass()
	x.holding--
	i.held = false
}

func (x *world) unwait(i *request) {
	k := i.key
	for n, o := range k.waiting {
		if o == i {
			k.waiting = append(k.waiting[:n], k.waiting[n+1:]...)
			break
		}
	}
	if len(k.waiting) == 0 {
		k.gap = noGap
	}
}

// Granted implements sim.Observer.
func (x *world) Granted(r *sim.Request) {
	i := x.names[r.Node].process.open[r.Number]
	i.r = r
	x.pass()
	x.holding++
	i.held = true
	k := i.key
	g := k.gap
	x.unwait(i)
	k.gap = noGap
	c := &x.of[k.class]
	c.grants++
	if !i.contested {
		c.oneRound++
	}
	switch g {
	case gapRelease:
		x.handOver = append(x.handOver, x.w.Now()-k.from)
	case gapDeath:
		x.takeOver = append(x.takeOver, x.w.Now()-k.from)
	}
	i.then()
}

// Ended implements sim.Observer.
func (x *world) Ended(r *sim.Request) {
	l := x.names[r.Node].process
	i := l.open[r.Number]
	delete(l.open, r.Number)
	x.unwait(i)
	if i.held {
		x.unhold(i)
		switch r.State {
		case sim.Crashed:
			if k := i.key; k.class == forPost && len(k.waiting) > 0 {
				k.gap, k.from = gapDeath, x.w.Now()
			}
		case sim.Lost:
			x.lost++
		}
	}
	if i.after != nil && r.State != sim.Crashed {
		i.after()
	}
}

// Sent implements sim.Observer.
func (x *world) Sent(from, to vote.SessionID, m *vote.Message, between bool) {
	asker := to
	switch m.Kind {
	case vote.KindRequest, vote.KindConfirm, vote.KindYield, vote.KindRelease, vote.KindDowngrade, vote.KindSetValue, vote.KindRevokeForRequest:
		asker = from
	case vote.KindPromise, vote.KindConfirmed, vote.KindInquire, vote.KindHeld, vote.KindReleased, vote.KindBusy, vote.KindPermitsDiffer, vote.KindClash,
		vote.KindLapsed, vote.KindValueStored, vote.KindContended:
	case vote.KindQuery, vote.KindWatch, vote.KindRevoke, vote.KindQueryResult, vote.KindEvents, vote.KindRevokeForwarded:
		return // these are about keys, and belong to no lock
	default: // upkeep of sessions, and of leases with a length of their own
		if between && x.ready {
			x.upkeep++
		}
		return
	}
	l := x.processes[asker]
	if l == nil || int(m.Number) >= len(l.classes) {
		return
	}
	c := &x.of[l.classes[m.Number]]
	if between {
		c.messages++
	}
	switch i := l.open[m.Number]; {
	case i == nil:
	case m.Kind == vote.KindConfirm && !m.Won:
		i.contested = true
	case m.Kind == vote.KindYield:
		c.yields++
	case m.Kind == vote.KindInquire:
		for _, o := range i.key.waiting {
			o.contested = true
		}
	}
}
