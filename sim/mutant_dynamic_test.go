package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// grows is a mesh founded by a, b and c; d and e start when the scenario starts them. y only locks:
// four voters would be no better than three, and the electorate has at most five.
var grows = Options{
	Names: []string{"a", "b", "c", "d", "e", "y"}, Clients: 3, Dynamic: &Dynamic{MaxVoters: 5, Absent: []string{"d", "e"}},
	Clocks: Clocks{PPM: make([]int64, 6), Wall: make([]time.Duration, 6)},
}

// growsAhead is grows with the wall clocks of b and y an hour ahead, and so the tokens that b
// proposes to y.
var growsAhead = func() Options {
	o := grows
	o.Clocks.Wall = []time.Duration{0, time.Hour, 0, 0, 0, time.Hour}
	return o
}()

// dynamicMutants break the rules of dynamic membership.
var dynamicMutants = []mutant{
	{name: "no joint phase", build: changesAtOnce(func(*vote.Electorate) bool { return true }), scenario: joinsBehindABack, options: grows, draw: DrawDynamic},
	{name: "one voter swapped for another without a joint phase", build: changesAtOnce(isSwap), scenario: swapsBehindABack, options: Options{
		Names: []string{"a", "b", "c", "d"}, Clients: 1, Dynamic: &Dynamic{MaxVoters: 3},
	}, draw: DrawDynamic},
	{name: "no drain", build: concludes(0), scenario: holdsFromTheOld, options: grows, draw: DrawDynamic},
	{name: "a drain from when the change was decided", build: concludes(electorate.Drain(sceneTTL)), scenario: oldOnesHearLate, options: grows, draw: drawScene},
	{name: "no minimum token in the new electorate", build: hearsNoTops, scenario: tokenOfTheOld, options: growsAhead, draw: DrawDynamic},
	{name: "acknowledgements counted across versions", build: countsAnyVersion, scenario: holdsByTheOld, options: grows, draw: DrawDynamic},
	{name: "promises about electorates not stored", build: storesNoPromise, scenario: acceptsAndForgets, options: parts, draw: DrawDynamic},
	{name: "a wiped founder trusted", build: keepsItsName, scenario: acceptsAndIsWiped, options: parts, draw: DrawDynamic},
	{name: "a majority of the founders founds", build: foundsByCount, scenario: foundsTwice, options: Options{
		Voters: 5, Dynamic: &Dynamic{Absent: []string{"a", "b", "c", "d", "e"}},
	}, draw: DrawDynamic},
	{name: "gossip shrinks the majority", build: shrinks, scenario: bothSidesGossip, options: Options{Voters: 5, Dynamic: &Dynamic{}}, draw: DrawDynamic},
}

// drawScene is DrawDynamic with the maximum TTL of the scenarios, for a mutant with a drain of
// this length.
func drawScene(seed uint64) Options {
	o := DrawDynamic(seed)
	o.MaxTTL = sceneTTL
	return o
}

// founded lets time pass until the founders have bootstrapped the electorate, and all nodes know
// the electorate.
func (w *World) founded() {
	if !w.RunUntil(4*w.opt.MaxTTL+servedFixed, func() bool {
		for _, h := range w.hosts {
			if h.p != nil && (w.dynamic.Knows(h.alias) == 0 || !h.p.m.Ready()) {
				return false
			}
		}
		return true
	}) {
		w.judge.violate(checkLiveness, "the electorate isn't founded")
	}
}

// joinsBehindABack has y hold a lease by the votes of b and c. b and c don't learn that a and the
// new voters d and e are a majority now.
func joinsBehindABack(w *World) {
	w.founded()
	w.Script.Cut("y", "a")
	w.expect(w.Script.Lock("y", "k"), Granted, sceneTTL)
	one, other := []string{"a", "d", "e"}, []string{"b", "c", "y"}
	w.dynamic.when("a", false, vote.KindAccepted, func() {
		w.Script.Split(one, other)
		w.Script.Lock("a", "k")
	})
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(6 * sceneTTL)
}

// swapsBehindABack has c hold a lease by the votes of b and c, and then leave. b has accepted that
// d takes c's seat, and doesn't learn of the decision. a has never learned of the lease: a refuses
// c's dials, and polls c on a connection of its own.
func swapsBehindABack(w *World) {
	w.founded()
	w.faults.misdialed[[2]*host{w.host("c"), w.host("a")}] = &misdialed{refused: true, did: func(bool) {}}
	w.Script.Break("c", "a")
	w.Run(2 * sceneTTL)
	w.expect(w.Script.Lock("c", "k"), Granted, sceneTTL)
	w.dynamic.when("a", false, vote.KindAccepted, func() {
		w.Script.Split([]string{"a", "d"}, []string{"b", "c"})
		w.Script.Lock("a", "k")
	})
	w.dynamic.Leave("c")
	w.Run(8 * sceneTTL)
}

// holdsFromTheOld has y hold a lease by the votes of b and c, and then lose all links. The other
// nodes become an electorate of five at once.
func holdsFromTheOld(w *World) {
	w.founded()
	w.Script.Cut("y", "a", "d", "e")
	w.expect(w.Script.Lock("y", "k"), Granted, sceneTTL)
	w.dynamic.when("a", false, vote.KindAccepted, func() {
		w.Script.Cut("y", "b", "c")
		w.Script.Lock("a", "k")
	})
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(6 * sceneTTL)
}

// oldOnesHearLate has b and c apply the old electorate, and keep y's lease, for longer than a drain
// lasts.
func oldOnesHearLate(w *World) {
	w.founded()
	w.Script.Cut("y", "a", "d", "e")
	w.expect(w.Script.Lock("y", "k"), Granted, sceneTTL)
	one, other := []string{"a", "d", "e"}, []string{"b", "c"}
	w.dynamic.when("a", false, vote.KindAccepted, func() {
		w.Script.Split(one, other)
		w.At(electorate.Drain(sceneTTL)+sceneTTL/4, func() {
			w.Script.Cut("y", "b", "c")
			w.Script.Join(one, other)
			w.Script.Lock("a", "k")
		})
	})
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(8 * sceneTTL)
}

// tokenOfTheOld has only b and c know a token an hour ahead.
func tokenOfTheOld(w *World) {
	w.founded()
	w.Script.Cut("y", "a", "d", "e")
	w.Run(sceneTTL)
	r := w.Script.Lock("y", "k")
	w.expect(r, Granted, sceneTTL)
	w.Script.Release(r)
	w.Run(time.Second)
	w.Script.Start("d")
	w.Script.Start("e")
	w.RunUntil(6*sceneTTL, func() bool { return w.dynamic.Voting("a", "b", "c", "d", "e") })
	w.Script.Cut("a", "b", "c")
	w.Run(2 * sceneTTL)
	w.Script.Lock("a", "k")
	w.Run(2 * sceneTTL)
}

// holdsByTheOld has y reach only b and c, which apply the joint electorate.
func holdsByTheOld(w *World) {
	w.founded()
	w.Script.Cut("y", "a", "d", "e")
	w.expect(w.Script.Lock("y", "k"), Granted, sceneTTL)
	w.dynamic.when("a", false, vote.KindAccepted, func() { w.Script.Lock("a", "k") })
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(8 * sceneTTL)
}

// changer applies a decided change without a joint phase.
type changer struct {
	Machine
	which    func(*vote.Electorate) bool
	value    vote.Electorate // under proposal
	accepted map[vote.NodeID]bool
}

func changesAtOnce(which func(*vote.Electorate) bool) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &changer{Machine: n, which: which}, err
	}
}

func (c *changer) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = c.Machine.Drain(out, ev)
	for _, o := range out[first:] {
		if m := &o.Message; m.Kind == vote.KindAccept && !m.Consensus.Electorate.Equal(&c.value) {
			c.value, c.accepted = m.Consensus.Electorate, make(map[vote.NodeID]bool)
		}
	}
	return out, ev
}

func (c *changer) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if e := &c.value; m.Kind == vote.KindAccepted && e.Joint() && c.which(e) && m.Version == e.Version && m.Consensus.Promised == m.Consensus.Ballot {
		if c.accepted[from.Node] = true; len(c.accepted)+1 >= len(e.Old)/2+1 {
			final := *e
			final.Old, final.OldMaxTTL = nil, 0
			c.Machine.Deliver(now, vote.LocalConn, from, &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: final}})
		}
		return
	}
	c.Machine.Deliver(now, conn, from, m)
}

// isSwap reports whether a change replaces exactly one voter.
func isSwap(e *vote.Electorate) bool {
	n := 0
	for _, v := range e.Voters {
		n += bit(!slices.Contains(e.Old, v))
	}
	return n == 1 && len(e.Voters) == len(e.Old)
}

// concluder ends a joint electorate as soon as majorities of both halves apply the joint version,
// and a set time has passed since this node applied the version.
type concluder struct {
	Machine
	ttl     time.Duration
	after   time.Duration
	now     vote.Now
	self    vote.Elector
	joint   vote.Electorate // the version applied by this node, joint or not
	since   vote.Instant
	conns   map[vote.NodeID]vote.Conn
	seen    map[vote.Elector]bool
	number  uint64
	promise map[vote.Elector]bool
	accept  map[vote.Elector]bool
	replies []vote.Outbound
}

func concludes(after time.Duration) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &concluder{
			Machine: n, ttl: cfg.MaxTTL, after: after, now: now, self: vote.Elector{Name: cfg.Name, Dir: cfg.Dynamic.State.Dir}, conns: make(map[vote.NodeID]vote.Conn),
		}, err
	}
}

func (c *concluder) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	c.conns[voter.Node] = conn
	c.Machine.Link(now, conn, voter)
}

func (c *concluder) Tick(now vote.Now) {
	c.now = now
	c.Machine.Tick(now)
}

func (c *concluder) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	c.now = now
	c.Machine.Deliver(now, conn, from, m)
	if e := c.Known(); e.Version != c.joint.Version {
		c.joint, c.since, c.number = *e, now.Slow, 0
		c.seen, c.promise, c.accept = make(map[vote.Elector]bool), make(map[vote.Elector]bool), make(map[vote.Elector]bool)
	}
	// The first voter by name acts for all.
	if !c.joint.Joint() || m.Consensus == nil || c.joint.All()[0] != c.self {
		return
	}
	v := vote.Elector{Name: from.Node, Dir: m.Consensus.Dir}
	mine := m.Consensus.Ballot == vote.Ballot{Counter: c.number, By: vote.Incarnation(c.self.Dir)} && m.Consensus.Promised == m.Consensus.Ballot
	switch {
	case m.Kind == vote.KindReport && m.Epoch == c.joint.Version && m.Counting:
		if c.seen[v] = true; c.number == 0 && c.decided(c.seen) && now.Slow.Sub(c.since) >= c.after {
			c.number = 1 << 30
			c.ask(vote.KindPrepare, vote.Consensus{Ballot: vote.Ballot{Counter: c.number, By: vote.Incarnation(c.self.Dir)}})
		}
	case m.Kind == vote.KindPrepared && mine && !c.promise[v]:
		before := c.decided(c.promise)
		if c.promise[v] = true; !before && c.decided(c.promise) {
			c.ask(vote.KindAccept, vote.Consensus{Ballot: m.Consensus.Ballot, Electorate: c.final()})
		}
	case m.Kind == vote.KindAccepted && mine && !c.accept[v]:
		if c.accept[v] = true; c.decided(c.accept) {
			c.Machine.Deliver(now, vote.LocalConn, from, &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: c.final()}})
		}
	}
}

func (c *concluder) final() vote.Electorate {
	top, _ := c.Machine.Voter().Top()
	return vote.Electorate{Version: c.joint.Version + 1, Lineage: c.joint.Lineage, Voters: c.joint.Voters, MinToken: max(c.joint.MinToken, top), Most: c.joint.Most, MaxTTL: c.joint.MaxTTL}
}

func (c *concluder) decided(some map[vote.Elector]bool) bool {
	half := func(voters []vote.Elector) bool {
		n := 0
		for _, v := range voters {
			n += bit(v == c.self || some[v])
		}
		return n >= len(voters)/2+1
	}
	return half(c.joint.Voters) && half(c.joint.Old)
}

func (c *concluder) ask(kind vote.Kind, e vote.Consensus) {
	for _, v := range c.joint.All() {
		m := vote.Message{Kind: kind, Version: c.joint.Version + 1, Consensus: &e}
		if v == c.self {
			c.Machine.Deliver(c.now, vote.LocalConn, vote.SessionID{Node: v.Name}, &m)
		} else if conn, ok := c.conns[v.Name]; ok {
			c.replies = append(c.replies, vote.Outbound{Conn: conn, Message: m})
		}
	}
}

func (c *concluder) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out = append(out, c.replies...)
	c.replies = nil
	return c.Machine.Drain(out, ev)
}

// topless ignores the highest tokens of the others in the poll before the end of a joint
// electorate.
type topless struct{ Machine }

func hearsNoTops(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return topless{n}, err
}

func (t topless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindReport {
		m.Token = 0
	}
	t.Machine.Deliver(now, conn, from, m)
}

// versionless counts an acknowledgement under one version of the electorate for the version before
// as well.
type versionless struct{ Machine }

func countsAnyVersion(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return versionless{n}, err
}

func (v versionless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAck && m.Epoch > 1 {
		again := *m
		v.Machine.Deliver(now, conn, from, m)
		again.Epoch--
		m = &again
	}
	v.Machine.Deliver(now, conn, from, m)
}

// parts is a mesh for acceptsTwice: three founders, d and e on the side of a, and f on the side of
// c.
var parts = Options{
	Names: []string{"a", "b", "c", "d", "e", "f", "y"}, Clients: 4, Dynamic: &Dynamic{MaxVoters: 5, Absent: []string{"d", "e", "f"}},
}

func acceptsAndForgets(w *World) { w.acceptsTwice(func() { w.Script.Start("b") }) }

func acceptsAndIsWiped(w *World) {
	w.acceptsTwice(func() {
		w.dynamic.Wipe("b")
		w.Script.Restart("c") // so that c and f forget the write count of b's directory
		w.Script.Restart("f")
		w.Script.Start("b")
	})
}

// acceptsTwice has b accept that d and e be voted in, forget this, and accept that f take a's
// place. Each side counts b's acceptance for its own electorate.
func (w *World) acceptsTwice(back func()) {
	w.founded()
	one := []string{"a", "d", "e", "y"}
	w.Script.Cut("f", one...)
	w.Script.Start("f")
	w.Script.Cut("c", one...)
	w.dynamic.when("b", true, vote.KindAccepted, func() { // the answer arrives; b receives nothing
		for _, o := range one {
			w.Script.CutOneWay(o, "b")
		}
		w.At(50*time.Millisecond, func() {
			for _, o := range one {
				w.Script.CutOneWay("b", o)
			}
			w.Script.PowerOff("b")
			back()
		})
	})
	w.Script.Start("d")
	w.Script.Start("e")
	if !w.RunUntil(20*sceneTTL, func() bool {
		return w.dynamic.Knows("a") >= 2 && w.dynamic.Knows("b") >= 2 && w.dynamic.Knows("c") >= 2
	}) {
		return
	}
	w.Script.Mend("b", one...)
	w.Run(300 * time.Millisecond)
	w.Script.Lock("y", "k")
	w.Run(500 * time.Millisecond)
	w.Script.Lock("c", "k")
	w.Run(3 * sceneTTL)
}

// forgetfulDisk stores neither promises nor accepted values.
type forgetfulDisk struct{ Machine }

func storesNoPromise(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return forgetfulDisk{n}, err
}

func (f forgetfulDisk) Saves() []vote.DiskState {
	all := slices.Clone(f.Machine.Saves())
	for i := range all {
		all[i].Promised, all[i].Accepted, all[i].Value = vote.Ballot{}, vote.Ballot{}, vote.Electorate{}
	}
	return all
}

// keepsItsName has a node come back as the same voter, whatever has become of its directory.
func keepsItsName(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	h := w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == cfg.Name })]
	if f := cfg.Dynamic; f.Fresh && h.disk.made > 1 {
		f.State.Dir = vote.Dir(rand.New(w.chance("dir", h.alias, 1)).Uint64() | 1)
		f.Fresh = false
		h.disk.state.Dir, h.p.dir, h.p.fresh = f.State.Dir, f.State.Dir, false
	}
	return node.New(cfg, now)
}

// foundsByCount takes the founders within reach at the start for all founders, if they are a
// majority.
func foundsByCount(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	self := w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == cfg.Name })]
	var most []vote.NodeID
	for _, v := range cfg.Voters {
		if h := w.faults.voterAt(v); h == self || w.net.isOpen(h, self) && w.net.isOpen(self, h) {
			most = append(most, v)
		}
	}
	if len(most) > len(cfg.Voters)/2 {
		cfg.Voters = most
	}
	return node.New(cfg, now)
}

// foundsTwice has a, b and c start without d and e; then c loses its directory and is on the side
// of d and e.
func foundsTwice(w *World) {
	w.Script.Split([]string{"a", "b", "c"}, []string{"d", "e"})
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Start(v)
	}
	w.Run(3 * sceneTTL)
	w.Script.PowerOff("c")
	w.dynamic.Wipe("c")
	w.Script.Mend("c", "d", "e")
	w.Script.Cut("c", "a", "b")
	for _, v := range []string{"c", "d", "e"} {
		w.Script.Start(v)
	}
	w.Run(3 * sceneTTL)
	w.Script.Lock("a", "k")
	w.Run(sceneTTL)
	w.Script.Lock("d", "k")
	w.Run(sceneTTL)
}

// shrinker applies an electorate of only those voters that its gossip sees alive.
type shrinker struct {
	Machine
	self vote.NodeID
}

func shrinks(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return shrinker{n, cfg.Name}, err
}

func (s shrinker) Gossip(now vote.Now, all []electorate.Seen) {
	s.Machine.Gossip(now, all)
	e := *s.Known()
	alive := slices.DeleteFunc(slices.Clone(e.Voters), func(v vote.Elector) bool {
		return v.Name != s.self && !slices.ContainsFunc(all, func(x electorate.Seen) bool { return x.Name == v.Name && x.State == vote.Alive })
	})
	if e.Version > 0 && !e.Joint() && len(alive) < len(e.Voters) && len(alive) > 0 {
		e.Version, e.Voters = e.Version+1, alive
		s.Deliver(now, vote.LocalConn, vote.SessionID{Node: s.self}, &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	}
}

func bothSidesGossip(w *World) {
	w.founded()
	w.Script.Split([]string{"a", "b"}, []string{"c", "d", "e"})
	w.Run(3 * sceneTTL)
	w.Script.Lock("a", "k")
	w.Script.Lock("c", "k")
	w.Run(3 * sceneTTL)
}
