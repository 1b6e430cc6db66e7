package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// watched has all processes of a drawn world watch all keys.
func watched(o Options) Options {
	o.Watches = true
	return o
}

// healthy draws a world with watches and without faults.
func healthy(seed uint64) Options {
	o := watched(Draw(seed))
	o.Faults.Every = 0
	return o
}

// busy draws a healthy world in which all clients want one key all the time, so that messages of
// voters cross.
func busy(seed uint64) Options {
	o := healthy(seed)
	o.Load.Keys, o.Load.Clients, o.Load.Think, o.Load.Hold, o.Load.Forever, o.Load.Try = 1, 2, 5*time.Millisecond, 5*time.Millisecond, 100, 0
	return o
}

// TestAWatchOfAHealthyMeshIsATrueStory shows that without faults, at any latency and load, a watch
// reports each lease once, reports each release, and reports no released lease as lost.
func TestAWatchOfAHealthyMeshIsATrueStory(t *testing.T) {
	swarm(t, sampled.Count(8, 16), healthy, reportedInPeace(t))
}

// TestAWatchOfABusyMeshIsATrueStory does the same with a key that changes hands all the time.
func TestAWatchOfABusyMeshIsATrueStory(t *testing.T) {
	swarm(t, sampled.Count(2, 16), busy, reportedInPeace(t))
}

func reportedInPeace(t *testing.T) func(f *Figures) {
	return func(f *Figures) {
		if f.WatchGaps != 0 || f.WronglyLost != 0 || f.WatchEvents < 1000 || f.WholeWatches < 8 {
			t.Errorf("of %d events %d reported a loss that wasn't one; %d gaps, and %d watches without any", f.WatchEvents, f.WronglyLost, f.WatchGaps, f.WholeWatches)
		}
	}
}

// TestWatchesAmidFaults demands the same amid faults, except for the documented gaps: while no
// majority reports without interruption.
func TestWatchesAmidFaults(t *testing.T) {
	swarm(t, sampled.Count(8, 16), func(seed uint64) Options { return watched(Draw(seed)) }, watchedEnough(t))
}

// TestWatchesWithCoalescing does the same with write coalescing.
func TestWatchesWithCoalescing(t *testing.T) {
	swarm(t, 8, func(seed uint64) Options { return watched(coalescing(Draw(seed))) }, watchedEnough(t))
}

// TestWatchesWhereTheElectorateChanges does the same with dynamic membership. Every other world has
// no faults: amid faults and changes no lease comes and goes undisturbed.
func TestWatchesWhereTheElectorateChanges(t *testing.T) {
	sampled.Computes(t)
	swarm(t, sampled.Count(2, 4), func(seed uint64) Options {
		o := watched(DrawDynamic(seed))
		if seed%2 == 0 {
			o.Faults.Every = 0
		}
		return o
	}, watchedEnough(t))
}

// watchedEnough demands that watches had something to report, and that watches without a gap had to
// report some leases.
func watchedEnough(t *testing.T) func(f *Figures) {
	return func(f *Figures) {
		if f.WatchEvents < 1000 || f.WatchedFrom == 0 || f.WatchedWhole == 0 {
			t.Errorf("%d events were reported; %d states had to show %d leases, and %d watches without a gap had to report %d",
				f.WatchEvents, f.WatchStates, f.WatchedFrom, f.WholeWatches, f.WatchedWhole)
		}
	}
}

// TestWorldsFindWatchesThatReportUntruths breaks the reports on which watches rest, and looks for a
// healthy mesh in which the harm shows.
func TestWorldsFindWatchesThatReportUntruths(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	const overheard = "what was overheard counts as a vote"
	rewritten := func(ev []vote.Outbound, change func(m *vote.Message)) []vote.Outbound {
		for i := range ev {
			if m := &ev[i].Message; m.Kind == vote.KindEvents {
				m.Views = slices.Clone(m.Views)
				change(m)
			}
		}
		return ev
	}
	for name, change := range map[string]func(m *vote.Message){
		overheard: func(m *vote.Message) {
			for i := range m.Views {
				if m.Views[i].State == vote.GrantedElsewhere {
					m.Views[i].State = vote.Holding
				}
			}
		},
		"ends aren't reported": func(m *vote.Message) {
			m.Views = slices.DeleteFunc(m.Views, func(s vote.View) bool { return s.State == vote.Released })
		},
		"grants aren't reported": func(m *vote.Message) {
			m.Views = slices.DeleteFunc(m.Views, func(s vote.View) bool { return s.State == vote.Holding })
		},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 300
			first := uint64(0)
			if name == overheard {
				first = 206 // the first seed that shows the harm, as of now
			}
			for seed := range uint64(most) {
				o := busy((seed + first) % most)
				o.Build = func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
					n, err := node.New(cfg, now)
					return rewriting{n, func(out []vote.Outbound) []vote.Outbound { return rewritten(out, change) }}, err
				}
				w := New(o)
				w.Run(30 * time.Second)
				if err := w.Settle(); err != nil || w.Figures().WatchGaps > 0 || w.Figures().WronglyLost > 0 {
					t.Logf("seed %d: %v, %d gaps, %d untrue losses", o.Seed, err, w.Figures().WatchGaps, w.Figures().WronglyLost)
					return
				}
			}
			t.Errorf("no world of %d shows it", most)
		})
	}
}

// rewriting is a node with changed outgoing messages.
type rewriting struct {
	*node.Node
	rewrite func([]vote.Outbound) []vote.Outbound
}

func (r rewriting) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = r.Node.Drain(out, ev)
	return r.rewrite(out), ev
}

// TestALossThatWasNoneIsFoundAmidFaults has voters report released leases as ended by themselves.
// The checks must notice amid faults too, for leases without a fault nearby.
func TestALossThatWasNoneIsFoundAmidFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		o := watched(Draw(seed))
		o.Build = func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
			n, err := node.New(cfg, now)
			return rewriting{n, func(out []vote.Outbound) []vote.Outbound {
				for i := range out {
					if m := &out[i].Message; m.Kind == vote.KindEvents {
						m.Views = slices.Clone(m.Views)
						for j := range m.Views {
							if m.Views[j].State == vote.Released {
								m.Views[j].State = vote.Ended
							}
						}
					}
				}
				return out
			}}, err
		}
		w := New(o)
		w.Run(30 * time.Second)
		if err := w.Settle(); err != nil && strings.Contains(err.Error(), "as lost, held from") {
			return
		}
	}
	t.Error("no world of 100 shows it")
}
