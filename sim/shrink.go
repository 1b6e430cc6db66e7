package sim

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Shrinking says how far [Shrink] goes.
type Shrinking struct {
	Runs     int                       // it tries at most so many runs; 5,000 if zero
	Progress func(runs int, size Size) // told of each smaller run that is found; nil for nobody
}

// Size says how much there is to a run.
type Size struct {
	Acts     int
	Nodes    int
	Requests int
	Lasted   time.Duration // until the violation
}

// Shrunk is what Shrink makes of a run.
type Shrunk struct {
	Options   Options       // of the smaller run: it draws no faults and no requests
	Length    time.Duration // for [World.Run]; [World.Settle] comes after it
	Violation *Violation
	Before    Size
	After     Size
	Runs      int  // how many it took
	Early     bool // the number of runs, or the context, put an end to it

	seed  uint64 // before
	check string
	most  time.Duration // how long a run may be
	how   Shrinking
}

// errFollowing says that taking parts out of such a world would change which electorates come about.
var errFollowing = errors.New("a world whose electorate follows the living can't be shrunk: run it with a picture or a trace")

// errHolds says that there is nothing to shrink.
var errHolds = errors.New("nothing is violated, so there is nothing to shrink")

const (
	shrinkRuns   = 5000 // by default: some ten seconds
	shrinkRounds = 4    // what one step takes out may let another go further, but seldom for long
	fewLeft      = 8    // acts and requests: runs that are quick
	otherLuck    = 3    // seeds that such a run is tried with, besides its own
	fewestVoters = 3    // fewer don't make a run easier to read
)

// Shrink takes a run that fails (New, Run for a length, Settle) and takes out of it what the failure can do without, as long as the same check
// is violated still: faults, then nodes, then requests, and at last it makes delays, durations and clocks simple. The same run is always shrunk
// in the same way, unless the context ends first: then the smallest run so far is returned. It fails if the run doesn't.
func Shrink(ctx context.Context, o Options, length time.Duration, how Shrinking) (*Shrunk, error) {
	if how.Runs == 0 {
		how.Runs = shrinkRuns
	}
	if o.Following != nil {
		return nil, errFollowing
	}
	o.Trace, o.Picture = nil, nil
	s := &Shrunk{Options: o, Length: length, how: how}
	w, v := s.run(ctx, o, length)
	switch {
	case v != nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, errHolds
	}
	s.seed, s.check, s.most = o.Seed, v.Check, s.Length
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
	if s.during() { // nothing happens after it, so the length may be a round one
		s.Length = roundUp(s.Violation.At)
	} else {
		s.try(ctx, s.Options, roundUp(s.Length))
	}
	return s, nil
}

// during reports whether the violation comes before all is made well.
func (s *Shrunk) during() bool { return s.Violation.At <= s.Length }

// roundUp makes a length easy to read.
func roundUp(d time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return (d + unit - 1).Truncate(unit)
}

// run makes one run and returns its violation, if any.
func (s *Shrunk) run(ctx context.Context, o Options, length time.Duration) (*World, *Violation) {
	s.Runs++
	w := New(o)
	for end := length; end > 0 && w.failed == nil && ctx.Err() == nil; end -= time.Second {
		w.Run(min(end, time.Second))
	}
	if ctx.Err() == nil {
		_ = w.Settle() // w knows its violation
	}
	return w, w.failed
}

// try runs a smaller world, and takes it if it violates the same check. Where little is left it tries some other luck, too: which luck it was
// doesn't matter, and often a smaller run needs another.
func (s *Shrunk) try(ctx context.Context, o Options, length time.Duration) bool {
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

func (s *Shrunk) once(ctx context.Context, o Options, length time.Duration) bool {
	if s.Runs >= s.how.Runs || ctx.Err() != nil {
		s.Early = true
		return false
	}
	if s.during() {
		length = min(length+o.MaxTTL, s.most) // it may come later with less to cause it
	}
	o.Acts, o.Load.Asks = slices.Clone(o.Acts), slices.Clone(o.Load.Asks)
	slices.SortStableFunc(o.Acts, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(o.Load.Asks, func(a, b Ask) int { return cmp.Compare(a.At, b.At) })
	w, v := s.run(ctx, o, length)
	if v == nil || v.Check != s.check {
		return false
	}
	s.take(o, length, w, v)
	return true
}

// take makes a run the smallest so far. What comes after the violation, or after the length, has no part in it.
func (s *Shrunk) take(o Options, length time.Duration, w *World, v *Violation) {
	length = min(length, v.At)
	o.Acts = slices.DeleteFunc(slices.Clone(o.Acts), func(a Act) bool { return a.At > length })
	o.Load.Asks = slices.DeleteFunc(slices.Clone(o.Load.Asks), func(a Ask) bool { return a.At > length })
	s.Options, s.Length, s.Violation = o, length, v
	s.After = Size{Acts: len(o.Acts), Nodes: o.Voters + o.Clients, Requests: len(o.Load.Asks), Lasted: v.At}
	if o.Load.Asks == nil { // what clients draw can't be taken apart
		s.After.Requests = len(w.asks)
	}
	if s.how.Progress != nil {
		s.how.Progress(s.Runs, s.After)
	}
}

// pin replaces what a run draws by what it drew. That changes nothing, but that events of one nanosecond may change places; so what doesn't fail
// any more without its luck keeps it.
func (s *Shrunk) pin(ctx context.Context, w *World, v *Violation) {
	o := s.Options
	o.Voters, o.MaxTTL = w.opt.Voters, w.opt.MaxTTL
	o.Acts, o.Faults = w.Acts(), Faults{}
	o.Load = Load{Keys: o.Load.Keys, Asks: w.Asks()}
	o.History = o.History && s.check == checkHistory // it takes time, and changes nothing else
	o.Clocks = Clocks{}
	for i, name := range o.names() {
		c := s.Options.Clocks.draw(rand.New(w.chance("clock", name)), i)
		o.Clocks.PPM = append(o.Clocks.PPM, c.ppm)
		o.Clocks.Wall = append(o.Clocks.Wall, time.Duration(c.wall-epoch))
	}
	was, length := s.Options, s.Length
	s.take(o, length, w, v) // for its size
	s.Before = s.After
	s.take(was, length, w, v)
	if s.try(ctx, o, length) {
		return
	}
	o.Load = was.Load
	s.try(ctx, o, length)
}

// shorten cuts the length of a run that fails after it, when all is well again and should come right.
func (s *Shrunk) shorten(ctx context.Context) {
	for step := s.Length / 2; step >= 10*time.Millisecond && !s.during(); step /= 2 {
		s.try(ctx, s.Options, s.Length-step)
	}
}

func (s *Shrunk) dropActs(ctx context.Context) {
	ddmin(s.Options.Acts, func(acts []Act) ([]Act, bool) {
		o := s.Options
		o.Acts = append([]Act{}, acts...)
		ok := s.try(ctx, o, s.Length)
		return s.Options.Acts, ok
	})
}

func (s *Shrunk) dropAsks(ctx context.Context) {
	ddmin(s.Options.Load.Asks, func(asks []Ask) ([]Ask, bool) {
		o := s.Options
		o.Load.Asks = append([]Ask{}, asks...)
		ok := s.try(ctx, o, s.Length)
		return s.Options.Load.Asks, ok
	})
}

// dropNodes leaves out nodes that only lock, then voters: two at a time, which keeps a majority's share, or else one.
func (s *Shrunk) dropNodes(ctx context.Context) {
	for i := s.Options.Voters + s.Options.Clients - 1; i >= s.Options.Voters; i-- {
		s.try(ctx, s.Options.withoutNode(i), s.Length)
	}
	for s.Options.Voters >= fewestVoters+2 && s.dropVoters(ctx, 2) {
	}
	for s.Options.Voters > fewestVoters && s.dropVoters(ctx, 1) {
	}
}

func (s *Shrunk) dropVoters(ctx context.Context, n int) bool {
	for i := s.Options.Voters - 1; i >= 0; i-- {
		o := s.Options.withoutNode(i)
		if n == 1 {
			if s.try(ctx, o, s.Length) {
				return true
			}
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if s.try(ctx, o.withoutNode(j), s.Length) {
				return true
			}
		}
	}
	return false
}

// withoutNode leaves out the i-th node, and with it what is said of it. The others keep their names, and with them their luck.
func (o Options) withoutNode(i int) Options {
	names := o.names()
	gone := names[i]
	o.Names = without(names, names[i:i+1])
	if i < o.Voters {
		o.Voters--
	} else {
		o.Clients--
	}
	o.TTL, o.Clocks.PPM, o.Clocks.Wall = withoutItem(o.TTL, i), withoutItem(o.Clocks.PPM, i), withoutItem(o.Clocks.Wall, i)
	isGone := func(name string) bool { return strings.TrimRight(name, "'") == gone }
	var acts []Act
	for _, a := range o.Acts {
		some := len(a.Hosts) > 0
		a.Hosts = slices.DeleteFunc(slices.Clone(a.Hosts), isGone)
		a.Far = slices.DeleteFunc(slices.Clone(a.Far), isGone)
		if len(a.Hosts) > 0 || !some {
			acts = append(acts, a)
		}
	}
	if o.Acts != nil {
		o.Acts = append([]Act{}, acts...)
	}
	if o.Load.Asks != nil {
		o.Load.Asks = slices.DeleteFunc(slices.Clone(o.Load.Asks), func(a Ask) bool { return isGone(a.Node) })
	}
	return o
}

func withoutItem[T any](list []T, i int) []T {
	if i >= len(list) {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}
