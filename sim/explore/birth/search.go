package birth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxProcesses bounds the processes of a world.
const maxProcesses = 7

// Options are the limits of a run.
type Options struct {
	Expect    int
	MinVoters int // zero: the default
	Most      int // how many processes run at a time
	Processes int // how many processes there are in all
	Rebirths  int // how many pledges are undone
	Changes   int // how often an electorate changes
	MostSeen  int // after how many worlds the search gives up; zero: never
	// Stop, if not nil, is called now and then, and ends the search by returning true.
	Stop func(worlds, depth, waiting int) bool
	// Apart has the pairs of processes, by number, without any contact.
	Apart [][2]int

	// Crowded allows a Most beyond the claim, so alarms are expected.
	Crowded bool
}

func (o *Options) config() electorate.Config {
	return electorate.Config{MayFound: true, Expect: o.Expect, MinVoters: o.leastVoters(), MaxTTL: ttl}
}

func (o *Options) leastVoters() int { return cmp.Or(o.MinVoters, vote.MinVoters(o.Expect)) }

// Bound returns how many processes may run at a time by the claim.
func (o *Options) Bound() int { return o.Expect + o.leastVoters()/2 }

// Report is the result of a run.
type Report struct {
	Worlds    int
	Depth     int  // the largest number of events up to a world
	Births    int  // worlds with the birth of a mesh
	Two       int  // worlds with two known meshes, at most one with a majority
	Undone    int  // worlds with an undone pledge
	Steps     int  // tried events
	Gave      bool // the search gave up at Options.MostSeen, or was stopped
	Violation *Violation
}

// Violation is a world that must not be, and the events that lead to this world.
type Violation struct {
	What string
	Path []string
}

func (v *Violation) Error() string {
	return v.What + "\n  " + strings.Join(v.Path, "\n  ")
}

// state is the state of a process.
type state uint8

const (
	unborn state = iota
	runs
	dead
)

// world is a state of all processes. Worlds are map keys, so minds are numbers.
type world struct {
	state    [maxProcesses]state
	mind     [maxProcesses]mindID
	rebirths uint8
	changes  uint8
}

type explorer struct {
	o            Options
	electors     map[[2]int]vote.Elector
	all          []vote.Elector // see everyone
	minds        []mind
	mindOf       map[mind]mindID
	electorates  []vote.Electorate
	electorateOf map[string]id
	reports      []*vote.Message
	reportOf     map[string]id
	said         map[saying]id
	heard        map[hearing]heardResult
}

type saying struct {
	process int
	mind    mindID
}

// hearing is an event at a process with a mind.
type hearing struct {
	event
	mind mindID
}

type heardResult struct {
	mind mindID
	err  string
}

type eventKind uint8

const (
	starts   eventKind = iota
	ends               // the process dies
	hears              // arg is a report, of the process by
	waitsFor           // the margin passes
	gives              // the patience is over
	isTold             // arg is an electorate, known to the process by
	decides            // arg is an electorate
)

// event is something that happens at a process.
type event struct {
	kind        eventKind
	process, by uint8
	arg         id
}

// A visit is called with an event that may happen, and with the world after the event. If wrong
// isn't empty, it says why the event itself is a violation.
type visit func(next world, e event, wrong string) error

type step struct {
	world world
	event event
	from  int // the place of the world before
	depth int // the number of events up to here
}

// Run explores all worlds within the limits.
func Run(o Options) (*Report, error) {
	if o.Processes > maxProcesses || o.Processes < 1 || o.Expect < 2 || o.Most < 1 {
		return nil, fmt.Errorf("%d processes, %d at a time, %d expected: there are 1 to %d, and at least 2 are expected", o.Processes, o.Most, o.Expect, maxProcesses)
	}
	return newExplorer(o).search()
}

func newExplorer(o Options) *explorer {
	return &explorer{
		o: o, electors: make(map[[2]int]vote.Elector), electorateOf: make(map[string]id), reportOf: make(map[string]id),
		said: make(map[saying]id), heard: make(map[hearing]heardResult),
		minds: []mind{{}}, mindOf: map[mind]mindID{{}: 0},
	}
}

func (x *explorer) search() (*Report, error) {
	r := &Report{}
	met := map[world]bool{{}: true}
	steps := []step{{}}
	for at := 0; at < len(steps); at++ {
		const every = 1 << 10
		if x.o.MostSeen > 0 && len(steps) > x.o.MostSeen || x.o.Stop != nil && at%every == 0 && x.o.Stop(len(steps), steps[at].depth, len(steps)-at) {
			r.Gave = true
			break
		}
		w := steps[at].world
		err := x.each(w, func(next world, e event, wrong string) error {
			r.Steps++
			if wrong != "" {
				steps = append(steps, step{next, e, at, steps[at].depth + 1})
				return errors.New(wrong)
			}
			if met[next] {
				return nil
			}
			met[next] = true
			steps = append(steps, step{next, e, at, steps[at].depth + 1})
			if what := x.judge(&next, r); what != "" {
				return errors.New(what)
			}
			return nil
		})
		if err != nil {
			v := &Violation{What: err.Error()}
			for i := len(steps) - 1; i > 0; i = steps[i].from {
				v.Path = append(v.Path, x.text(steps[i].event))
			}
			slices.Reverse(v.Path)
			r.Violation = v
			break
		}
	}
	r.Worlds, r.Depth = len(steps), steps[len(steps)-1].depth
	return r, nil
}

// each calls f with each possible successor of a world.
func (x *explorer) each(w world, f visit) error {
	alive := 0
	for i := range x.o.Processes {
		if w.state[i] == runs {
			alive++
		}
	}
	for i := range x.o.Processes {
		process := uint8(i)
		switch w.state[i] {
		case unborn:
			// The processes are alike, so they begin in order.
			if alive < x.o.Most && (i == 0 || w.state[i-1] != unborn) {
				next := w
				next.state[i] = runs
				if err := f(next, event{kind: starts, process: process}, ""); err != nil {
					return err
				}
			}
			continue
		case dead:
			continue
		}
		next := w
		next.state[i], next.mind[i] = dead, 0
		if err := f(next, event{kind: ends, process: process}, ""); err != nil {
			return err
		}
		k := x.minds[w.mind[i]]
		for j := range x.o.Processes {
			if j == i || w.state[j] != runs || x.apart(i, j) {
				continue
			}
			if report := x.says(j, w.mind[j]); report != k.told[j] && k.elected == 0 {
				if err := x.happens(w, event{hears, process, uint8(j), report}, f); err != nil {
					return err
				}
			}
			if e := x.minds[w.mind[j]].elected; e != 0 && e != k.elected {
				if err := x.happens(w, event{isTold, process, uint8(j), e}, f); err != nil {
					return err
				}
			}
		}
		if k.elected == 0 {
			if k.pledge == 0 {
				if err := x.happens(w, event{kind: waitsFor, process: process}, f); err != nil {
					return err
				}
			} else if int(w.rebirths) < x.o.Rebirths {
				if err := x.happens(w, event{kind: gives, process: process}, f); err != nil {
					return err
				}
			}
		}
	}
	if int(w.changes) < x.o.Changes {
		return x.changes(w, f)
	}
	return nil
}

// apart reports whether two processes never hear of each other.
func (x *explorer) apart(i, j int) bool {
	return slices.Contains(x.o.Apart, [2]int{i, j}) || slices.Contains(x.o.Apart, [2]int{j, i})
}

// happens calls f with the world after an event at a process.
func (x *explorer) happens(w world, e event, f visit) error {
	i, by := int(e.process), int(e.by)
	before := x.minds[w.mind[i]]
	h := hearing{e, w.mind[i]}
	got, ok := x.heard[h]
	if !ok {
		m := x.machine(i, before)
		k := before
		switch e.kind {
		case hears:
			now := vote.Now{Fast: begins, Slow: begins}
			if k.told[by] == 0 {
				m.Link(now, vote.Conn(1+by), session(by))
			}
			k.told[by] = e.arg
			m.Receive(now, vote.Conn(1+by), session(by), x.reports[e.arg])
		case waitsFor:
			// Each time a machine of its own, until the process has pledged: a pledge that is left
			// incomplete is undone.
			for t := 0; t <= turns && len(x.pledgeOf(m)) == 0; t++ {
				m = x.machine(i, before)
				for at := begins.Add(pollTime); at < begins.Add(margin+time.Duration(t)*turn+3*pollTime); at = at.Add(pollTime) {
					x.remind(m, k, at)
				}
			}
		case gives:
			at := begins.Add(patience)
			m.Tick(vote.Now{Fast: at, Slow: at})
		case isTold:
			now := vote.Now{Fast: begins, Slow: begins}
			told := x.electorates[e.arg]
			m.Receive(now, vote.Conn(1+by), session(by), &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: told, Contacts: told.Voters}})
		}
		after, err := x.after(i, k, m)
		if after.elected != 0 {
			after.told, after.pledge = [maxProcesses]id{}, 0 // later reports to a member don't matter
		}
		got = heardResult{mind: x.numberOf(after)}
		if err != nil {
			got.err = err.Error()
		}
		x.heard[h] = got
	}
	if got.err != "" {
		return f(w, e, got.err)
	}
	next := w
	next.mind[i] = got.mind
	if x.minds[got.mind].generation > before.generation {
		next.rebirths++
		if int(next.rebirths) > x.o.Rebirths {
			return nil
		}
	}
	return f(next, e, "")
}

// says returns a process's report about itself.
func (x *explorer) says(i int, k mindID) id {
	key := saying{i, k}
	n, ok := x.said[key]
	if !ok {
		n = x.numbered(x.report(x.machine(i, x.minds[k])))
		x.said[key] = n
	}
	return n
}

// acts reports whether a majority of an electorate's voters run and know the electorate, or another
// of its mesh.
func (x *explorer) acts(w *world, e *vote.Electorate, exactly bool) bool {
	n := 0
	for i := range x.o.Processes {
		k := &x.minds[w.mind[i]]
		if w.state[i] != runs || k.elected == 0 {
			continue
		}
		known := &x.electorates[k.elected]
		if known.Lineage == e.Lineage && (!exactly || known.Version == e.Version) && slices.Contains(e.Voters, x.elector(i, k.generation)) {
			n++
		}
	}
	return n >= len(e.Voters)/2+1
}

// judge counts a world, and describes the violation in the world, if any.
func (x *explorer) judge(w *world, r *Report) string {
	var known []uint64
	var acting []*vote.Electorate
	for i := range x.o.Processes {
		elected := x.minds[w.mind[i]].elected
		if w.state[i] != runs || elected == 0 {
			continue
		}
		e := &x.electorates[elected]
		if !slices.Contains(known, e.Lineage) {
			known = append(known, e.Lineage)
		}
		if x.acts(w, e, false) && !slices.ContainsFunc(acting, func(o *vote.Electorate) bool { return o.Lineage == e.Lineage }) {
			acting = append(acting, e)
		}
	}
	if len(known) > 0 {
		r.Births++
	}
	if len(known) > 1 {
		r.Two++
	}
	if w.rebirths > 0 {
		r.Undone++
	}
	if len(acting) > 1 {
		return fmt.Sprintf("two meshes have a majority: of %v and of %v", acting[0].Voters, acting[1].Voters)
	}
	return ""
}

// changes calls f with each world after a change of an electorate: a majority of the voters know
// the newest version, and add another process, replace a voter by another process, or remove a
// voter.
func (x *explorer) changes(w world, f visit) error {
	for i := range x.o.Processes {
		k := x.minds[w.mind[i]]
		if w.state[i] != runs || k.elected == 0 {
			continue
		}
		e := x.electorates[k.elected]
		self := x.elector(i, k.generation)
		if !slices.Contains(e.Voters, self) || !x.acts(&w, &e, true) {
			continue
		}
		propose := func(voters []vote.Elector) error {
			slices.SortFunc(voters, vote.Elector.Compare)
			// A majority must be as large as one of the minimum: see ADR 51.
			if len(voters)/2 < x.o.leastVoters()/2 || len(voters) > 5 {
				return nil
			}
			next := w
			next.changes++
			changed := vote.Electorate{Version: e.Version + 2, Lineage: e.Lineage, Voters: voters, Most: e.Most, MaxTTL: e.MaxTTL}
			elected := x.electorate(changed)
			next.mind[i] = x.numberOf(mind{generation: k.generation, elected: elected})
			return f(next, event{kind: decides, process: uint8(i), arg: elected}, "")
		}
		for j := range x.o.Processes {
			v := x.elector(j, x.minds[w.mind[j]].generation)
			if w.state[j] != runs || slices.Contains(e.Voters, v) {
				continue
			}
			if err := propose(append(slices.Clone(e.Voters), v)); err != nil {
				return err
			}
			for out := range e.Voters {
				voters := slices.Clone(e.Voters)
				voters[out] = v
				if err := propose(voters); err != nil {
					return err
				}
			}
		}
		for out := range e.Voters {
			if err := propose(slices.Delete(slices.Clone(e.Voters), out, out+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// text describes an event.
func (x *explorer) text(e event) string {
	name, by := names[e.process], names[e.by]
	switch e.kind {
	case starts:
		return fmt.Sprintf("%s starts", name)
	case ends:
		return fmt.Sprintf("%s ends", name)
	case hears:
		return fmt.Sprintf("%s hears that %s %s", name, by, x.describe(e.arg))
	case waitsFor:
		return fmt.Sprintf("%s has seen the same founders for long", name)
	case gives:
		return fmt.Sprintf("%s gives up its pledge", name)
	case isTold:
		return fmt.Sprintf("%s is told by %s of %s", name, by, x.name(e.arg))
	case decides:
		return fmt.Sprintf("%s decides with the others that %s vote", name, x.name(e.arg))
	}
	panic(fmt.Sprintf("birth: an event of kind %d", e.kind))
}

// describe describes a report.
func (x *explorer) describe(n id) string {
	r := x.reports[n].Consensus
	switch {
	case !r.Founding:
		return "knows an electorate"
	case len(r.Electorate.Voters) > 0:
		return fmt.Sprintf("(%x) has pledged to %s", r.Dir, list(r.Electorate.Voters))
	}
	return fmt.Sprintf("(%x) is fresh", r.Dir)
}

func (x *explorer) name(n id) string {
	e := &x.electorates[n]
	return fmt.Sprintf("version %d of the mesh %x, of %s", vote.VersionNumber(e.Version), e.Lineage>>48, list(e.Voters))
}

func list(voters []vote.Elector) string {
	var all []string
	for _, v := range voters {
		all = append(all, fmt.Sprintf("%s(%x)", v.Name, uint64(v.Dir)&0xffff))
	}
	return strings.Join(all, " ")
}
