package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// inspecting has nodes of a drawn world inspect keys several times a second.
func inspecting(o Options) Options {
	o.InspectEvery = o.MaxTTL / 10
	return o
}

// TestSwarmInspections has nodes inspect keys amid all faults, and demands that inspections show
// all calls completed before.
func TestSwarmInspections(t *testing.T) {
	swarm(t, sampled.Count(12, 24), func(seed uint64) Options { return inspecting(Draw(seed)) }, inspectedEnough(t))
}

// TestInspectionsWithCoalescing does the same with write coalescing.
func TestInspectionsWithCoalescing(t *testing.T) {
	swarm(t, 8, func(seed uint64) Options { return inspecting(coalescing(Draw(seed))) }, inspectedEnough(t))
}

// TestInspectionsWhereTheElectorateChanges does the same with dynamic membership.
func TestInspectionsWhereTheElectorateChanges(t *testing.T) {
	swarm(t, sampled.Count(3, 24), func(seed uint64) Options { return inspecting(DrawDynamic(seed)) }, inspectedEnough(t))
}

func inspectedEnough(t *testing.T) func(f *Figures) {
	return func(f *Figures) {
		// Few dynamic worlds set values, so only the hunt demands a value of these worlds.
		valued := f.Values > 0 || f.Changes > 0 && !sampled.Whole
		if f.Inspections < 1000 || f.Unsettled > f.Inspections/10 || !valued {
			t.Errorf("%d inspections, of which %d weren't settled; they showed %d values", f.Inspections, f.Unsettled, f.Values)
		}
	}
}

// seenMutants break the rules by which inspections and watches show completed calls.
var seenMutants = []mutant{
	{name: "an inspection takes the first majority's answers", build: glances, scenario: inspectedAtOnce, draw: func(seed uint64) Options { return inspecting(Draw(seed)) },
		options: Options{Clients: 2, Coalesce: sceneTTL / 8, InspectEvery: time.Hour}},
	{name: "a value counts as set before a majority has it", build: notesAtOnce, scenario: valueSetAtOnce, draw: func(seed uint64) Options { return inspecting(Draw(seed)) },
		options: Options{Clients: 2, InspectEvery: time.Hour}},
	{name: "an inspection shows an older value", build: showsOlderValues, scenario: valueSetAtOnce, draw: func(seed uint64) Options { return inspecting(Draw(seed)) },
		options: Options{Clients: 2, InspectEvery: time.Hour}},
	{name: "a watch begins with the first majority's answers", build: glances, scenario: watchedAtOnce, draw: func(seed uint64) Options { return watched(Draw(seed)) },
		options: Options{Clients: 2, Coalesce: sceneTTL / 8, Watches: true}},
	{name: "a watch takes votes for a grant", build: takesVotesForGrants, scenario: watchedAtOnce,
		draw: func(seed uint64) Options { return busy(seed) }, options: Options{Clients: 2, Coalesce: sceneTTL / 8, Watches: true}},
}

// glancing sends a plain query instead of an inspection.
type glancing struct{ *node.Node }

func glances(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return glancing{n}, err
}

func (g glancing) Inspect(now vote.Now, key vote.Key) uint64 { return g.Query(now, key) }

func (g glancing) InspectForWatch(now vote.Now, _ vote.Key, _ bool) uint64 { return g.Query(now, "k") }

func (g glancing) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = g.Node.Drain(out, ev)
	for i := range ev {
		if ev[i].Result != nil {
			ev[i].Result.Certain = true
		}
	}
	return out, ev
}

// inspectedAtOnce has x2 inspect a key just granted to x1, or just released by x1: the messages
// about the lease are still on their way to the voters.
func inspectedAtOnce(w *World) {
	for range 5 {
		r := w.Script.Lock("x1", "k")
		for r.State == Waiting && w.Err() == nil {
			w.Run(time.Millisecond)
		}
		w.inspectors.Inspect(w.host("x2").p, w.judge.keyOf("k"))
		w.Run(sceneTTL)
		w.Script.Release(r)
		for r.State == Releasing && w.Err() == nil {
			w.Run(time.Millisecond)
		}
		w.inspectors.Inspect(w.host("x2").p, w.judge.keyOf("k"))
		w.Run(sceneTTL)
	}
}

// believing begins watches with the answer to an ordinary inspection.
type believing struct{ *node.Node }

func takesVotesForGrants(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return believing{n}, err
}

func (b believing) InspectForWatch(now vote.Now, prefix vote.Key, _ bool) uint64 {
	return b.Page(now, prefix, "", 1000)
}

// watchedAtOnce has x2 begin a watch when x1 has just been granted a key; the messages about the
// grant reach the voters a bit later.
func watchedAtOnce(w *World) {
	for range 5 {
		r := w.Script.Lock("x1", "k")
		for r.State == Waiting && w.Err() == nil {
			w.Run(time.Millisecond)
		}
		for _, v := range []string{"a", "b", "c"} {
			w.Script.Cut("x1", v)
		}
		w.watchers.startWatching(w.host("x2").p)
		w.Run(20 * time.Millisecond)
		w.faults.Heal()
		w.Run(sceneTTL)
		w.Script.Release(r)
		w.Run(sceneTTL)
	}
}

// noting reports each value as confirmed when the value is set.
type noting struct {
	*node.Node
	set *[]quorum.Event
}

func notesAtOnce(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return noting{n, new([]quorum.Event)}, err
}

func (g noting) SetValue(now vote.Now, n vote.Number, value []byte) uint64 {
	version := g.Node.SetValue(now, n, value)
	if version != 0 {
		*g.set = append(*g.set, quorum.Event{Kind: quorum.EventValueSet, Number: n, Version: version})
	}
	return version
}

func (g noting) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = g.Node.Drain(out, append(ev, *g.set...))
	*g.set = nil
	return out, ev
}

// outdating is a node with inspections that show the value before the newest.
type outdating struct{ *node.Node }

func showsOlderValues(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return outdating{n}, err
}

func (o outdating) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = o.Node.Drain(out, ev)
	for _, e := range ev {
		if e.Result == nil {
			continue
		}
		for i := range e.Result.Views {
			if s := &e.Result.Views[i]; s.Version > 1 {
				s.Version--
				s.Value = valueOf(s.Version)
			}
		}
	}
	return out, ev
}

// valueSetAtOnce has x2 inspect a key each time another value of x1's lease is confirmed to x1.
func valueSetAtOnce(w *World) {
	r := w.Script.Ask(Ask{Node: "x1", Key: "k", Value: true})
	for r.State == Waiting && w.Err() == nil {
		w.Run(time.Millisecond)
	}
	for range mostValues {
		for noted := r.noted; r.noted == noted && r.noted < mostValues && w.Err() == nil; {
			w.Run(time.Microsecond)
		}
		w.inspectors.Inspect(w.host("x2").p, w.judge.keyOf("k"))
		w.Run(sceneTTL / 8)
	}
}
