// Package sim runs whole nodes, the very code of production, in a world of its own making: clocks that err, a network that delays,
// stalls and breaks, machines that stop and restart. One seed decides everything, so a failure can be had again.
//
// After each event the world checks what must always hold (see check.go); after the faults it heals and demands that everyone be
// served (see [World.Settle]). A world has no goroutine and reads no clock; one goroutine at a time may use it.
package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Options say what a world is made of. [Draw] draws them from a seed; a scenario writes its own.
type Options struct {
	Seed    uint64
	Voters  int             // nodes that vote and lock, named a, b, c…; 3 by default
	Clients int             // nodes that only lock, named x1, x2…
	Names   []string        // of the nodes, voters first, where they aren't to have these
	MaxTTL  time.Duration   // default 2 s
	TTL     []time.Duration // of each node's sessions, voters first; MaxTTL where it is missing or zero

	Net    Net
	Clocks Clocks
	Load   Load
	Faults Faults

	// Acts, if not nil, are the faults that happen, and none is drawn. [World.Acts] returns those of a run, which replay it exactly.
	Acts []Act

	// TokensOnly is for runs beyond what exclusion may assume (clock rates beyond the bound, pauses that no clock shows): only that
	// tokens rise is checked.
	TokensOnly bool

	// Unjudged leaves out what is checked after each event, which takes longer the more keys there are, and keeps no account of when leases
	// end, but by asking. It is for worlds without faults that hold so many leases that the judge would take hours (sim/cmd/lockmesh-cost).
	Unjudged bool

	// Following, if not nil, has the electorate follow the living.
	Following *Following

	// Alone has nodes put each request to the voters and pass no lease on among their callers; to compare with.
	Alone bool

	// Linger is how long a word that nobody waits for stays in its sender's queue for others to travel with; zero for not at all.
	Linger time.Duration

	// History has all calls and returns written down; Settle then looks for an order of them that explains each result.
	History bool

	Build Builder   // Genuine by default
	Trace io.Writer // where each event is told in a line; nil for nowhere

	// LateWords is for runs whose messages may take longer than a voter waits for an old life's answer: see [World.mayBeLate].
	LateWords bool

	// Observe, if set, is told what happens.
	Observe Observer

	// Picture, if set, records the run for [World.WritePicture].
	Picture *Picture
}

// Clocks say how wrong the hosts' clocks are at the start.
type Clocks struct {
	PPM  []int64         // rate errors in parts per million, by host; drawn within the bound where missing
	Wall []time.Duration // offsets of the wall clocks; drawn within Spread where missing
	// Spread is how far apart wall clocks may be.
	Spread time.Duration
	// Exact makes all rates and wall clocks right where they aren't given.
	Exact bool
}

// World is one run. See the package's documentation.
type World struct {
	opt    Options
	now    Moment
	queue  queue
	hosts  []*host
	voters []vote.NodeID
	quorum int

	network
	judge
	followers
	load
	faults

	trace     *tracer
	pic       *Picture // nil when none is wanted; its methods that are called seldom may be called on nil
	hash      uint64
	fig       Figures
	failed    *Violation
	disturbed Moment // when something last went wrong, or ended doing so; see order.go

	out []vote.Outbound
	ev  []quorum.Event
}

// host is a machine with a name. Processes run on it, one life after the other.
type host struct {
	i       int
	name    vote.NodeID
	alias   string // what scenarios call it; the name, but for twins
	nth     int    // how many twins have had the alias before
	voter   bool
	ttl     time.Duration
	clock   clock // what the machine shows; the process under way has its own copy with other offsets
	p       *process
	lives   int
	twinned bool   // another host has its name, too
	retired bool   // nothing is started on it any more
	wills   []will // what earlier lives have promised and not outlived
	hung    pause  // what keeps the process from running
	disk    disk

	ambush *ambush // nil as a rule

	foremost vote.Micros // what the wall clock showed at most when it was stepped back

	luck *rand.Rand // for the machine's timers and connections
}

// process is one life of a node.
type process struct {
	host    *host
	id      vote.SessionID
	m       Machine
	clock   clock
	started vote.Instant // on its slow clock
	dead    bool
	dir     vote.Dir
	fresh   bool // its directory is as new as itself
	knew    uint64
	eyes    []eyes
	backlog []event // inputs that came while it was stopped
	stops   int     // how often it was stopped, and went on
	woke    Moment  // when it last went on

	conns []connection // by vote.Conn
	dials []dial       // by place in World.voters
	tick  Moment       // when the next tick is due; never when none is

	requests map[vote.Number]*Request
	asked    []*Request // by number; also those that are gone
	groups   map[quorum.GroupID]vote.Instant
	runs     map[vote.Number]vote.Token // the last token of each lease, by seat
	said     said
	clients  []client
	forgot   bool   // it heard of a request that it had forgotten; see checkBooks
	resorts  uint64 // tokens taken from the clock, as last seen
}

type eventKind uint8

const (
	eventNone        eventKind = iota
	eventRun                   // f
	eventTick                  // p
	eventArrive                // l, side (the sender's), lane: the head of the lane reaches the other machine
	eventRead                  // the same, but it had arrived while the process was stopped
	eventLearn                 // l, side: that end learns that the connection is gone
	eventDial                  // p, n: a voter is to be dialed
	eventSyn                   // l: a dial reaches the voter's machine
	eventUp                    // p, l: the voter's answer to a dial
	eventDialFail              // p, l
	eventDialTimeout           // p, l
	eventClient                // p, n: a client does what it has planned; the plan's number and the client's
	eventAsk                   // p, n: a client comes for one of the requests that are given
	eventLinger                // p (which sends), l, side, n: what lingers in a queue has done so for long enough; n is the queue's turn
)

// event is something that is to happen. Those with p are lost when the process dies, and wait while it is stopped.
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
	if opt.Trace != nil {
		w.trace = &tracer{w: opt.Trace}
	}
	if w.pic = opt.Picture; w.pic != nil {
		w.pic.setUp()
	}
	for i, name := range opt.names() {
		h := &host{i: i, name: vote.NodeID(name), alias: name, voter: i < opt.Voters, ttl: opt.MaxTTL}
		if h.voter || opt.Following != nil {
			w.voters = append(w.voters, h.name)
		}
		h.luck = rand.New(w.chance("host", name))
		if i < len(opt.TTL) && opt.TTL[i] != 0 {
			h.ttl = opt.TTL[i]
		}
		h.clock = opt.Clocks.draw(rand.New(w.chance("clock", name)), i)
		w.hosts = append(w.hosts, h)
	}
	w.setUpNetwork()
	w.setUpJudge()
	w.setUpLoad()
	w.setUpFollowing()
	w.wanted = make(map[*host]bool)
	for _, h := range w.hosts {
		switch late := w.lateness(h); {
		case w.isAbsent(h):
		case late > 0:
			w.bringBack(h, late)
		default:
			w.start(h)
		}
	}
	w.setUpFaults()
	return w
}

// names are the nodes' names, voters first.
func (o *Options) names() []string {
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

// start begins a new life on a host.
func (w *World) start(h *host) {
	if h.p != nil {
		return
	}
	h.clock.rebase(w.now)
	luck := rand.New(w.chance("life", h.alias, h.nth, h.lives))
	p := &process{
		host: h, id: vote.SessionID{Node: h.name, Life: vote.Life(luck.Uint64() | 1)}, clock: h.clock,
		conns: make([]connection, 1, 16), dials: make([]dial, len(w.voters)), tick: never,
		requests: make(map[vote.Number]*Request), asked: make([]*Request, 1), groups: make(map[quorum.GroupID]vote.Instant),
		runs: make(map[vote.Number]vote.Token),
	}
	p.clock.frozen, p.clock.suspended = false, false
	p.clock.fast = vote.Instant(luck.Int64N(1e15))
	p.clock.slow = vote.Instant(luck.Int64N(1e15))
	p.started = p.clock.slowAt(w.now)
	p.said = said{
		votes: make(map[vote.Key][]*spoken), until: make(map[vote.SessionID]vote.Instant), unsaid: make(map[vote.Serial]bool),
	}
	h.p = p
	h.lives++
	if h.lives > 1 {
		w.fig.Restarts++
	}
	w.bySession[p.id] = p
	cfg := node.Config{
		Name: h.name, Life: p.id.Life, Voters: w.voters, TTL: h.ttl, MaxTTL: w.opt.MaxTTL, Alone: w.opt.Alone, Following: w.followingConfig(h),
	}
	if f := cfg.Following; f != nil {
		cfg.Voters = w.voters[:w.opt.Voters]
		p.dir, p.fresh, p.eyes = f.State.Dir, f.Fresh, make([]eyes, len(w.hosts))
		w.said[h] = false
	}
	m, err := w.opt.Build(w, cfg, p.read(w.now))
	if err != nil {
		panic(fmt.Sprintf("sim: a node can't be built: %v", err))
	}
	p.m = m
	m.Tap(func(c vote.Conn, m *vote.Message) {
		w.observeLocal(p, c, m)
		w.tapped(p, c, m)
	})
	w.disturb()
	w.marksOfStart(h)
	w.note(h, "starts as %v", p.id)
	w.pic.started(w, h)
	w.settle(p)
	if w.opt.Following != nil {
		w.gossips(p)
	}
	for v, name := range w.voters {
		if name != h.name && w.opt.Following == nil {
			w.push(event{at: w.now.add(within(h.luck, 20*time.Millisecond)), kind: eventDial, p: p, n: uint64(v)})
		}
	}
	w.startClients(p)
}

// read is what the process reads on its clocks.
func (p *process) read(g Moment) vote.Now { return p.clock.at(g) }

func (w *World) push(e event) { w.queue.push(e) }

// At has f called at a time from now.
func (w *World) At(d time.Duration, f func()) { w.push(event{at: w.now.add(d), kind: eventRun, f: f}) }

// Now returns how long the world has lasted.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// Err returns the first violation, or nil.
func (w *World) Err() error {
	if w.failed == nil {
		return nil
	}
	return w.failed
}

// Hash returns a digest of all that has happened. Equal options give equal digests.
func (w *World) Hash() uint64 { return w.hash }

// Run lets d pass, or less if something is violated.
func (w *World) Run(d time.Duration) {
	w.run(w.now.add(d), nil)
}

// RunUntil lets time pass until the condition holds, d at most. It reports whether it holds.
func (w *World) RunUntil(d time.Duration, holds func() bool) bool {
	if holds() {
		return true
	}
	return w.run(w.now.add(d), holds)
}

// run works through the queue. A panic of a node is a violation like any other.
func (w *World) run(end Moment, holds func() bool) (held bool) {
	defer func() {
		if r := recover(); r != nil {
			if w.failed != nil {
				panic(r)
			}
			w.violate(checkPanic, "%v\n%s", r, debug.Stack())
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
				if w.hang(e.l, e.side, e.lane) {
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
		if !w.hang(e.l, e.side, e.lane) {
			w.receive(e.l, e.side, e.lane)
		}
	case eventRead:
		w.receive(e.l, e.side, e.lane)
	case eventLearn:
		w.learn(e.l, e.side)
	case eventDial:
		w.dial(e.p, int(e.n))
	case eventSyn:
		w.accept(e)
	case eventUp:
		w.up(e.p, e.l)
	case eventDialFail:
		w.dialFailed(e.p, e.l, dialTexts[e.n])
	case eventDialTimeout:
		w.dialFailed(e.p, e.l, "no answer")
	case eventClient:
		w.act(e.p, e.n)
	case eventAsk:
		w.askOnce(e.p, int(e.n))
	case eventLinger:
		w.lingered(e.l, e.side, e.n)
	}
}

// maxLate is how late a timer fires at most while the process runs. It is less than the guard of the least TTL.
const maxLate = time.Millisecond

// longest is how long a process sleeps at most: more than any run needs, and far from where numbers overflow.
const longest = time.Hour

// arm makes sure that the process ticks when it wants to.
func (w *World) arm(p *process) {
	d := min(max(p.m.Next(p.read(w.now)), 0), longest)
	due := w.now + p.clock.duration(int64(d))
	if p.tick >= due && p.tick <= due.add(maxLate) {
		return
	}
	p.tick = due.add(within(p.host.luck, maxLate)) + 1
	w.push(event{at: p.tick, kind: eventTick, p: p})
}

func (w *World) tick(e event) {
	if p := e.p; p.tick == e.at || p.tick < w.now {
		p.tick = never
		p.m.Tick(p.read(w.now))
		w.settle(p)
	}
}

// settle takes what a process has to say after an input, and checks the world. What it has to say when a connection is closed as it wants belongs to
// that, too: in production that comes in by the mailbox, and what follows is handed out at once.
func (w *World) settle(p *process) {
	w.resorted(p)
	for more := true; more; {
		for w.speaks(p) {
		}
		more = w.opt.Following != nil && w.follows(p)
	}
	w.arm(p)
	if w.pic != nil {
		w.pic.settled(w, p)
	}
	w.checkBooks(p)
	w.check(p)
}

// speaks takes what a process says and tells, and reports whether it has closed a connection.
func (w *World) speaks(p *process) bool {
	w.out, w.ev = p.m.Drain(w.out[:0], w.ev[:0])
	for i := range w.ev {
		w.told(p, &w.ev[i])
	}
	var closes []vote.Conn
	for i := range w.out {
		o := &w.out[i]
		if o.Close {
			closes = append(closes, o.Conn)
		} else {
			w.send(p, o)
		}
	}
	clear(w.out)
	clear(w.ev)
	for _, c := range closes {
		w.close(p, c)
	}
	return len(closes) > 0
}

// mix adds a number to the run's digest.
func (w *World) mix(x uint64) {
	h := w.hash ^ x
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	w.hash = h ^ h>>29
}

// host returns the host of a name. A scenario that names another is a mistake of its author.
func (w *World) host(name string) *host {
	for _, h := range w.hosts {
		if h.alias == name {
			return h
		}
	}
	panic(fmt.Sprintf("sim: no host is called %q", name))
}
