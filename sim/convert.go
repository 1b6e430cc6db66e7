package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Stage is how far a node has come on the way from a fixed list of voters to dynamic membership.
type Stage uint8

// The stages, in order. A node restarts to go on, or back; from StageDynamic no node goes back.
const (
	StageFixed Stage = iota
	StageConverting
	StageDynamic
)

func (s Stage) String() string { return [...]string{"fixed", "converting", "dynamic"}[s] }

// Convert makes a world whose nodes are converted from a fixed list, the first Options.Voters
// hosts, to dynamic membership. Options.Dynamic must be set.
type Convert struct {
	First map[string]Stage // of the hosts that don't start as fixed nodes
	Steps []ConvertStep
	// Unmet has nodes learn nothing of nodes that refuse them. Otherwise each handshake tells, so
	// that a fixed voter gives way to dynamic ones.
	Unmet bool
	// Finish has all nodes restart without FromFixed when the world settles. Otherwise a node that
	// is converting by then stays so.
	Finish bool
}

// ConvertStep is the restart of a host at another stage.
type ConvertStep struct {
	At     time.Duration
	Host   string
	Stage  Stage
	MaxTTL time.Duration // with StageDynamic only; zero: it stays as it is
	Down   time.Duration // how long the host is down
}

func (c ConvertStep) String() string {
	return fmt.Sprintf("%v: %s becomes %v (MaxTTL %v) after %v", c.At, c.Host, c.Stage, c.MaxTTL, c.Down)
}

// conversion is the part of the world for meshes that are converted.
type conversion struct {
	w      *World
	stages map[*host]Stage // of each host's next process
	// clashed is set once a fixed and a dynamic process have met, which is a mistake of the
	// operator. The fixed voters then give way, and leases end early.
	clashed bool
	over    bool // the world settles: the remaining steps don't happen
}

// converts reports whether the world is one of a conversion.
func (cv *conversion) converts() bool { return cv.w.opt.Convert != nil }

// stageOf returns the stage of a host's next process.
func (cv *conversion) stageOf(h *host) Stage {
	switch {
	case cv.converts():
		return cv.stages[h]
	case cv.w.opt.Dynamic != nil && !cv.w.misconfigured.is(h):
		return StageDynamic
	}
	return StageFixed
}

func (cv *conversion) setUpConversion() {
	c := cv.w.opt.Convert
	if c == nil {
		return
	}
	cv.stages = make(map[*host]Stage)
	for _, h := range cv.w.hosts {
		cv.stages[h] = c.First[h.alias]
	}
	if cv.w.lists == nil {
		first := electorate.FromFixed("sim", cv.w.voters[:cv.w.opt.Voters], cv.w.opt.MaxTTL)
		cv.w.dynamic.decided[1], cv.w.dynamic.newest = first, 1
	}
	for _, s := range c.Steps {
		cv.w.At(s.At, func() {
			if !cv.over && cv.mayBecome(cv.w.host(s.Host), s.Stage) {
				if s.MaxTTL != 0 {
					cv.w.maxTTLs.configured[cv.w.host(s.Host)] = s.MaxTTL
				}
				cv.w.Become(s.Host, s.Stage, s.Down)
			}
		})
	}
}

// mayBecome reports whether a step may be taken, and happens: no node goes back from the last
// stage; and the operator doesn't take a voter of the list out of the conversion before it has
// stored the first electorate. Who skips the conversion loses its vote, so a majority must not.
func (cv *conversion) mayBecome(h *host, to Stage) bool {
	from := cv.stages[h]
	switch {
	case from == to, from == StageDynamic:
		return false
	case to < StageDynamic, !h.voter, cv.isConverted(h):
		return true
	case from == StageConverting:
		return false
	}
	return cv.w.opt.Voters-cv.skipping()-1 >= cv.w.opt.Voters/2+1
}

// skipping returns how many voters of the list have skipped the conversion, and so aren't voters of
// the first electorate.
func (cv *conversion) skipping() (n int) {
	for _, h := range cv.w.hosts {
		n += bit(h.voter && cv.stages[h] == StageDynamic && !cv.isConverted(h))
	}
	return n
}

// isConverted reports whether a host has the directory of a voter of the first electorate.
func (cv *conversion) isConverted(h *host) bool {
	first := cv.w.dynamic.decided[1]
	return h.disk.exists && first.Has(vote.Elector{Name: h.name, Dir: h.disk.state.Dir})
}

// Become restarts a host at another stage, after a while.
func (w *World) Become(name string, to Stage, down time.Duration) {
	h := w.host(name)
	w.conversion.stages[h] = to
	w.note(h, "is to be %v", to)
	if w.crash(h, endingAtOnce, nil) {
		w.faults.bringBack(h, down)
	}
}

// becomeAll has no node of a settling world left behind.
func (cv *conversion) becomeAll() {
	if !cv.converts() {
		return
	}
	cv.over = true
	finish := cv.w.opt.Convert.Finish || cv.skipping() > 0
	for _, h := range cv.w.hosts {
		switch {
		case cv.stages[h] == StageFixed && (cv.isConverted(h) || !h.voter) && finish, cv.stages[h] == StageConverting && finish && cv.mayBecome(h, StageDynamic):
			cv.w.Become(h.alias, StageDynamic, 0)
		case cv.stages[h] == StageFixed:
			cv.w.Become(h.alias, StageConverting, 0)
		}
	}
}

// convertConfig completes the configuration of a host's next process: nil for a fixed one.
func (cv *conversion) convertConfig(h *host, f *node.Dynamic, list []vote.NodeID) *node.Dynamic {
	if !cv.converts() || cv.stages[h] == StageDynamic {
		return f
	}
	if cv.stages[h] == StageFixed {
		return nil
	}
	state, err := electorate.Convert(f.State, h.disk.exists, list, cv.w.opt.MaxTTL)
	if err != nil {
		panic(fmt.Sprintf("sim: %s can't be converted: %v", h.alias, err))
	}
	h.disk.state = state
	f.State, f.FromFixed, f.MayFound = state, true, false
	f.Fresh = f.Fresh && !slices.Contains(list, h.name)
	return f
}

// started notes a process that has just started in a world of a conversion.
func (cv *conversion) started(p *process) {
	if !cv.converts() {
		return
	}
	cv.w.fig.Stages[p.stage]++
	if !cv.w.opt.Convert.Unmet {
		cv.w.meetsAll(p)
	}
}

// kind returns the stage of a process as its handshakes tell.
func (p *process) kind() Stage {
	if p.stage == StageConverting && p.m.Converted() {
		return StageDynamic
	}
	return p.stage
}

// gossipDir returns the directory that gossip tells of a process. NonVoting processes, and a
// converting node that isn't on the list, can't be voted in, and have none.
func (p *process) gossipDir() vote.Dir {
	if (p.stage == StageConverting || p.birth.Expect > 0) && !p.host.voter {
		return 0
	}
	return p.dir
}

// agreeOnKinds reports whether the kinds of two processes' electorates don't keep them apart.
func agreeOnKinds(p, q *process) bool {
	return p.kind() == q.kind() || p.kind() == StageConverting || q.kind() == StageConverting
}

// greets plays the handshake of two processes in a world of a conversion. It reports whether they
// may be linked.
func (cv *conversion) greets(p, q *process) bool {
	// A dial may arrive long after its process has died.
	unmet := cv.converts() && cv.w.opt.Convert.Unmet
	if !p.dead && !unmet && cv.w.net.isOpen(p.host, q.host) && cv.w.net.isOpen(q.host, p.host) {
		return cv.w.meet(p, q)
	}
	return p.agrees(q)
}

// tellsKind tells a converting process that a peer is fixed, before any message of the link.
func (cv *conversion) tellsKind(l *link, side uint8) {
	p, far := l.ends[side].p, l.ends[1-side].p
	if !cv.converts() || p.stage != StageConverting || far.stage != StageFixed {
		return
	}
	cv.w.fig.FixedPeers++
	p.m.FixedPeer(l.ends[side].conn, far.host.name)
	cv.w.settle(p)
}

// isOutOfOrder reports whether the order of the restarts keeps some nodes from being served: two
// processes keep each other apart for their kinds; or the first electorate lacks a voter that has
// skipped the conversion, whose seat can't be given away yet.
func (cv *conversion) isOutOfOrder() bool {
	if !cv.converts() {
		return false
	}
	if cv.w.dynamic.newest == 1 && cv.skipping() > 0 {
		return true
	}
	var fixed, dynamic bool
	for _, h := range cv.w.hosts {
		fixed = fixed || h.p != nil && h.p.kind() == StageFixed
		dynamic = dynamic || h.p != nil && h.p.kind() == StageDynamic
	}
	return fixed && dynamic
}

// mayForfeit reports whether voters may have given way to those of another configuration, so that
// leases end early, and votes are forgotten.
func (cv *conversion) mayForfeit() bool {
	return cv.w.lists != nil || cv.clashed
}

// settlesLater returns how much longer than elsewhere a request may wait once the faults are over:
// for the last restarts, and until voters that gave way, or waited, count again.
func (cv *conversion) settlesLater() time.Duration {
	if !cv.converts() {
		return 0
	}
	return 3*cv.w.opt.MaxTTL + 5*time.Second
}

// DrawFromFixed draws a world whose nodes are converted from a fixed list to dynamic membership,
// in the right order or in any other, as nodes are restarted, go back from the first stage, skip
// it, and are left behind.
func DrawFromFixed(seed uint64) Options {
	o := Draw(seed)
	d := draws{seed, "converting"}
	o.MaxTTL, o.TTL = d.pick("max-ttl", 400*time.Millisecond, 600*time.Millisecond, time.Second), nil
	o.Voters, o.Clients = d.pickInt("voters", 1, 2, 3, 3, 3, 3, 4, 5), d.intN("clients", 5)
	o.Net = Net{Least: 100 * time.Microsecond, Most: d.pick("net", time.Millisecond, o.MaxTTL/100, o.MaxTTL/50), Jitter: 50, Spikes: d.pickInt("spikes", 0, 5)}
	o.Dynamic = &Dynamic{
		MaxVoters: d.pickInt("max-voters", 3, 5, 7), Unfounded: true, Brisk: true, Late: d.pick("late", 0, 5*o.MaxTTL), DiskMost: d.pick("disk", time.Millisecond, o.MaxTTL/50, o.MaxTTL/10),
	}
	o.Load.Mix.LengthLeast = o.lengthLeast()
	l := &o.Load
	l.Clients, l.Keys = 1+d.intN("load/clients", 2), 1+d.intN("load/keys", 3)
	l.Kinds = l.Kinds[:min(len(l.Kinds), l.Keys)]
	l.Think, l.Hold = d.pick("load/think", 20*time.Millisecond, 100*time.Millisecond, o.MaxTTL), d.pick("load/hold", 20*time.Millisecond, o.MaxTTL, 2*o.MaxTTL)
	l.Patience, l.Long = 3*o.MaxTTL, 0
	every := o.Faults.Weights
	o.Faults.Weights = [fault.Kinds]int{}
	for _, f := range []fault.Kind{
		fault.Crash, fault.Stop, fault.Suspend, fault.Split, fault.OneWay, fault.Bridge, fault.Isolate, fault.Link, fault.Break, fault.Stall, fault.Slow, fault.Wall, fault.Rate, fault.Ring, fault.Flap,
		fault.Full, fault.Ambush,
	} {
		o.Faults.Weights[f] = min(every[f], 1)
	}
	w := &o.Faults.Weights
	w[fault.Proposal], w[fault.Targeted] = d.pickInt("weight/Proposal", 0, 2, 4), d.pickInt("weight/Strike", 0, 2, 4)
	for _, f := range []fault.Kind{fault.Disk, fault.Accuse, fault.Gray} {
		w[f] = d.intN("weight/"+f.StreamName(), 2)
	}
	o.Faults.Every = d.pick("every", o.MaxTTL, 3*o.MaxTTL, 10*o.MaxTTL)
	o.Convert = &Convert{First: make(map[string]Stage), Unmet: d.intN("unmet", 2) == 0, Finish: d.intN("finish", 2) == 0}
	o.drawQuiet("converting")
	o.drawSteps(d.rng("steps"))
	return o
}

// drawSteps draws when which node is restarted at which stage. A third of all worlds keeps to the
// order of the two rolling restarts, with some nodes left behind in every other such world; in the
// others each node goes its own way. A quiet world keeps to the order and leaves no node behind, at
// a pace that leaves time to judge the mesh afterwards.
func (o *Options) drawSteps(r *rand.Rand) {
	c, names := o.Convert, o.NodeNames()
	at := fault.Within(r, 4*o.MaxTTL)
	step := func(host string, to Stage) {
		c.Steps = append(c.Steps, ConvertStep{At: at, Host: host, Stage: to, Down: fault.Within(r, o.MaxTTL/2)})
	}
	for _, name := range names[o.Voters:] {
		c.First[name] = Stage(r.IntN(3))
	}
	quiet := o.isQuiet()
	if r.IntN(3) == 0 || quiet {
		left := 0
		if !quiet && r.IntN(2) == 0 {
			left = r.IntN(o.Voters/2 + 2)
		}
		pace := o.MaxTTL
		if !quiet {
			pace = 2*o.MaxTTL + fault.Within(r, 2*o.MaxTTL)
		}
		for _, to := range []Stage{StageConverting, StageDynamic} {
			order := slices.Clone(names)
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for i, name := range order {
				if to == StageConverting && i < left || !quiet && r.IntN(20) == 0 {
					continue
				}
				step(name, to)
				at += pace/2 + fault.Within(r, pace)
			}
		}
		return
	}
	end := at + 20*o.MaxTTL
	for _, name := range names {
		now := c.First[name]
		for at = fault.Within(r, 6*o.MaxTTL); at < end && now != StageDynamic; at += o.MaxTTL/4 + fault.Within(r, 6*o.MaxTTL) {
			switch k := r.IntN(10); {
			case now == StageFixed && k == 0:
				now = StageDynamic
			case now == StageFixed:
				now = StageConverting
			case k < 3:
				now = StageFixed
			default:
				now = StageDynamic
			}
			step(name, now)
		}
	}
	slices.SortStableFunc(c.Steps, func(a, b ConvertStep) int { return int(a.At - b.At) })
	if r.IntN(3) > 0 || o.MaxTTL/2 < vote.MinTTL {
		return
	}
	o.Dynamic.LeastTTL = o.MaxTTL / 2
	for i := range c.Steps {
		if c.Steps[i].Stage == StageDynamic && r.IntN(2) == 0 {
			c.Steps[i].MaxTTL = o.MaxTTL / 2
		}
	}
}
