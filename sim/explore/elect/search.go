package elect

import (
	"crypto/sha256"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// explorer is a run.
type explorer struct {
	o         Options
	nodes     int
	proposals []proposal
	poll      uint32 // the number of a poll message

	locals    []local
	localOf   map[[sha256.Size]byte]uint32
	outcomes  map[input]*outcome
	disks     []vote.DiskState
	diskOf    map[string]uint32
	values    []vote.Electorate
	valueOf   map[string]uint32
	messages  []vote.Message
	messageOf map[string]uint32

	report Report
	living []*host // for a test: hosts that execute each input beside the lookups
}

func newExplorer(o Options) (*explorer, error) {
	proposals, nodes, err := o.check()
	if err != nil {
		return nil, err
	}
	x := &explorer{
		o: o, nodes: nodes, proposals: proposals, locals: make([]local, 1), localOf: make(map[[sha256.Size]byte]uint32), outcomes: make(map[input]*outcome),
		diskOf: make(map[string]uint32), valueOf: make(map[string]uint32), messageOf: make(map[string]uint32),
	}
	x.poll = x.message(vote.Message{Kind: vote.KindPoll})
	return x, nil
}

// begin returns the world in which all nodes have just started, and have stored their start.
func (x *explorer) begin() (w world, wrong string) {
	first := vote.Electorate{Version: firstVersion, Lineage: 1}
	for i := range founders {
		first.Voters = append(first.Voters, elector(i))
	}
	w = world{crashes: uint8(x.o.Crashes), failures: uint8(x.o.Failures), cuts: uint8(x.o.Cuts), drains: uint8(x.o.Drains), waits: uint8(x.o.Waits)}
	w.decided[firstVersion] = x.value(first)
	if x.o.Begun {
		first = vote.Electorate{Version: jointVersion, Lineage: 1, Voters: x.proposals[0].target, Old: first.Voters}
		w.decided[jointVersion], w.proposed = x.value(first), 1
	}
	for i := range x.nodes {
		n := &w.nodes[i]
		n.disk = x.disk(vote.DiskState{Mesh: "explored", Name: nodeName(i), Dir: elector(i).Dir, Electorate: first})
		n.before = n.disk
		if x.o.Begun {
			n.joined = 1
		}
		if wrong := x.start(&w, i); wrong != "" {
			return w, wrong
		}
	}
	for i := range x.nodes {
		if wrong := x.apply(&w, step{stepSaved, uint8(i), 0, 0}); wrong != "" {
			return w, wrong
		}
	}
	return w, ""
}

// way is the first path to a world.
type way struct {
	before int32
	step   step
}

// Run explores everything that can happen within the limits.
func Run(o Options) (*Report, error) {
	x, err := newExplorer(o)
	if err != nil {
		return nil, err
	}
	x.search()
	x.report.Locals, x.report.Inputs = len(x.locals)-1, len(x.outcomes)
	return &x.report, nil
}

type waiting struct {
	packed []byte
	at     int32 // the place of the world in ways
}

func (x *explorer) search() {
	first, wrong := x.begin()
	if wrong != "" {
		x.report.Violation = &Violation{What: wrong}
		return
	}
	met := make(map[[16]byte]struct{})
	var ways []way
	var now, next []waiting
	reach := func(w *world, at int32, s step) {
		p := x.pack(w, make([]byte, 0, 128))
		sum := sha256.Sum256(p)
		key := [16]byte(sum[:16])
		if _, ok := met[key]; ok {
			return
		}
		met[key] = struct{}{}
		ways = append(ways, way{at, s})
		next = append(next, waiting{slices.Clip(p), int32(len(ways) - 1)})
		x.count(w)
	}
	reach(&first, 0, step{})
	var todo []step
	for depth := 0; len(next) > 0; depth++ {
		x.report.Depth = depth
		now, next = next, nil
		for i := range now {
			var w world
			x.unpack(now[i].packed, &w)
			now[i].packed = nil
			if x.over(&w) {
				continue
			}
			todo = x.steps(&w, todo[:0])
			for _, s := range todo {
				after := w
				wrong := x.apply(&after, s)
				if wrong == impossible {
					continue
				}
				x.report.Transitions++
				if wrong != "" {
					steps := []step{s}
					for at := now[i].at; at != 0; at = ways[at].before {
						steps = append(steps, ways[at].step)
					}
					slices.Reverse(steps)
					x.report.Violation = x.explain(first, steps, wrong)
					return
				}
				x.tidy(&after)
				reach(&after, now[i].at, s)
			}
			if x.o.MaxStates > 0 && len(met) >= x.o.MaxStates || x.o.Stop != nil && i%64 == 0 && x.o.Stop(Progress{len(met), depth, len(now) - i + len(next)}) {
				return
			}
		}
	}
	x.report.Exhausted = true
}

// count records the decisions in a new world.
func (x *explorer) count(w *world) {
	x.report.States++
	if w.decided[jointVersion] != 0 {
		x.report.Joint++
	}
	if w.decided[finalVersion] != 0 {
		x.report.Final++
		if slices.Equal(x.values[w.decided[finalVersion]].Voters, x.values[w.decided[jointVersion]].Old) {
			x.report.Back++
		}
	}
}

// over reports whether a world isn't followed any further: all nodes are up, apply the final
// electorate and have no save under way, or a ballot's number is above the limit.
func (x *explorer) over(w *world) bool {
	done := true
	for i := range x.nodes {
		n := w.nodes[i].local
		if n == 0 {
			done = false
			continue
		}
		l := &x.locals[n]
		if l.known.Version < finalVersion && l.number > x.o.Attempts {
			x.report.Cut++
			return true
		}
		done = done && l.known.Version == finalVersion && l.saving == 0
	}
	return done
}
