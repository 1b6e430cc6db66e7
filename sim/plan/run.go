package plan

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// slice is how much of a world runs between two progress reports.
const slice = 10 * time.Second

// Progress is called with the simulated time so far, and the total. Several goroutines call it at
// once.
type Progress func(simulated, of time.Duration)

// Run simulates a scenario on all processors. The report depends on the scenario alone, not on the
// number of processors.
func Run(s *Scenario, p Progress) *Report { return run(s, p, runtime.GOMAXPROCS(0), nil) }

// outcome is the result of one world.
type outcome struct {
	m   *measures
	err error
}

func run(s *Scenario, p Progress, workers int, alter func(*sim.Options)) *Report {
	all := make([]outcome, s.Simulate.Worlds)
	each := time.Duration(s.Simulate.For) / time.Duration(len(all))
	var next, done atomic.Int64
	var group sync.WaitGroup
	for range min(workers, len(all)) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				x := newWorld(s, mix(s.Simulate.Seed)+uint64(i), alter)
				for left := each; left > 0 && x.w.Err() == nil; left -= slice {
					x.w.Run(min(left, slice))
					if now := done.Add(int64(min(left, slice))); p != nil {
						p(time.Duration(now), each*time.Duration(len(all)))
					}
				}
				x.finish()
				all[i] = outcome{x.measures, x.w.Err()}
			}
		})
	}
	group.Wait()
	m := newMeasures(s)
	for i := range all {
		m.add(all[i].m)
	}
	r := s.report(m, each*time.Duration(len(all)))
	if i := slices.IndexFunc(all, func(o outcome) bool { return o.err != nil }); i >= 0 {
		text := all[i].err.Error()
		r.Violation, r.ViolatedIn = &text, i+1
	}
	return r
}

// finish counts the intervals still open at the end.
func (x *world) finish() {
	x.pass()
	x.alarms = x.w.Figures().Alarms
	for _, k := range x.posts {
		if k.gap == gapDeath {
			x.orphaned++
		}
	}
}
