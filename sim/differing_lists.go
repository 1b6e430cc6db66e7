package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// meetEvery is the longest time between two meetings of a process with the processes within its
// reach, in worlds with different voter lists.
const meetEvery = time.Second

// Relist gives a host another configuration, valid from the host's next start on.
type Relist struct {
	At     time.Duration
	Host   string
	Voters []string
	MaxTTL time.Duration // zero: it stays as it is
	Down   time.Duration // how long the process stays down after being killed at At
}

// Lists gives nodes voter lists and maximum TTLs of their own, which must be equal and aren't. The
// electorate of such a world is fixed, all of its hosts can vote, and no way between two hosts is
// cut while exclusion is checked: nodes without contact can't know that their lists differ.
type Lists struct {
	First   map[string][]string      // each host's list at the start
	MaxTTL  map[string]time.Duration // each host's at the start; zero: Options.MaxTTL
	Changes []Relist
	Last    []string // the list of all, once the world settles; all then have Options.MaxTTL
}

// lists is the state of a world with different voter lists; nil in other worlds.
type lists struct {
	of      map[*host][]vote.NodeID // the list of each host's next process
	most    map[*host]time.Duration // the maximum TTL of each host's next process
	settled bool                    // all hosts have the last list: the remaining changes don't happen
}

func nodeIDs(names []string) []vote.NodeID {
	ids := make([]vote.NodeID, len(names))
	for i, n := range names {
		ids[i] = vote.NodeID(n)
	}
	slices.Sort(ids)
	return ids
}

func (w *World) setUpLists() {
	l := w.opt.Lists
	if l == nil {
		return
	}
	w.lists = &lists{of: make(map[*host][]vote.NodeID), most: make(map[*host]time.Duration)}
	for _, h := range w.hosts {
		w.lists.of[h], w.lists.most[h] = nodeIDs(l.First[h.alias]), cmp.Or(l.MaxTTL[h.alias], w.opt.MaxTTL)
	}
	for _, c := range l.Changes {
		w.At(c.At, func() {
			if w.lists.settled {
				return
			}
			if h := w.host(c.Host); c.MaxTTL != 0 {
				w.lists.most[h] = c.MaxTTL
			}
			w.Relist(c.Host, c.Down, c.Voters...)
		})
	}
}

// Relist kills a host's process and, after a while, starts another process with another list of
// voters.
func (w *World) Relist(name string, down time.Duration, voters ...string) {
	h := w.host(name)
	w.lists.of[h] = nodeIDs(voters)
	w.note(h, "is given the list %v and the maximum TTL %v", voters, w.lists.most[h])
	if w.crash(h, endingAtOnce, nil) {
		w.faults.bringBack(h, down)
	}
}

// relistAll gives all hosts the last list, so that every request can be served.
func (w *World) relistAll() {
	if w.lists == nil {
		return
	}
	w.lists.settled = true
	for _, h := range w.hosts {
		w.lists.most[h] = w.opt.MaxTTL
		last := nodeIDs(w.opt.Lists.Last)
		if h.p == nil || !slices.Equal(h.p.voters, last) || h.p.maxTTL != w.opt.MaxTTL {
			w.Relist(h.alias, 0, w.opt.Lists.Last...)
		}
	}
}

// terms returns the configuration of a process. A converting process counts as fixed.
func (p *process) terms() vote.Terms {
	return vote.Terms{Voters: p.voters, MaxTTL: p.maxTTL, Dynamic: p.stage == StageDynamic, Birth: p.birth}
}

// meet tells each of two processes the configuration and state of the other, as every handshake
// does. The result says whether their configurations are equal.
func (w *World) meet(p, q *process) bool {
	tell := func(to, of *process) {
		s := vote.Sighting{Peer: of.id, Terms: of.terms(), Account: of.m.Account(of.read(w.now))}
		if of.agrees(to) {
			s.Terms = to.terms()
		} else {
			s.Terms.Dynamic = of.kind() == StageDynamic
		}
		s.Addr = of.host.alias
		w.misconfigured.meets(to, of, s.Standing)
		to.m.Met(to.read(w.now), &s)
		w.settle(to)
	}
	w.conversion.clashed = w.conversion.clashed || w.conversion.converts() && !agreeOnKinds(p, q)
	tell(p, q)
	tell(q, p)
	return p.agrees(q)
}

// agrees reports whether two processes have configurations with which they link.
func (p *process) agrees(q *process) bool {
	decided := p.kind() != StageFixed && q.kind() != StageFixed && max(p.kind(), q.kind()) == StageDynamic
	return slices.Equal(p.voters, q.voters) && agreeOnKinds(p, q) && (decided || p.maxTTL == q.maxTTL)
}

// meetsAll has a process meet all processes within its reach, and schedules the next meeting.
func (w *World) meetsAll(p *process) {
	for _, o := range w.hosts {
		if o.p != nil && o != p.host && o.hung == pauseNone && w.net.isOpen(p.host, o) && w.net.isOpen(o, p.host) {
			w.meet(p, o.p)
		}
	}
	if w.lists == nil && w.opt.Convert == nil && !w.misconfigured.mayExist() {
		return
	}
	w.push(event{at: w.now.Add(meetEvery/2 + fault.Within(p.host.rng, meetEvery/2)), kind: eventRun, p: p, f: func() { w.meetsAll(p) }})
}

// listed reports whether a process wants a connection to a voter.
func (w *World) listed(p *process, voter int) bool {
	return w.lists == nil || slices.Contains(p.voters, w.voters[voter])
}

// listsDiffer reports whether two processes have different configurations. If so, a node isn't
// served if its configuration has no majority.
func (w *World) listsDiffer() bool {
	if w.lists == nil {
		return false
	}
	var first *process
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		if first == nil {
			first = h.p
		}
		return h.p != nil && !h.p.agrees(first)
	})
}

// ofLists reports whether an alarm is expected in a world with different voter lists.
func (w *World) ofLists(alarm string) bool {
	return (w.lists != nil || w.conversion.mayForfeit()) && strings.Contains(alarm, "configuration")
}

// DrawLists draws a world like [Draw], but with a voter list for each node. The lists are changed
// node by node while processes crash and restart.
func DrawLists(seed uint64) Options {
	o := Draw(seed)
	d := draws{seed, "lists"}
	o.Voters, o.Clients, o.TTL = 3+d.intN("voters", 4), 0, nil
	o.Net.Most = min(o.Net.Most, 50*time.Millisecond) // so that nodes meet as often as in the field
	o.Net.Least = min(o.Net.Least, o.Net.Most)
	every := o.Faults.Weights
	o.Faults.Weights = [fault.Kinds]int{}
	for _, f := range []fault.Kind{fault.Crash, fault.Break, fault.Slow, fault.Wall, fault.Rate, fault.Ambush} {
		o.Faults.Weights[f] = every[f]
	}
	o.Faults.Every = max(o.Faults.Every, o.MaxTTL)
	names := o.NodeNames()
	r := d.rng("changes")
	draw := func() []string {
		l := slices.Clone(names)
		r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		return l[:1+r.IntN(len(l))]
	}
	first := [][]string{draw(), draw()}
	o.Lists = &Lists{First: make(map[string][]string), Last: draw()}
	// A third of all worlds begins with a list per node, and a third with the same list on all
	// nodes.
	most := r.IntN(3)
	for _, n := range names {
		switch {
		case most == 0:
			o.Lists.First[n] = []string{n}
		case most == 1 || r.IntN(3) > 0:
			o.Lists.First[n] = first[0]
		default:
			o.Lists.First[n] = first[1]
		}
	}
	at := fault.Within(r, 3*o.MaxTTL)
	for range 1 + r.IntN(3) {
		next := draw()
		order := slices.Clone(names)
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		pace := fault.Within(r, 2*o.MaxTTL)
		for _, n := range order[:1+r.IntN(len(order))] {
			o.Lists.Changes = append(o.Lists.Changes, Relist{At: at, Host: n, Voters: next, Down: fault.Within(r, o.MaxTTL/2)})
			at += pace/2 + fault.Within(r, pace+1)
		}
	}
	o.drawMaxTTLs(seed)
	return o
}

// drawMaxTTLs gives the nodes of a third of all worlds different maximum TTLs, at the start and at
// the changes. Their sessions then last as long as they allow: the danger is a voter that promises
// for its long maximum, restarts with a short one, and is quiet for that only.
func (o *Options) drawMaxTTLs(seed uint64) {
	r := (draws{seed, "lists"}).rng("max-ttl")
	if r.IntN(3) > 0 {
		return
	}
	most := [...]time.Duration{o.MaxTTL, 2 * o.MaxTTL, 3 * o.MaxTTL}
	o.Lists.MaxTTL = make(map[string]time.Duration)
	for _, n := range o.NodeNames() {
		o.Lists.MaxTTL[n] = most[r.IntN(len(most))]
	}
	for i := range o.Lists.Changes {
		o.Lists.Changes[i].MaxTTL = most[r.IntN(len(most))]
	}
}

// String describes a change.
func (c Relist) String() string {
	text := fmt.Sprintf("%v: %s gets %v", c.At, c.Host, c.Voters)
	if c.MaxTTL != 0 {
		text += fmt.Sprintf(" and the maximum TTL %v", c.MaxTTL)
	}
	return text
}
