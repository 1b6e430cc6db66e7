package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Following makes a world whose electorate follows the living: every host has a disk, and may be voted in. Options.Voters is how many of
// them found the electorate.
type Following struct {
	MaxVoters int           // zero: the default of the library
	Unfounded bool          // the founders aren't told to found
	Late      time.Duration // those that don't found start within so long
	DiskMost  time.Duration // a save takes up to so long; 5 ms by default
	Absent    []string      // hosts that a scenario starts when it sees fit, with Start
}

// disk is what a host keeps while its process dies.
type disk struct {
	state  vote.State
	exists bool
	saving *vote.State // a save under way: it may or may not be there after a crash
	broken bool        // nothing can be written
	copies []vote.State
	made   int // how many directories there have been
}

// eyes are what a process's gossip sees of each host.
type eyes struct {
	last  Moment // when it was last heard of
	dir   vote.Dir
	state electorate.Presence
}

// followers is the part of the world that only those with a changing electorate have.
type followers struct {
	decided map[uint64]vote.Electorate // all electorates that any node knows
	newest  uint64
	accused map[*host]int // hosts whose gossip takes all others for dead
	said    map[*host]bool
}

// Times of gossip, in parts of the maximum TTL.
const (
	gossipsPerTTL = 5
	unseenTTLs    = 1  // after which a silent node is taken for failed
	forgottenTTLs = 20 // and forgotten
)

func (w *World) setUpFollowing() {
	w.decided = make(map[uint64]vote.Electorate)
	w.accused = make(map[*host]int)
	w.said = make(map[*host]bool)
}

// followingConfig returns what a life is told of its directory, and makes one where there is none.
func (w *World) followingConfig(h *host) *node.Following {
	f := w.opt.Following
	if f == nil {
		return nil
	}
	fresh := !h.disk.exists
	if fresh {
		h.disk.made++
		h.disk.state = vote.State{Mesh: "sim", Name: h.name, Dir: vote.Dir(rand.New(w.chance("dir", h.alias, h.disk.made)).Uint64() | 1)}
	}
	// Several founders leave it in their configuration, which is a mistake that does no harm as long as one of them remembers. One who founds alone
	// takes it out: with its directory lost, and cut off from the others, it would found a second mesh. It does so when the electorate is stored: a founder
	// that has pledged, dies before that, and isn't told to found any more, waits for ever for somebody who knows of an electorate. (Found by seed 31200028.)
	found := !f.Unfounded && h.voter && (w.opt.Voters > 1 || w.newest == 0 || len(h.disk.state.Pledge) > 0 && h.disk.state.Electorate.Version == 0)
	return &node.Following{State: h.disk.state, Fresh: fresh, Found: found, MaxVoters: f.MaxVoters}
}

// follows takes what a process of a following world has to say besides messages: what it wants stored, whom it wants to be connected to, and
// which electorate it knows. It reports whether a connection was closed.
func (w *World) follows(p *process) bool {
	for _, s := range p.m.Saves() {
		w.save(p, s)
	}
	closed := w.connects(p)
	w.knows(p)
	return closed
}

// save writes a state in a while, unless the process dies before, or the disk is broken.
func (w *World) save(p *process, s vote.State) {
	h := p.host
	h.disk.saving = &s
	most := w.opt.Following.DiskMost
	if most == 0 {
		most = 5 * time.Millisecond
	}
	w.push(event{at: w.now.add(within(h.luck, most)) + 1, kind: eventRun, p: p, f: func() {
		h.disk.saving = nil
		failed := ""
		if h.disk.broken {
			failed = "no space left on device"
		} else {
			h.disk.write(s)
		}
		p.m.Saved(p.read(w.now), s.Writes, failed)
		w.settle(p)
	}})
}

// copiesMost is how many earlier states of a disk are kept to be put back.
const copiesMost = 64

func (d *disk) write(s vote.State) {
	if d.exists && len(d.copies) < copiesMost {
		d.copies = append(d.copies, d.state)
	}
	d.state, d.exists = s, true
}

// powerFails is a save that is cut off: it is wholly there or not at all.
func (d *disk) powerFails(luck *rand.Rand) {
	if d.saving != nil && !d.broken && luck.IntN(2) == 0 {
		d.write(*d.saving)
	}
	d.saving = nil
}

// connects dials those whom a process wants to be connected to, and hangs up on the others. It reports whether it closed a connection.
func (w *World) connects(p *process) (closed bool) {
	wanted := p.m.Wanted()
	for i, name := range w.voters {
		d := &p.dials[i]
		is := slices.Contains(wanted, name)
		if is && !d.wanted {
			w.push(event{at: w.now.add(within(p.host.luck, 20*time.Millisecond)), kind: eventDial, p: p, n: uint64(i)})
		}
		d.wanted = is
		if l := d.l; !is && l != nil && l.state == linkUp && l.ends[0].open {
			w.close(p, l.ends[0].conn)
			closed = true
		}
	}
	return closed
}

// knows holds what a process takes for the electorate against what others do: of each version there is one, and each was decided by the one
// before.
func (w *World) knows(p *process) {
	e := p.m.Known()
	if e == nil || e.Version == 0 || e.Version == p.knew {
		return
	}
	if e.Version < p.knew {
		w.violate(checkElectorate, "%s knew electorate %d, and goes back to %d", p.host.alias, p.knew, e.Version)
	}
	p.knew = e.Version
	if known, ok := w.decided[e.Version]; ok {
		if !known.Equal(e) {
			w.violate(checkElectorate, "there are two electorates %d: %+v, and at %s %+v", e.Version, known, p.host.alias, *e)
		}
		return
	}
	if before, ok := w.decided[e.Version-1]; ok {
		if err := electorate.Follows(&before, e); err != nil {
			w.violate(checkElectorate, "%s goes by %+v: %v", p.host.alias, *e, err)
		}
	}
	w.decided[e.Version] = *e
	w.newest = max(w.newest, e.Version)
	w.fig.Electorates++
	w.disturb()
	w.note(p.host, "goes by electorate %d: %v, old %v", e.Version, e.Voters, e.Old)
}

// gossips lets a process's gossip look around, and arranges the next look.
func (w *World) gossips(p *process) {
	all := make([]electorate.Seen, 0, len(w.hosts))
	every := w.opt.MaxTTL / gossipsPerTTL
	for i, o := range w.hosts {
		if o == p.host {
			continue
		}
		e := &p.eyes[i]
		switch there := o.p != nil && o.hung == pauseNone && w.isOpen(p.host, o) && w.isOpen(o, p.host); {
		case w.accused[p.host] > 0 && e.state == electorate.Alive:
			e.state = electorate.Failed // though it may well be there
		case there && w.accused[p.host] == 0:
			e.last, e.state, e.dir = w.now, electorate.Alive, o.p.dir
		case w.said[o] && o.p == nil && e.state != electorate.Unseen:
			e.state = electorate.Left
		case e.state == electorate.Alive && w.now > e.last.add(unseenTTLs*w.opt.MaxTTL):
			e.state = electorate.Failed
		case w.now > e.last.add(forgottenTTLs*w.opt.MaxTTL):
			e.state = electorate.Unseen
		}
		if e.state != electorate.Unseen {
			all = append(all, electorate.Seen{Name: o.name, Dir: e.dir, State: e.state})
		}
	}
	p.m.Gossip(p.read(w.now), all)
	w.settle(p)
	w.push(event{at: w.now.add(every/2 + within(p.host.luck, every)), kind: eventRun, p: p, f: func() { w.gossips(p) }})
}

// coveredFollowing reports whether a majority under some electorate is bound to a lease for as long as it lasts.
func (w *World) coveredFollowing(r *Request) bool {
	bound := make(map[vote.NodeID]bool, len(w.hosts))
	for _, h := range w.hosts {
		bound[h.name] = bound[h.name] || w.binds(h, r)
	}
	majority := func(voters []vote.Elector) bool {
		n := 0
		for _, v := range voters {
			if bound[v.Name] {
				n++
			}
		}
		return n >= len(voters)/2+1
	}
	for v := w.newest; v > 0 && v+8 > w.newest; v-- {
		if e, ok := w.decided[v]; ok && majority(e.Voters) && (!e.Joint() || majority(e.Old)) {
			return true
		}
	}
	return false
}

// spares reports whether the mesh can do without a host's disk for good: in the newest electorate majorities remain whose disks are as they
// were, and it isn't so in the electorate that may be decided next either. Nor must the others need it to learn of the newest: they go by an earlier one until then.
func (w *World) spares(h *host) bool {
	e := w.decided[w.newest]
	half := func(voters []vote.Elector) bool {
		n := 0
		for _, v := range voters {
			for _, o := range w.hosts {
				if o.name == v.Name && o != h && !o.retired && o.disk.exists && o.disk.state.Dir == v.Dir && o.disk.state.Electorate.Version > 0 { // who has only pledged may not know that it was founded
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
	for _, o := range w.hosts {
		if o != h && !o.retired && o.disk.exists {
			known = max(known, o.disk.state.Electorate.Version)
		}
	}
	if !goesOn(e) || known < e.Version && !goesOn(w.decided[known]) {
		return false
	}
	for _, o := range w.hosts { // what a voter has accepted may be decided
		if v := &o.disk.state.Value; o.disk.exists && v.Version > e.Version && !half(v.Voters) {
			return false
		}
		if s := o.disk.saving; s != nil && s.Value.Version > e.Version && !half(s.Value.Voters) {
			return false
		}
	}
	return true
}

// DrawFollowing draws a world whose electorate follows the living.
func DrawFollowing(seed uint64) Options {
	o := Draw(seed)
	r := rand.New(rand.NewPCG(seed, 3))
	pick := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	o.MaxTTL, o.TTL = pick(time.Second, time.Second, 2*time.Second), nil
	o.Net.Most = min(o.Net.Most, o.MaxTTL/50)
	o.Net.Least = min(o.Net.Least, o.Net.Most)
	o.Voters, o.Clients = pickInt(r, 1, 2, 3, 3, 3, 4, 5), r.IntN(5)
	o.Following = &Following{MaxVoters: pickInt(r, 3, 5, 7), Late: pick(0, 5*o.MaxTTL, 20*o.MaxTTL), DiskMost: pick(time.Millisecond, 20*time.Millisecond, o.MaxTTL/4)}
	o.Load.Mix.LengthLeast = o.lengthLeast()
	o.Load.Mix.MinHold = 0 // is kept by voters that may be voted out; see docs/protocol.md
	o.Load.Clients = min(o.Load.Clients, 3)
	o.Faults.Every = pick(o.MaxTTL/2, o.MaxTTL, 3*o.MaxTTL, 10*o.MaxTTL)
	o.Faults.Weights[FaultTwin], o.Faults.Weights[FaultRefuse], o.Faults.Weights[FaultGossip] = 0, 0, 0
	for f := faultFixed; f < faultEnd; f++ {
		if r.IntN(3) > 0 {
			o.Faults.Weights[f] = 1 + r.IntN(4)
		}
	}
	if r.IntN(3) == 0 { // changes alone, without much that goes wrong
		for f := range faultFixed {
			o.Faults.Weights[f] = 0
		}
		o.Faults.Weights[FaultCrash] = 1
	}
	return o
}

// isAbsent reports whether a host is to be started by a scenario.
func (w *World) isAbsent(h *host) bool {
	return w.opt.Following != nil && slices.Contains(w.opt.Following.Absent, h.alias)
}

// lateness draws how late a host starts for the first time.
func (w *World) lateness(h *host) time.Duration {
	if f := w.opt.Following; f != nil && !h.voter && f.Late > 0 {
		return within(rand.New(w.chance("late", h.alias)), f.Late)
	}
	return 0
}

// diskAlarm reports whether an alarm is one that a broken disk brings about.
func (w *World) diskAlarm(text string) bool {
	return w.fig.Fired[FaultDisk] > 0 && strings.HasPrefix(text, "the state directory can't be written")
}
