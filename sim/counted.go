package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// ByCount makes the mesh one that is born by count (package electorate), of processes without
// disks. A host is a place where processes run, one after the other; each has an identity of its
// own. Options.Voters is the number of these hosts, and Options.Dynamic must be set. The hosts of
// Options.Clients run NonVoting processes.
type ByCount struct {
	Expect    int
	MinVoters int // zero: the default
	// Most is the largest number of processes that run at a time. No key has two holders as long as
	// Most is less than Expect plus the smallest majority.
	Most  int
	First int // how many hosts are started at first, in order; zero: Expect
	// Register is the term of the register's record; zero: there is no register. With a register
	// Most has no bound.
	Register time.Duration
}

// leastVoters returns how many voters an electorate has at least.
func (c *ByCount) leastVoters() int {
	if c.MinVoters > 0 {
		return c.MinVoters
	}
	return vote.MinVoters(c.Expect)
}

// Bound returns the largest number of processes at which no two meshes can act at a time.
func (c *ByCount) Bound() int {
	smallestMajority := c.leastVoters()/2 + 1
	return c.Expect + smallestMajority - 1
}

// population is the part of the world for meshes that are born by count.
type population struct{ w *World }

// alive returns how many processes run, NonVoting ones and misconfigured processes not counted.
func (po *population) alive() (n int) {
	for _, h := range po.w.hosts {
		n += bit(h.voter && h.p != nil)
	}
	return n
}

// hasRoom reports whether a process may be started on a host.
func (po *population) hasRoom(h *host) bool {
	c := po.w.opt.ByCount
	return c == nil || !h.voter || po.alive() < c.Most
}

// waitsFirst reports whether a host isn't among the first to be started.
func (po *population) waitsFirst(h *host) bool {
	c := po.w.opt.ByCount
	if c == nil || !h.voter {
		return false
	}
	first := c.First
	if first == 0 {
		first = c.Expect
	}
	return h.i >= min(first, c.Most)
}

// renews notes that a process has given up its identity, and with it all that its voter promised.
func (po *population) renews(p *process) {
	v := p.m.Voter()
	if p.birth.Expect == 0 || v == p.voter {
		return
	}
	if p.voter != nil {
		po.w.validity.recordResidualsOf(p, p.voter)
		p.promises, p.resorts = check.NewPromises(p.host.alias, po.w.judge.violate), 0
	}
	p.voter = v
	if d := p.m.Elector().Dir; d != p.dir {
		po.w.note(p.host, "gives up its identity %x for %x", uint64(p.dir), uint64(d))
		po.w.fig.Rebirths++
		p.dir, p.knew = d, 0
		po.w.order.disturb()
	}
}

// noteBirth notes the electorate with which a mesh begins.
func (po *population) noteBirth(e *vote.Electorate) {
	if po.w.opt.ByCount == nil || vote.VersionNumber(e.Version) != 1 {
		return
	}
	po.w.fig.Births++
	po.w.note(nil, "a mesh is born of %v", e.Voters)
}

// countedAlarm reports whether an alarm is expected: a process without a majority gives up.
func (po *population) countedAlarm(text string) bool {
	c := po.w.opt.ByCount
	switch {
	case c == nil:
		return false
	case c.Register > 0:
		return strings.HasPrefix(text, "no majority of the voters") || strings.HasPrefix(text, "the register names another mesh") ||
			strings.HasPrefix(text, "this voter could not write the register") || strings.HasPrefix(text, "too few of the voters")
	}
	return strings.HasPrefix(text, "no majority of the voters") || c.Most > c.Bound() && strings.HasPrefix(text, "TWO MESHES")
}

// rebirthLimit returns how much longer than elsewhere a request may wait once the faults are over:
// until the last electorate without a majority is given up, and another mesh is born.
func (po *population) rebirthLimit() time.Duration {
	if po.w.opt.ByCount == nil {
		return 0
	}
	const birth = 15 * time.Second // the margin, and a pledge that must be undone
	// The record of a mesh that has ended stands for a term, and perhaps for another: a store that
	// is late may have it name a founding that was given up.
	return electorate.AbandonAfter(po.w.opt.MaxTTL) + 8*po.w.opt.MaxTTL + birth + 4*po.w.opt.ByCount.Register
}

// injectInPopulation injects a fault of worlds that are born by count.
func (po *population) injectInPopulation(h *host, a *Act, r *rand.Rand, did func(bool)) {
	w := po.w
	switch a.Fault {
	case fault.Begin: // another process is started, perhaps one that reaches no other for a while
		po.begins(h, a, r, did)
	case fault.End:
		if w.crash(h, endingMixed, r) {
			w.note(h, "is ended for good")
			did(true)
		}
	case fault.Rollout: // each process is replaced by one on another host
		for i, old := range w.faults.hostsOf(a.Hosts) {
			w.At(time.Duration(i)*a.By, func() {
				if w.faults.healed || old.p == nil {
					return
				}
				// With room for one more, the next process is started before the old one ends.
				if next := po.idle(r); next != nil && old.voter && po.hasRoom(next) {
					w.start(next)
					w.At(fault.Within(r, 2*a.By), func() { po.replaced(old, r) })
				} else {
					po.replaced(old, r)
				}
				did(true)
			})
		}
	case fault.Zone:
		po.loseZone(w.faults.hostsOf(a.Hosts), a, r, did)
	case fault.Apart: // processes that know no electorate don't reach those that know one
		var ways [][2]*host
		for _, x := range w.hosts {
			for _, y := range w.hosts {
				if x != y && po.knows(x) != po.knows(y) {
					ways = append(ways, [2]*host{x, y})
				}
			}
		}
		if len(ways) > 0 {
			w.note(nil, "processes without an electorate are cut off from those with one")
			w.nemesis.cutWays(ways, a.For)
			did(true)
		}
	}
}

// loseZone cuts the hosts of a zone off from the others, or ends their processes for good. Until
// the zone is back, others are started elsewhere, as far as the limit allows for them.
func (po *population) loseZone(zone []*host, a *Act, r *rand.Rand, did func(bool)) {
	w := po.w
	var rest []*host
	for _, h := range w.hosts {
		if !slices.Contains(zone, h) {
			rest = append(rest, h)
		}
	}
	if len(zone) == 0 || len(rest) == 0 {
		return
	}
	if a.Back {
		var ways [][2]*host
		for _, x := range zone {
			for _, y := range rest {
				ways = append(ways, [2]*host{x, y}, [2]*host{y, x})
			}
		}
		w.note(nil, "a zone is cut off")
		did(w.nemesis.cutWays(ways, a.For))
	} else {
		w.note(nil, "a zone is lost")
		lost := false
		for _, h := range zone {
			lost = w.crash(h, endingMixed, r) || lost
		}
		did(lost)
	}
	for _, h := range rest {
		w.At(fault.Within(r, a.For), func() {
			if !w.faults.healed && h.p == nil && po.hasRoom(h) {
				w.start(h)
			}
		})
	}
}

// begins starts a process on a host, if the limit allows for it.
func (po *population) begins(h *host, a *Act, r *rand.Rand, did func(bool)) {
	w := po.w
	if h.p != nil || !po.hasRoom(h) {
		return
	}
	if r.IntN(3) == 0 {
		var ways [][2]*host
		for _, o := range w.hosts {
			// Processes that begin may see each other.
			if o != h && (o.p == nil || r.IntN(4) > 0) {
				ways = append(ways, [2]*host{h, o}, [2]*host{o, h})
			}
		}
		w.nemesis.cutWays(ways, a.For)
	}
	w.start(h)
	did(true)
}

// replaced ends a process, and has its host or another take its place some time later.
func (po *population) replaced(old *host, r *rand.Rand) {
	w := po.w
	if w.faults.healed || !w.crash(old, endingMixed, r) {
		return
	}
	next := old
	if old.voter {
		next = po.idle(r)
	}
	if next != nil {
		w.faults.bringBack(next, fault.Within(r, w.opt.MaxTTL))
	}
}

// idle returns a host of voters without a process; nil if there is none.
func (po *population) idle(r *rand.Rand) *host {
	var idle []*host
	for _, h := range po.w.hosts {
		if h.voter && h.p == nil {
			idle = append(idle, h)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	return idle[r.IntN(len(idle))]
}

// knows reports whether a host's process knows an electorate.
func (po *population) knows(h *host) bool { return h.p != nil && h.p.knew != 0 }

// DrawByCount draws a world of processes without disks and with names that mean nothing, under a
// population that keeps to the bound of the claim: rollouts, losses of zones, scaling to nothing
// and back, replacements of processes that still run, and processes that see no other.
func DrawByCount(seed uint64) Options {
	o := Draw(seed)
	d := draws{seed, "counted"}
	c := &ByCount{Expect: d.pickInt("expect", 2, 3, 3, 3, 3, 5)}
	if c.Expect == 5 {
		c.MinVoters = d.pickInt("min-voters", 3, 4, 5)
	}
	c.Most = c.Bound()
	c.First = d.pickInt("first", c.Expect, c.Expect, c.Most)
	o.ByCount = c
	o.MaxTTL, o.TTL = d.pick("max-ttl", 400*time.Millisecond, 600*time.Millisecond, time.Second), nil
	o.Voters, o.Clients = c.Most+d.pickInt("hosts", 0, 1, 3), 0
	o.Net = Net{Least: 100 * time.Microsecond, Most: d.pick("net", time.Millisecond, o.MaxTTL/100, o.MaxTTL/50), Jitter: 50, Spikes: d.pickInt("spikes", 0, 5)}
	o.Dynamic = &Dynamic{MaxVoters: d.pickInt("max-voters", 5, 5, 7), Brisk: true, NewsMost: d.pick("news", 0, 0, 0, o.MaxTTL, 2*o.MaxTTL)}
	// The minimum token of a mesh is the wall clock, as when all voters have forgotten, so tokens
	// rise as far as clocks agree: elsewhere clocks are hours apart, here they only drift.
	o.Clocks = Clocks{}
	o.Load.Mix.LengthLeast = o.lengthLeast()
	l := &o.Load
	l.Clients, l.Keys = 1+d.intN("load/clients", 2), 1+d.intN("load/keys", 2)
	l.Kinds = l.Kinds[:min(len(l.Kinds), l.Keys)]
	l.Think, l.Hold = d.pick("load/think", 20*time.Millisecond, 100*time.Millisecond, o.MaxTTL), d.pick("load/hold", 20*time.Millisecond, o.MaxTTL, 2*o.MaxTTL)
	l.Patience, l.Try, l.Long = d.pick("load/patience", 3*o.MaxTTL, 10*o.MaxTTL), d.pickInt("load/try", 0, 20), 0
	every := o.Faults.Weights
	o.Faults.Weights, o.Faults.WallSteps = [fault.Kinds]int{}, 0
	for _, f := range []fault.Kind{
		fault.Crash, fault.Stop, fault.Suspend, fault.Split, fault.OneWay, fault.Isolate, fault.Link, fault.Break, fault.Stall, fault.Slow, fault.Rate, fault.Flap, fault.Ambush,
	} {
		o.Faults.Weights[f] = min(every[f], 1)
	}
	o.Faults.Every = d.pick("every", o.MaxTTL/2, o.MaxTTL, 3*o.MaxTTL)
	w := &o.Faults.Weights
	w[fault.Begin], w[fault.End], w[fault.Rollout], w[fault.Apart] = 6, 4, 1, d.pickInt("weight/Apart", 0, 2, 4)
	for _, f := range []fault.Kind{fault.Leave, fault.Accuse, fault.Proposal, fault.Gray, fault.CrashAll, fault.Zone} {
		w[f] = d.intN("weight/"+f.StreamName(), 2)
	}
	o.drawQuiet("counted")
	return o
}

// DrawOverBound is DrawByCount with one process more than the claim allows for.
func DrawOverBound(seed uint64) Options {
	o := DrawByCount(seed)
	o.ByCount.Most++
	o.Voters++
	o.Faults.Weights[fault.Apart] = max(o.Faults.Weights[fault.Apart], 4)
	return o
}

// underWhich returns the versions under which a lease may be backed: the last ones that the
// lease's node knows, and newer ones of the same birth.
func (po *population) underWhich(r *Request) []uint64 {
	var versions []uint64
	for v := range po.w.dynamic.decided {
		if vote.SameBirth(v, r.p.knew) && v+8 > r.p.knew {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions
}

// isBehindByCount reports whether a process doesn't know the newest electorate, or knows one of
// several births.
func (po *population) isBehindByCount(p *process) bool {
	for v := range po.w.dynamic.decided {
		if v > p.knew || !vote.SameBirth(v, p.knew) {
			return true
		}
	}
	return false
}

// settledIn reports whether a process knows the newest electorate, and reaches a majority of it.
func (po *population) settledIn(p *process) bool {
	return p.knew != 0 && p.m.Ready() && !slices.ContainsFunc(po.w.hosts, func(h *host) bool { return h.p != nil && h.p.knew > p.knew })
}
