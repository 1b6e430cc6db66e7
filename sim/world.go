package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/fault"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// Options describe a world. [Draw] draws them from a seed; a scenario writes its own.
type Options struct {
	Seed    uint64
	Voters  int             // nodes that vote and lock, named a, b, c…; 3 by default
	Clients int             // nodes that only lock, named x1, x2…
	Names   []string        // names of the nodes, voters first, in place of the above
	MaxTTL  time.Duration   // default 2 s
	TTL     []time.Duration // session TTL of each node, voters first; MaxTTL if missing or zero

	Net    Net
	Clocks Clocks
	Load   Load
	Faults Faults

	// Acts, if not nil, are the faults of the run, and none is drawn. [World.Acts] returns the
	// faults of a run, which replay the run exactly.
	Acts []Act

	// TokensOnly is for runs beyond the assumptions of exclusion (clock rates beyond the bound,
	// pauses that no clock shows). In place of exclusion and the checks that depend on exclusion,
	// only rising tokens are demanded.
	TokensOnly bool

	// Unjudged leaves out the checks after each event, which take longer the more keys there are,
	// and doesn't track when leases end: believes looks the end up. Unjudged is for worlds without
	// faults, with so many leases that the checks would take hours (sim/cmd/lockmesh-cost).
	Unjudged bool

	// Dynamic, if not nil, makes membership dynamic: the electorate follows the members.
	Dynamic *Dynamic

	// Counted, if not nil, makes the mesh one that is born by count.
	ByCount *ByCount

	// Lists, if not nil, gives nodes voter lists of their own.
	Lists *Lists

	// Convert, if not nil, has nodes converted from a fixed list to dynamic membership.
	Convert *Convert

	// NoLocalQueue has nodes send each request to the voters and hand off no lease among their
	// callers, for comparison.
	NoLocalQueue bool

	// InspectEvery is the mean time between two inspections by each process; zero for no
	// inspections.
	InspectEvery time.Duration

	// Watches has each process watch all keys.
	Watches bool

	// Coalesce is how long a message for which no node waits stays in its sender's queue, to travel
	// with other messages; zero sends every message at once.
	Coalesce time.Duration

	// Turn is how much work a node's requester does in a Tick on syncs and answers that it makes
	// and takes in in pieces; zero means as much as in production, where no sync of a world is as
	// long.
	Turn int

	// History records all calls and returns. Settle then searches for an order of the calls that
	// explains each result.
	History bool

	Build Builder   // Genuine by default
	Trace io.Writer // receives a line for each event; may be nil

	// LateMessages is for runs with messages that may take longer than a voter waits for an old
	// incarnation's answer: see [World.mayBeLate].
	LateMessages bool

	// Observe, if set, is notified of events.
	Observe Observer

	// Picture, if set, records the run for [World.WritePicture].
	Picture *timeline.Recording
}

// Clocks say how wrong the hosts' clocks are at the start.
type Clocks struct {
	// PPM has the rate errors by host, in parts per million; drawn within the bound where missing.
	PPM  []int64
	Wall []time.Duration // offsets of the wall clocks; drawn within Spread where missing
	// Spread is how far apart wall clocks may be.
	Spread time.Duration
	// Exact makes all rates and wall clocks right unless PPM or Wall sets them.
	Exact bool
}

// World is a single run. See the package's documentation.
type World struct {
	opt    Options
	now    Moment
	queue  queue
	hosts  []*host
	voters []vote.NodeID
	quorum int

	// The parts. Each owns its fields and knows the world.
	net           network
	load          load
	faults        faults
	dynamic       dynamicWorld
	population    population
	misconfigured misconfigured
	registry      registry
	nemesis       nemesis
	// Script is the hand of a scenario's author.
	Script     scenario
	judge      judge
	exclusion  exclusionCheck
	tokens     tokenCheck
	validity   validityCheck
	promises   promiseCheck
	digests    digestCheck
	refusals   refusalCheck
	idle       idleCheck
	histories  histories
	order      serviceOrder
	resources  resources
	inspectors inspectors
	watchers   watchers
	marks      marker
	lists      *lists
	maxTTLs    maxTTLs
	conversion conversion

	trace  *tracer
	pic    *timeline.Recording // nil without a picture
	hash   uint64
	fig    Figures
	failed *Violation

	out []vote.Outbound
	ev  []quorum.Event
}

// host is a machine with a name. Its processes run one after the other, each a new incarnation.
type host struct {
	i          int
	name       vote.NodeID
	alias      string // name in scenarios; differs from name for duplicates
	nth        int    // how many earlier duplicates have the same alias
	voter      bool
	ttl        time.Duration
	least      time.Duration // no voter of the world ever grants less, if asked for as much
	clock      clock         // the machine's; the running process has a copy with other offsets
	p          *process
	starts     int
	duplicated bool           // another host has the same name
	retired    bool           // no process is started on the host any more
	residuals  []residualVote // votes of earlier incarnations that still bind
	hung       pause          // what keeps the process from running
	disk       disk
	slowDisk   time.Duration // extra time of each save, besides the disk's own

	ambush *ambush // nil as a rule

	foremost vote.Micros // highest reading of the wall clock before its steps

	rng *rand.Rand // random generator of the machine's timers and connections
}

// process is an incarnation of a node.
type process struct {
	host    *host
	id      vote.SessionID
	stage   Stage // of a conversion
	m       Machine
	clock   clock
	started vote.Instant // on its slow clock
	dead    bool
	dir     vote.Dir
	voter   *lease.Voter  // in a mesh born by count; a rebirth replaces the voter
	voters  []vote.NodeID // its list of voters
	maxTTL  time.Duration
	ttl     time.Duration // of its sessions, as asked for
	fresh   bool          // its directory was made for this process
	quiet   time.Duration // how long its voter is quiet after the start, unless fresh
	knew    uint64
	birth   vote.Birth
	met     map[vote.NodeID]vote.Standing // of a misconfigured process: the processes of the mesh that it has met
	gossip  []gossipView

	savingSince Moment  // start of the save under way plus 1 ns; zero: no save
	saveFailed  Moment  // when a save last failed
	backlog     []event // inputs that came while the process was stopped
	stops       int     // how often the process was stopped or resumed
	woke        Moment  // when the process last resumed

	conns []connection // by vote.Conn
	dials []dial       // by place in World.voters
	tick  Moment       // when the next tick is due; never if none is

	requests    map[vote.Number]*Request
	asked       []*Request // by number, with ended requests
	groups      map[quorum.GroupID]vote.Instant
	runs        map[vote.Number]vote.Token // last token of each lease's block, by alias
	promises    *check.Promises
	clients     []client
	inspections *inspections
	watch       *watching
	forgot      bool   // a message came about a forgotten request; see digestCheck
	resorts     uint64 // tokens taken from the clock, as last seen
}

type eventKind uint8

const (
	eventNone           eventKind = iota
	eventRun                      // f
	eventTick                     // p
	eventArrive                   // l, side (sender), lane: the front frame reaches the other machine
	eventRead                     // the same for a frame that arrived while the process was stopped
	eventLearn                    // l, side: this end learns that the connection is gone
	eventDial                     // p, n: a voter is to be dialed
	eventSyn                      // l: a dial reaches the voter's machine
	eventUp                       // p, l: the voter's answer to a dial
	eventDialFail                 // p, l
	eventDialTimeout              // p, l
	eventClient                   // p, n (plan and client number): a client carries out its plan
	eventAsk                      // p, n: a client makes request n of Load.Asks
	eventCoalescingEnds           // p (sender), l, side, n (flushes): a queue of delayed messages is due
)

// event is a future event. An event with p is lost when the process crashes, and waits while the
// process is stopped.
type event struct {
	at   Moment
	kind eventKind
	side uint8
	lane uint8
	n    uint64
	p    *process
	l    *link
	f    func()
}

// New makes a world and starts its nodes.
func New(opt Options) *World {
	if opt.Voters == 0 {
		opt.Voters = 3
	}
	if opt.MaxTTL == 0 {
		opt.MaxTTL = 2 * time.Second
	}
	if opt.Build == nil {
		opt.Build = Genuine
	}
	w := &World{opt: opt, quorum: opt.Voters/2 + 1}
	w.net.w, w.load.w, w.faults.w, w.dynamic.w, w.nemesis.w, w.Script.w = w, w, w, w, w, w
	w.judge.w, w.histories.w, w.order.w, w.resources.w = w, w, w, w
	w.exclusion.w, w.tokens.w, w.validity.w, w.promises.w = w, w, w, w
	w.digests.w, w.refusals.w, w.idle.w = w, w, w
	w.inspectors.w, w.watchers.w, w.marks.w, w.population.w = w, w, w, w
	w.misconfigured.w = w
	w.registry.w, w.maxTTLs.w, w.conversion.w = w, w, w
	if opt.Trace != nil {
		w.trace = &tracer{w: opt.Trace}
	}
	w.pic = opt.Picture
	for i, name := range opt.NodeNames() {
		h := &host{i: i, name: vote.NodeID(name), alias: name, voter: i < opt.Voters, ttl: opt.MaxTTL, least: opt.leastTTL()}
		if h.voter || opt.Dynamic != nil || opt.Lists != nil {
			w.voters = append(w.voters, h.name)
		}
		h.rng = rand.New(w.chance("host", name))
		if i < len(opt.TTL) && opt.TTL[i] != 0 {
			h.ttl = opt.TTL[i]
		}
		h.clock = opt.Clocks.draw(rand.New(w.chance("clock", name)), i)
		w.hosts = append(w.hosts, h)
		w.pic.Host(h.i, h.alias, h.voter)
	}
	w.net.setUpNetwork()
	w.judge.setUp()
	w.load.setUpLoad()
	w.dynamic.setUp()
	w.maxTTLs.setUpMaxTTLs()
	w.faults.wanted = make(map[*host]bool)
	w.setUpLists()
	w.conversion.setUpConversion()
	w.nemesis.disturbFounding()
	for _, h := range w.hosts {
		switch late := w.dynamic.lateness(h); {
		case w.dynamic.isAbsent(h) || w.population.waitsFirst(h):
		case late > 0:
			w.faults.bringBack(h, late)
		default:
			w.start(h)
		}
	}
	w.faults.setUpFaults()
	return w
}

// NodeNames returns the nodes' names, voters first.
func (o *Options) NodeNames() []string {
	names := make([]string, 0, o.Voters+o.Clients)
	for i := range o.Voters + o.Clients {
		switch {
		case i < len(o.Names):
			names = append(names, o.Names[i])
		case i < o.Voters:
			names = append(names, string(rune('a'+i)))
		default:
			names = append(names, fmt.Sprintf("x%d", i-o.Voters+1))
		}
	}
	return names
}

func (c *Clocks) draw(r *rand.Rand, i int) clock {
	k := clock{wall: epoch}
	ppm, off := r.Int64N(3*MaxPPM)-3*MaxPPM/2, r.Int64N(int64(c.Spread)+1)-int64(c.Spread)/2
	if !c.Exact {
		k.ppm = min(max(ppm, -MaxPPM), MaxPPM) // a third of all clocks run at the very bound
		k.wall += off
	}
	if i < len(c.PPM) {
		k.ppm = c.PPM[i]
	}
	if i < len(c.Wall) {
		k.wall = epoch + int64(c.Wall[i])
	}
	return k
}

// start begins a new incarnation on a host.
func (w *World) start(h *host) {
	if h.p != nil || !w.population.hasRoom(h) {
		return
	}
	h.clock.rebase(w.now)
	rng := rand.New(w.chance("life", h.alias, h.nth, h.starts))
	p := &process{
		host: h, id: vote.SessionID{Node: h.name, Incarnation: vote.Incarnation(rng.Uint64() | 1)}, clock: h.clock,
		conns: make([]connection, 1, 16), dials: make([]dial, len(w.voters)), tick: never,
		requests: make(map[vote.Number]*Request), asked: make([]*Request, 1), groups: make(map[quorum.GroupID]vote.Instant),
		runs: make(map[vote.Number]vote.Token), stage: w.conversion.stageOf(h),
	}
	p.clock.frozen, p.clock.suspended = false, false
	p.clock.fast = vote.Instant(rng.Int64N(1e15))
	p.clock.slow = vote.Instant(rng.Int64N(1e15))
	p.started = p.clock.slowAt(w.now)
	p.promises = check.NewPromises(h.alias, w.judge.violate)
	h.p = p
	h.starts++
	if h.starts > 1 {
		w.fig.Restarts++
	}
	w.judge.bySession[p.id] = p
	p.quiet = w.opt.MaxTTL
	cfg := node.Config{
		Name: h.name, Incarnation: p.id.Incarnation, Voters: w.voters, TTL: min(h.ttl, w.maxTTLs.configuredTTL(h)), MaxTTL: w.maxTTLs.configuredTTL(h), NoLocalQueue: w.opt.NoLocalQueue, Dynamic: w.dynamic.configOf(h), Turn: w.opt.Turn,
	}
	if w.opt.Dynamic != nil {
		cfg.Voters, p.gossip = w.voters[:w.opt.Voters], make([]gossipView, len(w.hosts))
		w.dynamic.left[h] = false
	}
	if w.lists != nil {
		cfg.Voters = w.lists.of[h]
	}
	cfg.Dynamic = w.conversion.convertConfig(h, cfg.Dynamic, cfg.Voters)
	if f := cfg.Dynamic; f != nil {
		p.quiet = f.State.Electorate.QuietTime(cfg.MaxTTL)
		p.dir, p.fresh = f.State.Dir, f.Fresh
	}
	switch c := w.opt.ByCount; {
	case w.misconfigured.is(h):
		cfg.Voters, cfg.Dynamic, p.met = []vote.NodeID{h.name}, nil, make(map[vote.NodeID]vote.Standing)
	case c != nil:
		cfg.Voters, cfg.Birth = nil, vote.Birth{Expect: c.Expect, MinVoters: c.leastVoters()}
		cfg.Dynamic.RegisterTerm, cfg.Dynamic.MayFound = c.Register, h.voter
	}
	if w.lists != nil {
		h.ttl = w.lists.most[h] // sessions last as long as this process allows
		cfg.Voters, cfg.MaxTTL, cfg.TTL = w.lists.of[h], w.lists.most[h], h.ttl
	}
	p.voters, p.maxTTL, p.ttl, p.birth = cfg.Voters, cfg.MaxTTL, cfg.TTL, cfg.Birth
	m, err := w.opt.Build(w, cfg, p.read(w.now))
	if err != nil {
		panic(fmt.Sprintf("sim: a node can't be built: %v", err))
	}
	p.m = m
	m.Tap(func(c vote.Conn, m *vote.Message) {
		w.observeLocal(p, c, m)
		w.promises.tapped(p, c, m)
	})
	w.order.disturb()
	w.marks.marksOfStart(h)
	w.note(h, "starts as %v", p.id)
	w.pic.Started(w.Now(), h.i, p.id.String())
	w.picturesQuiet(p)
	w.settle(p)
	if w.opt.Dynamic != nil {
		w.dynamic.updateGossip(p)
	}
	if w.lists != nil || w.misconfigured.mayExist() {
		w.meetsAll(p)
	} else {
		w.conversion.started(p)
	}
	for v, name := range w.voters {
		if name != h.name && w.opt.Dynamic == nil && w.listed(p, v) {
			w.push(event{at: w.now.Add(fault.Within(h.rng, 20*time.Millisecond)), kind: eventDial, p: p, n: uint64(v)})
		}
	}
	if w.misconfigured.is(h) {
		return
	}
	w.load.startClients(p)
	w.inspectors.startInspecting(p)
	w.watchers.startWatching(p)
}

// read returns what the process reads on its clocks.
func (p *process) read(g Moment) vote.Now { return p.clock.at(g) }

func (w *World) push(e event) { w.queue.push(e) }

// At has f called after d.
func (w *World) At(d time.Duration, f func()) { w.push(event{at: w.now.Add(d), kind: eventRun, f: f}) }

// Now returns how long the world has lasted.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// Err returns the first violation, or nil.
func (w *World) Err() error {
	if w.failed == nil {
		return nil
	}
	return w.failed
}

// Violation returns the first violation, or nil.
func (w *World) Violation() *Violation { return w.failed }

// Options returns the world's options, with defaults filled in.
func (w *World) Options() Options { return w.opt }

// DrawnClocks returns how wrong the hosts' clocks were at the start, with all draws made.
func (w *World) DrawnClocks() (c Clocks) {
	for i, name := range w.opt.NodeNames() {
		k := w.opt.Clocks.draw(rand.New(w.chance("clock", name)), i)
		c.PPM, c.Wall = append(c.PPM, k.ppm), append(c.Wall, time.Duration(k.wall-epoch))
	}
	return c
}

// Hash returns a digest of all events so far. Equal options give equal digests.
func (w *World) Hash() uint64 { return w.hash }

// Run lets d pass, or less if a check is violated.
func (w *World) Run(d time.Duration) {
	w.run(w.now.Add(d), nil)
}

// RunUntil lets at most d pass until the condition holds. It reports whether the condition holds.
func (w *World) RunUntil(d time.Duration, holds func() bool) bool {
	if holds() {
		return true
	}
	return w.run(w.now.Add(d), holds)
}

// run works through the queue until end. A panic of a node is a violation like any other.
func (w *World) run(end Moment, holds func() bool) (held bool) {
	defer func() {
		if r := recover(); r != nil {
			if w.failed != nil {
				panic(r)
			}
			w.judge.violate(checkPanic, "%v\n%s", r, debug.Stack())
		}
	}()
	for w.failed == nil && w.queue.next() <= end {
		w.step(w.queue.pop())
		if holds != nil && holds() {
			return true
		}
	}
	if w.failed == nil {
		w.now = max(w.now, end)
	}
	return false
}

// step makes one event happen.
func (w *World) step(e event) {
	w.now = e.at
	w.fig.Events++
	w.mix(uint64(e.at)<<4 | uint64(e.kind))
	if p := e.p; p != nil {
		if p.dead {
			return
		}
		if p.host.hung != pauseNone {
			if e.kind == eventArrive {
				if w.net.hang(e.l, e.side, e.lane) {
					return
				}
				e.kind = eventRead
			}
			p.backlog = append(p.backlog, e)
			return
		}
	}
	switch e.kind {
	case eventRun:
		e.f()
	case eventTick:
		w.tick(e)
	case eventArrive:
		if !w.net.hang(e.l, e.side, e.lane) {
			w.net.receive(e.l, e.side, e.lane)
		}
	case eventRead:
		w.net.receive(e.l, e.side, e.lane)
	case eventLearn:
		w.net.learn(e.l, e.side)
	case eventDial:
		w.net.dial(e.p, int(e.n))
	case eventSyn:
		w.net.accept(e)
	case eventUp:
		w.net.up(e.p, e.l)
	case eventDialFail:
		w.net.dialFailed(e.p, e.l, dialTexts[e.n])
	case eventDialTimeout:
		w.net.dialFailed(e.p, e.l, "no answer")
	case eventClient:
		w.load.act(e.p, e.n)
	case eventAsk:
		w.load.askOnce(e.p, int(e.n))
	case eventCoalescingEnds:
		w.net.coalescingEnds(e.l, e.side, e.n)
	}
}

// maxLate is how late a timer fires at most while the process runs. Even the margin of the least
// TTL is longer.
const maxLate = time.Millisecond

// longest is how long a process sleeps at most: more than any run needs, and far from an overflow.
const longest = time.Hour

// arm makes sure that the process ticks when it wants to.
func (w *World) arm(p *process) {
	d := min(max(p.m.Next(p.read(w.now)), 0), longest)
	due := w.now + p.clock.duration(int64(d))
	if p.tick >= due && p.tick <= due.Add(maxLate) {
		return
	}
	p.tick = due.Add(fault.Within(p.host.rng, maxLate)) + 1
	w.push(event{at: p.tick, kind: eventTick, p: p})
}

func (w *World) tick(e event) {
	if p := e.p; p.tick == e.at || p.tick < w.now {
		p.tick = never
		p.m.Tick(p.read(w.now))
		w.settle(p)
	}
}

// settle takes a process's messages and events after an input, and checks the world. The process's
// reaction to a connection that it closes belongs to the same output: in production, the close
// comes in by the mailbox, and the reaction is handed out at once.
func (w *World) settle(p *process) {
	w.population.renews(p)
	w.misconfigured.check(p)
	w.tokens.resorted(p)
	for more := true; more; {
		for w.drain(p) {
		}
		more = w.opt.Dynamic != nil && w.dynamic.takeOutputs(p)
	}
	w.arm(p)
	w.picturesQuiet(p)
	w.digests.checkDigests(p)
	w.judge.check(p)
}

// drain takes a process's messages and events. It reports whether there may be more, because the
// process has closed a connection, or its watch has sent a query.
func (w *World) drain(p *process) bool {
	w.out, w.ev = p.m.Drain(w.out[:0], w.ev[:0])
	for i := range w.ev {
		w.judge.onEvent(p, &w.ev[i])
	}
	var closes []vote.Conn
	for i := range w.out {
		o := &w.out[i]
		if o.Close {
			closes = append(closes, o.Conn)
		} else {
			w.net.send(p, o)
		}
	}
	clear(w.out)
	clear(w.ev)
	for _, c := range closes {
		w.net.close(p, c)
	}
	if p.watch != nil && p.watch.asked {
		p.watch.asked = false
		return true
	}
	return len(closes) > 0
}

// mix adds a number to the run's digest.
func (w *World) mix(x uint64) {
	h := w.hash ^ x
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	w.hash = h ^ h>>29
}

// host returns the host with a name. An unknown name is a mistake of the scenario's author, and
// panics.
func (w *World) host(name string) *host {
	for _, h := range w.hosts {
		if h.alias == name {
			return h
		}
	}
	panic(fmt.Sprintf("sim: no host is called %q", name))
}
