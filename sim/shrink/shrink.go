package shrink

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/sim/check"
)

// Settings say how far [Run] goes.
type Settings struct {
	Runs     int                       // the most runs to try; 5,000 if zero
	Progress func(runs int, size Size) // called for each smaller run; may be nil
}

// Size says how large a run is.
type Size struct {
	Acts     int
	Nodes    int
	Requests int
	Lasted   time.Duration // until the violation
}

// Result is the result of [Run].
type Result struct {
	Options   sim.Options   // of the smaller run: as a rule without drawn faults and requests
	Length    time.Duration // for [sim.World.Run]; [sim.World.Settle] comes after it
	Violation *sim.Violation
	Before    Size
	After     Size
	Runs      int    // how many runs were tried
	Check     string // the violated check
	Early     bool   // the limit on runs, or the context, ended the shrinking

	seed uint64        // of the original run
	most time.Duration // how long a run may be
	how  Settings
}

// errDynamic is the error for worlds with dynamic membership: leaving parts out of such a world
// would change which electorates come about.
var errDynamic = errors.New("a world with dynamic membership can't be shrunk: run it with a picture or a trace")

// ErrHolds is the error for a run without a violation.
var ErrHolds = errors.New("nothing is violated, so there is nothing to shrink")

const (
	// the default of Settings.Runs: some ten seconds
	shrinkRuns = 5000
	// What a step removes may let another step remove more, but seldom for many rounds.
	shrinkRounds = 4
	// Runs with so few acts and requests are quick.
	fewLeft = 8
	// Quick runs are tried with so many other seeds, besides their own.
	otherLuck = 3
	// Fewer voters don't make a run easier to read.
	fewestVoters = 3
)

// Run takes a failing run (New, Run for a length, Settle) and removes what the failure doesn't
// need, as long as the same check is still violated: faults, then nodes, then requests. At last it
// simplifies delays, durations and clocks. The same run is always shrunk in the same way, unless
// the context ends first: then Run returns the smallest run so far. Run returns an error if
// the run doesn't fail.
func Run(ctx context.Context, o sim.Options, length time.Duration, how Settings) (*Result, error) {
	if how.Runs == 0 {
		how.Runs = shrinkRuns
	}
	if o.Dynamic != nil {
		return nil, errDynamic
	}
	o.Trace, o.Picture = nil, nil
	s := &Result{Options: o, Length: length, how: how}
	w, v := s.run(ctx, o, length)
	switch {
	case v != nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, ErrHolds
	}
	s.seed, s.Check, s.most = o.Seed, v.Check, s.Length
	s.pin(ctx, w, v)
	for range shrinkRounds {
		before := s.After
		s.shorten(ctx)
		s.dropActs(ctx)
		s.dropNodes(ctx)
		s.dropAsks(ctx)
		s.simplify(ctx)
		if s.After.Acts == before.Acts && s.After.Nodes == before.Nodes && s.After.Requests == before.Requests {
			break
		}
	}
	if s.during() { // nothing happens after the violation: round up
		s.Length = roundUp(s.Violation.At)
	} else {
		s.try(ctx, s.Options, roundUp(s.Length))
	}
	return s, nil
}

// during reports whether the violation comes before Settle ends the faults.
func (s *Result) during() bool { return s.Violation.At <= s.Length }

// roundUp makes a length easy to read.
func roundUp(d time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return (d + unit - 1).Truncate(unit)
}

// run makes one run and returns its violation, if any.
func (s *Result) run(ctx context.Context, o sim.Options, length time.Duration) (*sim.World, *sim.Violation) {
	s.Runs++
	w := sim.New(o)
	for end := length; end > 0 && w.Err() == nil && ctx.Err() == nil; end -= time.Second {
		w.Run(min(end, time.Second))
	}
	if ctx.Err() == nil {
		_ = w.Settle() // w has the violation
	}
	return w, w.Violation()
}

// try runs a smaller world, and adopts the run if the same check is violated. If few acts and
// requests are left, try uses some other seeds, too: which seed a run has doesn't matter, and a
// smaller run often needs another.
func (s *Result) try(ctx context.Context, o sim.Options, length time.Duration) bool {
	if s.once(ctx, o, length) {
		return true
	}
	if o.Acts == nil || o.Load.Asks == nil || len(o.Acts)+len(o.Load.Asks) > fewLeft {
		return false
	}
	was := o.Seed
	for o.Seed = 1; o.Seed <= otherLuck; o.Seed++ {
		if o.Seed != was && s.once(ctx, o, length) {
			return true
		}
	}
	return false
}

func (s *Result) once(ctx context.Context, o sim.Options, length time.Duration) bool {
	if s.Runs >= s.how.Runs || ctx.Err() != nil {
		s.Early = true
		return false
	}
	if s.during() {
		// With fewer causes, the violation may come later.
		length = min(length+o.MaxTTL, s.most)
	}
	o.Acts, o.Load.Asks = slices.Clone(o.Acts), slices.Clone(o.Load.Asks)
	slices.SortStableFunc(o.Acts, func(a, b sim.Act) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(o.Load.Asks, func(a, b sim.Ask) int { return cmp.Compare(a.At, b.At) })
	w, v := s.run(ctx, o, length)
	if v == nil || v.Check != s.Check {
		return false
	}
	s.take(o, length, w, v)
	return true
}

// take makes a run the smallest so far. Acts and requests after the violation, or after the length,
// have no part in the failure and are dropped.
func (s *Result) take(o sim.Options, length time.Duration, w *sim.World, v *sim.Violation) {
	length = min(length, v.At)
	o.Acts = slices.DeleteFunc(slices.Clone(o.Acts), func(a sim.Act) bool { return a.At > length })
	o.Load.Asks = slices.DeleteFunc(slices.Clone(o.Load.Asks), func(a sim.Ask) bool { return a.At > length })
	s.Options, s.Length, s.Violation = o, length, v
	s.After = Size{Acts: len(o.Acts), Nodes: o.Voters + o.Clients, Requests: len(o.Load.Asks), Lasted: v.At}
	// Requests drawn by clients can't be removed singly.
	if o.Load.Asks == nil {
		s.After.Requests = len(w.Asks())
	}
	if s.how.Progress != nil {
		s.how.Progress(s.Runs, s.After)
	}
}

// pin replaces a run's random draws by the drawn acts, requests and clocks. That changes nothing,
// except that events of the same nanosecond may change places. If the pinned run doesn't fail any
// more, pin tries again with requests that are drawn, and else leaves the run as it was.
func (s *Result) pin(ctx context.Context, w *sim.World, v *sim.Violation) {
	o := s.Options
	o.Voters, o.MaxTTL, o.Clocks = w.Options().Voters, w.Options().MaxTTL, w.DrawnClocks()
	o.Acts, o.Faults = w.Acts(), sim.Faults{}
	o.Load = sim.Load{Keys: o.Load.Keys, Asks: w.Asks()}
	// The history takes time, and changes nothing else.
	o.History = o.History && s.Check == check.RuleHistory
	was, length := s.Options, s.Length
	s.take(o, length, w, v) // to measure the size
	s.Before = s.After
	s.take(was, length, w, v)
	if s.try(ctx, o, length) {
		return
	}
	o.Load = was.Load
	s.try(ctx, o, length)
}

// shorten cuts the length of a run that fails only in Settle, when the faults are over and the mesh
// should recover.
func (s *Result) shorten(ctx context.Context) {
	for step := s.Length / 2; step >= 10*time.Millisecond && !s.during(); step /= 2 {
		s.try(ctx, s.Options, s.Length-step)
	}
}

func (s *Result) dropActs(ctx context.Context) {
	ddmin(s.Options.Acts, func(acts []sim.Act) ([]sim.Act, bool) {
		o := s.Options
		o.Acts = append([]sim.Act{}, acts...)
		ok := s.try(ctx, o, s.Length)
		return s.Options.Acts, ok
	})
}

func (s *Result) dropAsks(ctx context.Context) {
	ddmin(s.Options.Load.Asks, func(asks []sim.Ask) ([]sim.Ask, bool) {
		o := s.Options
		o.Load.Asks = append([]sim.Ask{}, asks...)
		ok := s.try(ctx, o, s.Length)
		return s.Options.Load.Asks, ok
	})
}

// dropNodes removes nodes that only lock, then voters: two at a time, which keeps a majority's
// share, or else single voters.
func (s *Result) dropNodes(ctx context.Context) {
	for i := s.Options.Voters + s.Options.Clients - 1; i >= s.Options.Voters; i-- {
		s.try(ctx, withoutNode(s.Options, i), s.Length)
	}
	for s.Options.Voters >= fewestVoters+2 && s.dropVoters(ctx, 2) {
	}
	for s.Options.Voters > fewestVoters && s.dropVoters(ctx, 1) {
	}
}

func (s *Result) dropVoters(ctx context.Context, n int) bool {
	for i := s.Options.Voters - 1; i >= 0; i-- {
		o := withoutNode(s.Options, i)
		if n == 1 {
			if s.try(ctx, o, s.Length) {
				return true
			}
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if s.try(ctx, withoutNode(o, j), s.Length) {
				return true
			}
		}
	}
	return false
}

// withoutNode removes the i-th node, and all mentions of it. The other nodes keep their names, and
// thus their random sources.
func withoutNode(o sim.Options, i int) sim.Options {
	names := o.NodeNames()
	gone := names[i]
	o.Names = withoutItem(names, i)
	if i < o.Voters {
		o.Voters--
	} else {
		o.Clients--
	}
	o.TTL, o.Clocks.PPM, o.Clocks.Wall = withoutItem(o.TTL, i), withoutItem(o.Clocks.PPM, i), withoutItem(o.Clocks.Wall, i)
	isGone := func(name string) bool { return strings.TrimRight(name, "'") == gone }
	var acts []sim.Act
	for _, a := range o.Acts {
		some := len(a.Hosts) > 0
		a.Hosts = slices.DeleteFunc(slices.Clone(a.Hosts), isGone)
		a.Far = slices.DeleteFunc(slices.Clone(a.Far), isGone)
		if len(a.Hosts) > 0 || !some {
			acts = append(acts, a)
		}
	}
	if o.Acts != nil {
		o.Acts = append([]sim.Act{}, acts...)
	}
	if o.Load.Asks != nil {
		o.Load.Asks = slices.DeleteFunc(slices.Clone(o.Load.Asks), func(a sim.Ask) bool { return isGone(a.Node) })
	}
	return o
}

func withoutItem[T any](list []T, i int) []T {
	if i >= len(list) {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}
