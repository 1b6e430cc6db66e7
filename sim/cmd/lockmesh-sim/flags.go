package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// Bounds of the flags.
const (
	nodesMost   = 26        // nodes are named by letters
	secondsMost = 1_000_000 // 11 days of one world; more seeds find more than longer worlds
)

// By default a picture shows the first seconds, or the last seconds before a violation: as much as
// a person can read.
const (
	shownFirst  = 30 * time.Second
	shownBefore = 10 * time.Second
)

// settings are the values of the flags.
type settings struct {
	seed, seeds   uint64
	long          time.Duration // go on with further seeds for so long
	nodes         int
	beyond        bool
	dynamic       bool
	byCount       bool
	overBound     bool
	register      bool
	misconfigured bool
	fromFixed     bool
	coalescing    bool
	pieces        bool
	seconds       float64
	svg, trace    string
	shrink        string // a folder
	from, to      float64

	planning

	given map[string]bool    // the flags given
	alter func(*sim.Options) // for tests: breaks the nodes
}

const usage = `lockmesh-sim runs lockmesh's nodes, the very code of production, in a simulated world: clocks that
err, a network that delays, stalls and breaks, nodes that crash and pause. One seed decides
everything, so the same command does the same again. After every event it checks that no two nodes
hold one lock, that tokens rise, and much else; at the end all faults are healed, and every request
must be granted.

Examples:
  go run ./sim/cmd/lockmesh-sim -seed 7 -nodes 5 -svg run.svg    one world, and a picture of its first 30 s
  go run ./sim/cmd/lockmesh-sim -seed 7 -svg run.svg -from 12.5 -to 12.9   half a second close up, with each message
  go run ./sim/cmd/lockmesh-sim -seeds 500 -seconds 300          many worlds, on all processors
  go run ./sim/cmd/lockmesh-sim -for 4h -seed 1000000            for as long as that
  go run ./sim/cmd/lockmesh-sim -dynamic -seeds 500              worlds with dynamic membership
  go run ./sim/cmd/lockmesh-sim -by-count -seeds 500             meshes that are born by count, of processes without disks
  go run ./sim/cmd/lockmesh-sim -over-bound -seeds 500 -seconds 30  the same beyond their bound: in some worlds two hold a lock
  go run ./sim/cmd/lockmesh-sim -register -seeds 500             and further beyond it, with a register: none do
  go run ./sim/cmd/lockmesh-sim -misconfigured -seeds 500        births by count beside misconfigured processes
  go run ./sim/cmd/lockmesh-sim -from-fixed -seeds 500           meshes with fixed voters that get dynamic membership
  go run ./sim/cmd/lockmesh-sim -coalescing -seeds 500           worlds in which messages that no call waits for are queued
  go run ./sim/cmd/lockmesh-sim -pieces -seeds 500               worlds in which nodes make and take in syncs in pieces
  go run ./sim/cmd/lockmesh-sim -seed 7 -shrink shrunk           make a world that fails as small as can be

` + planUsage + `
Exit status: 0 if nothing was violated, 1 after a violation, 2 if a flag is wrong or a file can't be written.

Flags:
`

// parse reads the flags. It returns flag.ErrHelp after -h.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{given: make(map[string]bool)}
	f := flag.NewFlagSet("lockmesh-sim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Uint64Var(&s.seed, "seed", 1, "the world's `number`, or the first one's")
	f.Uint64Var(&s.seeds, "seeds", 1, "how `many` worlds to run: seed, seed+1, …")
	f.DurationVar(&s.long, "for", 0, "run seed, seed+1, … for so long, such as 4h, instead of so many; an interrupt ends it with its report, too")
	f.IntVar(&s.nodes, "nodes", 0, fmt.Sprintf("how `many` nodes, all of them voters, 1 to %d (default: as the seed draws, 3 to 5 voters and up to 2 nodes that only lock)", nodesMost))
	f.BoolVar(&s.beyond, "beyond", false, "go beyond the protocol's assumptions: clocks that err by up to a fifth and pauses that no clock shows; then only tokens are checked")
	f.BoolVar(&s.dynamic, "dynamic", false, "dynamic membership: nodes are voted in and out, lose their state directories, leave, and die for good; such worlds aren't shrunk")
	f.BoolVar(&s.byCount, "by-count", false, "birth by count: processes without disks come, end and are replaced, never more at a time than the claim allows for; such worlds aren't shrunk")
	f.BoolVar(&s.overBound, "over-bound", false, "the same with one process more at a time than the claim allows for: some of these worlds find two holders")
	f.BoolVar(&s.register, "register", false, "the same with a register, and with up to four processes more than the claim allows for without one")
	f.BoolVar(&s.misconfigured, "misconfigured", false, "birth by count beside misconfigured processes, with a fixed list of voters of their own: they are to stop only themselves")
	f.BoolVar(&s.fromFixed, "from-fixed", false, "a mesh with fixed voters gets dynamic membership by restarts, in the right order or in any other; such worlds aren't shrunk")
	f.BoolVar(&s.coalescing, "coalescing", false, "let messages that no call waits for stay in their sender's queue, in each world for as long as its seed draws, from half a millisecond to a quarter of the shortest TTL")
	f.BoolVar(&s.pieces, "pieces", false, "have nodes make syncs, and take in answers, one to three requests at a time, with a pause of up to a millisecond in between")
	f.Float64Var(&s.seconds, "seconds", 30, "how many simulated `seconds` the faults last; healing comes on top")
	f.StringVar(&s.svg, "svg", "", "write a picture to this `file`: of the first 30 s, or of the last 10 s before a violation; with -seeds, of the first world that fails, or else of the first")
	f.Float64Var(&s.from, "from", 0, "where the picture begins, in simulated `seconds` (default: at most 30 s before -to)")
	f.Float64Var(&s.to, "to", 0, "where the picture ends, in simulated `seconds` (default: 30 s after -from, or the run's end)")
	f.StringVar(&s.trace, "trace", "", "write every event and message, a line each, to this `file`; for one world")
	f.StringVar(&s.shrink, "shrink", "", "if a world fails, take out of it what the failure can do without, and write a Go test and a picture of the rest to this `folder`")
	s.planFlags(f)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w; -h lists the flags", err)
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q isn't a flag; all settings are flags, and -h lists them", strings.Join(f.Args(), " "))
	}
	f.Visit(func(x *flag.Flag) { s.given[x.Name] = true })
	if err := s.checkPlan(); err != nil || s.plan != "" {
		return s, err
	}
	return s, s.check()
}

// check rejects impossible values, and states the possible ones.
func (s *settings) check() error {
	switch {
	case s.given["nodes"] && (s.nodes < 1 || s.nodes > nodesMost):
		return fmt.Errorf("-nodes %d: it must be in 1..%d", s.nodes, nodesMost)
	case s.given["for"] && s.long <= 0:
		return fmt.Errorf("-for %v: it must be above 0", s.long)
	case s.long > 0 && s.given["seeds"]:
		return errors.New("-for and -seeds both say when to end: leave one out")
	case s.seeds < 1:
		return errors.New("-seeds 0: it must be at least 1")
	case s.seeds-1 > math.MaxUint64-s.seed:
		return fmt.Errorf("-seeds %d from -seed %d: there are only 2^64 seeds", s.seeds, s.seed)
	case !(s.seconds > 0 && s.seconds <= secondsMost):
		return fmt.Errorf("-seconds %v: it must be above 0 and at most %d; for more, run more -seeds", s.seconds, secondsMost)
	case s.trace != "" && (s.seeds > 1 || s.long > 0):
		return errors.New("-trace is for one world: leave -seeds and -for out and choose it by -seed")
	case (s.given["from"] || s.given["to"]) && s.svg == "":
		return errors.New("-from and -to choose what a picture shows: name its file with -svg")
	case !(s.from >= 0 && s.from <= 2*secondsMost):
		return fmt.Errorf("-from %v: it must be in 0..%d", s.from, 2*secondsMost)
	case s.given["to"] && !(s.to > s.from && s.to <= 2*secondsMost):
		return fmt.Errorf("-to %v: it must be after -from, %v, and at most %d", s.to, s.from, 2*secondsMost)
	case s.beyond && s.dynamic:
		return errors.New("-beyond and -dynamic don't go together: no promise covers such worlds; leave one of the two out")
	case bits(s.byCount, s.overBound, s.register, s.misconfigured) > 1, s.born() && (s.beyond || s.dynamic):
		return errors.New("-by-count, -over-bound, -register, -misconfigured, -dynamic and -beyond are different kinds of worlds: leave all but one out")
	case s.fromFixed && (s.born() || s.beyond || s.dynamic):
		return errors.New("-from-fixed, -dynamic, -beyond and the worlds that are born by count are different kinds: leave all but one out")
	case s.fromFixed && s.given["nodes"]:
		return errors.New("-nodes doesn't go with -from-fixed: each seed draws how many nodes there are, and when they are restarted")
	case s.born() && s.given["nodes"]:
		return errors.New("-nodes doesn't go with -by-count, -over-bound, -register and -misconfigured: each seed draws how many processes run")
	case s.changesVoters() && s.shrink != "":
		return fmt.Errorf("-shrink doesn't work with %s: leave it out, and look at the run with -svg or -trace", strings.Join(s.drawing()[:1], ""))
	case s.svg != "" && s.svg == s.trace:
		return fmt.Errorf("-svg and -trace both write %s: name two files", s.svg)
	}
	return nil
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// options returns the options of one world.
func (s *settings) options(seed uint64) sim.Options {
	draw := sim.Draw
	switch {
	case s.beyond:
		draw = sim.DrawBeyond
	case s.dynamic:
		draw = sim.DrawDynamic
	case s.byCount:
		draw = sim.DrawByCount
	case s.overBound:
		draw = sim.DrawOverBound
	case s.register:
		draw = sim.DrawWithRegister
	case s.misconfigured:
		draw = sim.DrawMisconfigured
	case s.fromFixed:
		draw = sim.DrawFromFixed
	}
	o := draw(seed)
	if s.nodes > 0 {
		o.Voters, o.Clients = s.nodes, 0
	}
	o.History = true
	if s.coalescing {
		o.DrawCoalescing()
	}
	if s.pieces {
		o.DrawTurn()
	}
	if s.alter != nil {
		s.alter(&o)
	}
	return o
}

// born reports whether the worlds' meshes are born by count.
func (s *settings) born() bool { return s.byCount || s.overBound || s.register || s.misconfigured }

// changesVoters reports whether the membership of the worlds is dynamic.
func (s *settings) changesVoters() bool { return s.dynamic || s.fromFixed || s.born() }

// bits returns how many of some flags are set.
func bits(flags ...bool) (n int) {
	for _, set := range flags {
		if set {
			n++
		}
	}
	return n
}

// drawing returns the flags that determine how worlds are drawn.
func (s *settings) drawing() []string {
	var flags []string
	if s.nodes > 0 {
		flags = append(flags, fmt.Sprintf("-nodes %d", s.nodes))
	}
	if s.beyond {
		flags = append(flags, "-beyond")
	}
	if s.dynamic {
		flags = append(flags, "-dynamic")
	}
	if s.byCount {
		flags = append(flags, "-by-count")
	}
	if s.overBound {
		flags = append(flags, "-over-bound")
	}
	if s.register {
		flags = append(flags, "-register")
	}
	if s.misconfigured {
		flags = append(flags, "-misconfigured")
	}
	if s.fromFixed {
		flags = append(flags, "-from-fixed")
	}
	if s.coalescing {
		flags = append(flags, "-coalescing")
	}
	if s.pieces {
		flags = append(flags, "-pieces")
	}
	return flags
}

// replay returns the command to run a seed again.
func (s *settings) replay(seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "go run ./sim/cmd/lockmesh-sim -seed %d", seed)
	for _, flag := range s.drawing() {
		fmt.Fprintf(&b, " %s", flag)
	}
	fmt.Fprintf(&b, " -seconds %v", s.seconds)
	if s.svg == "" || strings.ContainsAny(s.svg, " '\"$`\\") { // a name split by a shell
		b.WriteString(" -svg run.svg")
	} else {
		fmt.Fprintf(&b, " -svg %s", s.svg)
	}
	return b.String()
}

// window returns the section of a run shown by the picture; lasted is the length of the run, and
// violated the time of the failure, or negative.
func (s *settings) window(lasted, violated time.Duration) (from, to time.Duration) {
	from, to = duration(s.from), duration(s.to)
	switch {
	case s.given["to"]:
	case s.given["from"]:
		to = min(from+shownFirst, lasted)
	case violated >= 0:
		return max(0, violated-shownBefore), lasted
	default:
		to = min(shownFirst, lasted)
	}
	if !s.given["from"] && to > shownFirst {
		from = to - shownFirst
	}
	return from, to
}
