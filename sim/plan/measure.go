package plan

import (
	"math"
	"slices"
	"time"
)

// measures are the counts of one world, or of all.
type measures struct {
	probers    []probes        // by node
	free       []time.Duration // durations of the probes granted in time
	handOver   []time.Duration
	takeOver   []time.Duration
	of         [classes]tally
	upkeep     uint64        // messages between nodes that are sent whether locks are used or not
	upFor      time.Duration // of all nodes together
	heldFor    time.Duration // of all leases together
	lost       uint64
	orphaned   uint64 // posts not taken over from a crashed holder by the end
	looks      uint64
	majorities uint64

	crashes, partitions, pauses, cuts, alarms uint64
}

// probes are a node's counts of probes.
type probes struct{ asked, failed uint64 }

// tally counts for locks of one class.
type tally struct {
	grants, oneRound, messages, yields uint64
}

func newMeasures(s *Scenario) *measures {
	return &measures{probers: make([]probes, len(s.nodes()))}
}

// probed records the result of a probe; took is negative if the probe wasn't granted in time.
func (m *measures) probed(node int, took time.Duration) {
	p := &m.probers[node]
	p.asked++
	if took < 0 {
		p.failed++
	} else {
		m.free = append(m.free, took)
	}
}

// add adds another world's measures.
func (m *measures) add(o *measures) {
	for i := range m.probers {
		m.probers[i].asked += o.probers[i].asked
		m.probers[i].failed += o.probers[i].failed
	}
	m.free = append(m.free, o.free...)
	m.handOver = append(m.handOver, o.handOver...)
	m.takeOver = append(m.takeOver, o.takeOver...)
	for i := range m.of {
		t, u := &m.of[i], &o.of[i]
		t.grants += u.grants
		t.oneRound += u.oneRound
		t.messages += u.messages
		t.yields += u.yields
	}
	m.upkeep += o.upkeep
	m.upFor += o.upFor
	m.heldFor += o.heldFor
	m.lost += o.lost
	m.orphaned += o.orphaned
	m.looks += o.looks
	m.majorities += o.majorities
	m.crashes += o.crashes
	m.partitions += o.partitions
	m.pauses += o.pauses
	m.cuts += o.cuts
	m.alarms += o.alarms
}

// rank returns the least of the sorted samples that at least a share q of the samples doesn't
// exceed.
func rank(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}

func times(samples []time.Duration) Times {
	t := Times{Count: len(samples)}
	if t.Count == 0 {
		return t
	}
	slices.Sort(samples)
	of := func(q float64) *Seconds { x := Seconds(rank(samples, q)); return &x }
	t.Median, t.P99, t.Most = of(0.5), of(0.99), of(1)
	return t
}

// share returns a part of a whole as a fraction; nil if the whole is zero.
func share(part, whole float64) *float64 {
	if whole == 0 {
		return nil
	}
	x := part / whole
	return &x
}
