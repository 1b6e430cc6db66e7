package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Dynamic configures a world with dynamic membership: every host has a disk and may be voted in.
// The first Options.Voters hosts are the founders of the electorate.
type Dynamic struct {
	MaxVoters int // zero: the default of the library
	// Most gives single hosts a MaxVoters of their own, from their next start on.
	Most      map[string]int
	Unfounded bool          // the founders aren't told to bootstrap the electorate
	Late      time.Duration // the latest first start of a host that isn't a founder
	DiskMost  time.Duration // the longest time of a save; 5 ms by default
	// MaxTTL is the maximum TTL that all nodes are configured with at first; zero: Options.MaxTTL.
	// MaxTTLChanges are restarts with another. Options.MaxTTL is the largest of all.
	MaxTTL        time.Duration
	MaxTTLChanges []MaxTTLChange
	// LeastTTL is the least maximum TTL that a scenario gives a node by World.ChangeMaxTTL, if it
	// is less than those above.
	LeastTTL time.Duration
	// Brisk makes connections be dialed, given up and redialed as often per maximum TTL as in
	// production, where the maximum TTL is 10 s by default.
	Brisk bool
	// NewsMost is how late gossip's news of a host is at most: that it runs, has another identity, or
	// is gone. Each piece of news is late by some time for each process.
	NewsMost time.Duration
	Aim      Aim      // of the targeted faults
	Absent   []string // hosts started by the scenario, with Start
}

// disk is the state of a host that outlives its process.
type disk struct {
	state  vote.DiskState
	exists bool
	saving *vote.DiskState // the save under way; a crash keeps or loses the state
	broken bool            // nothing can be written
	frozen bool            // a save neither ends nor fails
	waits  []event         // completions of saves, held back until the thaw
	copies []vote.DiskState
	made   int // how many directories the host has had
}

// gossipView is what the gossip of a process knows of one host.
type gossipView struct {
	last  Moment // when the host was last seen
	dir   vote.Dir
	state vote.Presence
	news  sighting // the newest, not known before due
	due   Moment
	known sighting
}

// sighting says whether a host can be seen, and the identity of its process.
type sighting struct {
	there bool
	dir   vote.Dir
}

// learn returns what is known of a host by now, of which s is true. Each change becomes known some
// time after, most at most, and only if the host doesn't change again before.
func (v *gossipView) learn(s sighting, now Moment, most time.Duration, r *rand.Rand) sighting {
	switch {
	case most == 0:
		v.news, v.known = s, s
	case s != v.news:
		v.news, v.due = s, now.Add(fault.Within(r, most))
	case now >= v.due:
		v.known = s
	}
	return v.known
}

// dynamicWorld is the part of the world used only for dynamic membership.
type dynamicWorld struct {
	w            *World
	decided      map[uint64]vote.Electorate // all electorates known to any node
	newest       uint64
	reportFailed map[*host]int // hosts with gossip that reports all others as failed
	left         map[*host]bool
	gray         map[[2]*host]int // how many cuts of a link don't affect gossip
	toDial       []vote.NodeID    // reused at each call of updateDials
}

// Times of gossip, per maximum TTL or in maximum TTLs.
const (
	gossipsPerTTL = 5
	unseenTTLs    = 1  // after this time gossip reports a silent node as failed
	forgottenTTLs = 20 // after this time gossip forgets a silent node
)

func (d *dynamicWorld) setUp() {
	d.decided = make(map[uint64]vote.Electorate)
	d.reportFailed = make(map[*host]int)
	d.left = make(map[*host]bool)
	d.gray = make(map[[2]*host]int)
}

// configOf returns the directory for a new incarnation, and creates a directory if none
// exists.
func (d *dynamicWorld) configOf(h *host) *node.Dynamic {
	f := d.w.opt.Dynamic
	if f == nil {
		return nil
	}
	fresh := !h.disk.exists
	if fresh {
		h.disk.made++
		h.disk.state = vote.DiskState{Mesh: "sim", Name: h.name, Dir: vote.Dir(rand.New(d.w.chance("dir", h.alias, h.disk.made)).Uint64() | 1)}
	}
	// Several founders keep Bootstrap set in their configuration: a mistake, but harmless as long
	// as one of them remembers the electorate. A single founder unsets Bootstrap: without its
	// directory and cut off from the others, the founder would bootstrap a second mesh. The
	// operator unsets Bootstrap only when the electorate is stored: a founder that pledged, crashed
	// before the save and is no longer told to bootstrap would wait indefinitely for a node with an
	// electorate.
	found := d.w.opt.ByCount != nil || !f.Unfounded && h.voter && (d.w.opt.Voters > 1 || d.newest == 0 || len(h.disk.state.Pledge) > 0 && h.disk.state.Electorate.Version == 0)
	most := f.MaxVoters
	if own, ok := f.Most[h.alias]; ok {
		most = own
	}
	return &node.Dynamic{State: h.disk.state, Fresh: fresh, MayFound: found, MaxVoters: most}
}

// takeOutputs takes a process's outputs other than messages: states to store, wanted connections,
// and the known electorate. It reports whether a connection was closed.
func (d *dynamicWorld) takeOutputs(p *process) bool {
	for _, s := range p.m.Saves() {
		d.save(p, s)
	}
	for _, c := range p.m.RegisterCalls() {
		d.w.registry.calls(p, c)
	}
	closed := d.updateDials(p)
	d.compareElectorates(p)
	return closed
}

// save writes a state after a while, unless the process dies before or the disk is broken.
func (d *dynamicWorld) save(p *process, s vote.DiskState) {
	h := p.host
	h.disk.saving = &s
	p.savingSince = d.w.now + 1
	d.w.nemesis.trigger(h, stepSaves, nil)
	most := d.w.opt.Dynamic.DiskMost
	if most == 0 {
		most = 5 * time.Millisecond
	}
	saved := event{at: d.w.now.Add(fault.Within(h.rng, most)+h.slowDisk) + 1, kind: eventRun, p: p, f: func() {
		h.disk.saving = nil
		p.savingSince = 0
		failed := ""
		if h.disk.broken {
			failed, p.saveFailed = "no space left on device", d.w.now
		} else {
			h.disk.write(s)
		}
		p.m.Saved(p.read(d.w.now), s.Writes, failed)
		d.w.settle(p)
		d.w.nemesis.trigger(h, stepSaved, nil)
	}}
	if h.disk.frozen {
		h.disk.waits = append(h.disk.waits, saved)
		return
	}
	d.w.push(saved)
}

// copiesMost is how many earlier states of a disk are kept for PutBack.
const copiesMost = 64

func (d *disk) write(s vote.DiskState) {
	if d.exists && len(d.copies) < copiesMost {
		d.copies = append(d.copies, d.state)
	}
	d.state, d.exists = s, true
}

// powerFails interrupts a save: the new state is stored wholly or not at all.
func (d *disk) powerFails(rng *rand.Rand) {
	if d.saving != nil && !d.broken && rng.IntN(2) == 0 {
		d.write(*d.saving)
	}
	d.saving = nil
}

// updateDials dials the nodes that a process wants to be connected to, and hangs up on the others.
// It reports whether it closed a connection.
func (d *dynamicWorld) updateDials(p *process) (closed bool) {
	d.toDial = p.m.AppendWanted(d.toDial[:0])
	for i, name := range d.w.voters {
		dial := &p.dials[i]
		is := slices.Contains(d.toDial, name)
		if is && !dial.wanted {
			d.w.push(event{at: d.w.now.Add(fault.Within(p.host.rng, 20*time.Millisecond)), kind: eventDial, p: p, n: uint64(i)})
		}
		dial.wanted = is
		if l := dial.l; !is && l != nil && l.state == linkUp && l.ends[0].open {
			d.w.net.close(p, l.ends[0].conn)
			closed = true
		}
	}
	return closed
}

// compareElectorates compares the electorate known to a process with those of other processes: each
// version has a single electorate, decided by the version before.
func (d *dynamicWorld) compareElectorates(p *process) {
	e := p.m.Known()
	if e == nil || e.Version == 0 || e.Version == p.knew {
		return
	}
	if e.Version < p.knew {
		d.w.judge.violate(checkElectorate, "%s knew electorate %d, and goes back to %d", p.host.alias, p.knew, e.Version)
	}
	p.knew = e.Version
	d.w.nemesis.trigger(p.host, stepKnows, e)
	if known, ok := d.decided[e.Version]; ok {
		if !known.Equal(e) {
			d.w.judge.violate(checkElectorate, "there are two electorates %d: %+v, and at %s %+v", e.Version, known, p.host.alias, *e)
		}
		return
	}
	if before, ok := d.decided[e.Version-1]; ok {
		if err := electorate.CheckSuccessor(&before, e); err != nil {
			d.w.judge.violate(checkElectorate, "%s applies %+v: %v", p.host.alias, *e, err)
		}
	}
	d.w.population.noteBirth(e)
	d.decided[e.Version] = *e
	d.newest = max(d.newest, e.Version)
	d.w.fig.Electorates++
	d.w.fig.Changes += uint64(bit(e.Joint()))
	d.w.order.disturb()
	d.w.note(p.host, "applies electorate %d: %v, old %v", e.Version, e.Voters, e.Old)
}

// updateGossip updates the gossip view of a process and schedules the next update.
func (d *dynamicWorld) updateGossip(p *process) {
	all := make([]electorate.Seen, 0, len(d.w.hosts))
	every, most := d.w.opt.MaxTTL/gossipsPerTTL, d.w.opt.Dynamic.NewsMost
	if d.w.faults.healed {
		most = 0
	}
	for i, o := range d.w.hosts {
		if o == p.host {
			continue
		}
		e := &p.gossip[i]
		var seen sighting
		if o.p != nil && o.hung == pauseNone && d.w.nemesis.passesGossip(p.host, o) && d.w.nemesis.passesGossip(o, p.host) {
			seen = sighting{true, o.p.gossipDir()}
		}
		known := e.learn(seen, d.w.now, most, p.host.rng)
		switch {
		case d.reportFailed[p.host] > 0 && e.state == vote.Alive:
			e.state = vote.Failed // although the host may be alive
		case known.there && d.reportFailed[p.host] == 0:
			e.last, e.state, e.dir = d.w.now, vote.Alive, known.dir
		case d.left[o] && o.p == nil && e.state != vote.Unseen:
			e.state = vote.Left
		case e.state == vote.Alive && d.w.now > e.last.Add(unseenTTLs*d.w.opt.MaxTTL):
			e.state = vote.Failed
		case d.w.now > e.last.Add(forgottenTTLs*d.w.opt.MaxTTL):
			e.state = vote.Unseen
		}
		if e.state != vote.Unseen {
			all = append(all, electorate.Seen{Name: o.name, Dir: e.dir, State: e.state})
		}
	}
	p.m.Gossip(p.read(d.w.now), all)
	d.w.settle(p)
	d.w.push(event{at: d.w.now.Add(every/2 + fault.Within(p.host.rng, every)), kind: eventRun, p: p, f: func() { d.updateGossip(p) }})
}

// backedByElectorate reports whether, under one of the last eight electorates, a majority is bound
// to a lease until its end.
func (d *dynamicWorld) backedByElectorate(r *Request) bool {
	isBound := func(v vote.Elector) bool {
		return slices.ContainsFunc(d.w.hosts, func(h *host) bool { return h.name == v.Name && d.w.validity.backs(h, r) })
	}
	majority := func(voters []vote.Elector) bool {
		need := len(voters)/2 + 1
		for _, v := range voters {
			if need > 0 && isBound(v) {
				need--
			}
		}
		return need <= 0
	}
	if d.w.opt.ByCount != nil {
		return slices.ContainsFunc(d.w.population.underWhich(r), func(v uint64) bool {
			e := d.decided[v]
			return majority(e.Voters) && (!e.Joint() || majority(e.Old))
		})
	}
	for v := d.newest; v > 0 && v+8 > d.newest; v-- {
		if e, ok := d.decided[v]; ok && majority(e.Voters) && (!e.Joint() || majority(e.Old)) {
			return true
		}
	}
	return false
}

// canLoseDisk reports whether the mesh can lose a host's disk for good. Majorities with intact
// disks must remain in the newest electorate and in every electorate that may be decided next. If
// the remaining disks know only an earlier electorate, majorities must remain in the earlier
// electorate too, since the nodes apply it until they learn of the newest.
func (d *dynamicWorld) canLoseDisk(h *host) bool {
	if h.voter && d.w.opt.Voters > 1 && !d.foundersRememberWithout(h) {
		return false
	}
	e := d.decided[d.newest]
	half := func(voters []vote.Elector) bool {
		n := 0
		for _, v := range voters {
			for _, o := range d.w.hosts {
				// A voter that has only pledged may not know that the electorate was founded.
				if o.name == v.Name && o != h && !o.retired && o.disk.exists && o.disk.state.Dir == v.Dir && o.disk.state.Electorate.Version > 0 {
					n++
				}
			}
		}
		return n >= len(voters)/2+1
	}
	goesOn := func(e vote.Electorate) bool {
		return e.Version > 0 && half(e.Voters) && (!e.Joint() || half(e.Old))
	}
	known := uint64(0)
	for _, o := range d.w.hosts {
		if o != h && !o.retired && o.disk.exists {
			known = max(known, o.disk.state.Electorate.Version)
		}
	}
	if !goesOn(e) || known < e.Version && !goesOn(d.decided[known]) {
		return false
	}
	for _, o := range d.w.hosts { // a value accepted by a voter may be decided
		if v := &o.disk.state.Value; o.disk.exists && v.Version > e.Version && !half(v.Voters) {
			return false
		}
		if s := o.disk.saving; s != nil && s.Value.Version > e.Version && !half(s.Value.Voters) {
			return false
		}
	}
	return true
}

// foundersRememberWithout reports whether a founder other than h still knows an electorate, or is
// gone for good: either keeps the others from founding a second mesh. If all founders have lost
// their directories and are cut off from the other nodes, they found a second mesh, which is beyond
// the promises of dynamic membership (docs/simulation.md).
func (d *dynamicWorld) foundersRememberWithout(h *host) bool {
	return slices.ContainsFunc(d.w.hosts, func(o *host) bool {
		return o != h && o.voter && (o.retired || o.disk.exists && o.disk.state.Electorate.Version > 0)
	})
}

// isAbsent reports whether a scenario starts the host.
func (d *dynamicWorld) isAbsent(h *host) bool {
	return d.w.opt.Dynamic != nil && slices.Contains(d.w.opt.Dynamic.Absent, h.alias)
}

// lateness draws the delay of a host's first start.
func (d *dynamicWorld) lateness(h *host) time.Duration {
	if f := d.w.opt.Dynamic; f != nil && !h.voter && f.Late > 0 {
		return fault.Within(rand.New(d.w.chance("late", h.alias)), f.Late)
	}
	return 0
}

// diskAlarm reports whether an alarm about the disk is true: a save has just failed, or the current
// save is overdue. The alarm also counts as true if the process was stopped meanwhile: after the
// resume, the disk appears not to have answered.
func (d *dynamicWorld) diskAlarm(p *process, text string) bool {
	if !strings.HasPrefix(text, "the state directory can't be written") {
		return false
	}
	overdue := vote.Validity(electorate.SaveLimit(d.w.opt.leastTTL())) // by a clock that runs fast
	return p.saveFailed == d.w.now && d.w.now > 0 || p.savingSince > 0 && d.w.now >= p.savingSince.Add(overdue)
}
