package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// TestSwarmCounted runs seeds of a mesh that is born by count, with a population within the bound
// of the claim.
func TestSwarmCounted(t *testing.T) {
	seeds := sampled.Count(10, 60)
	swarm(t, seeds, DrawByCount, func(f *Figures) {
		n := uint64(seeds)
		for _, k := range f.NotFired() {
			if k.IsOfByCount() && k != fault.Register && k != fault.Misconfigure {
				t.Errorf("no run had this fault: %v", k)
			}
		}
		if f.Births < n || f.Rebirths < n/3 || f.Changes < n/2 {
			t.Errorf("%d births, %d rebirths and %d changes: it has shown too little", f.Births, f.Rebirths, f.Changes)
		}
		servingJudged(t, f, seeds)
	}, "-by-count")
}

// crowdedSeed is the seed of a world with one process more than the claim allows. Two nodes hold a
// key in this world.
const crowdedSeed = 184

// TestBeyondTheBoundTwoHold shows that the bound is needed: with one process more, two meshes are
// born, and both grant the same key.
func TestBeyondTheBoundTwoHold(t *testing.T) {
	o := DrawOverBound(crowdedSeed)
	if c := o.ByCount; c.Most != c.Bound()+1 {
		t.Fatalf("%+v", c)
	}
	w := New(o)
	w.Run(30 * time.Second)
	v := w.Violation()
	if v == nil || v.Check != check.RuleExclusion {
		t.Fatalf("seed %d shows nothing any more (%v): look for another with lockmesh-sim -over-bound", crowdedSeed, v)
	}
	t.Log(v)
}

// TestFoundersWithAShorterMaxTTL shows that even within the bound, founders with a shorter MaxTTL
// than an earlier mesh are in startup quarantine for too short a time. So the claim requires the
// same MaxTTL everywhere. With a register, the record shows the longer MaxTTL.
func TestFoundersWithAShorterMaxTTL(t *testing.T) {
	t.Parallel()
	for _, registered := range []bool{false, true} {
		const long, short = 12 * time.Second, 4 * time.Second
		o := counted(ByCount{Expect: 3, Most: 4, First: 3})
		o.MaxTTL, o.Dynamic = long, &Dynamic{MaxTTL: short, LeastTTL: short}
		if registered {
			o.ByCount.Register = 3 * long
		}
		w := New(o)
		w.known("a", "b", "c")
		for _, h := range []string{"b", "c"} {
			w.ChangeMaxTTL(h, long, 0)
			w.Run(6 * long)
		}
		if e := w.host("b").p.m.Known(); e == nil || e.MaxTTL != long || len(e.Voters) != 3 {
			t.Fatalf("b applies %+v", e)
		}
		w.Script.Split([]string{"b"}, []string{"d", "e", "f"})
		held := w.Script.Lock("b", "k")
		w.Run(2 * time.Second)
		w.Script.PowerOff("a")
		w.Script.PowerOff("c")
		for _, h := range []string{"d", "e", "f"} {
			w.Script.Start(h)
		}
		w.RunUntil(20*time.Second, func() bool { return w.host("d").p.knew != 0 })
		next := w.Script.Lock("d", "k")
		w.RunUntil(100*time.Second, func() bool { return w.Violation() != nil || next.State == Granted })
		v := w.Violation()
		switch {
		case w.population.alive() != 4:
			t.Errorf("%d processes run", w.population.alive())
		case registered && (v != nil || next.State != Granted || held.State == Granted):
			t.Errorf("with a register: %v, the leases are %v and %v", v, held.State, next.State)
		case !registered && (v == nil || v.Check != check.RuleExclusion):
			t.Errorf("without a register nothing is violated (%v): take the condition out of the pages", v)
		}
	}
}

// countedTTL is longer than the margin of a birth, for which the founders must stay the same. Only
// then can a lease of an earlier mesh still stand after a birth.
const countedTTL = 6 * time.Second

// counted returns the options of a scenario with processes on up to six hosts, a to f.
func counted(c ByCount) Options {
	return Options{
		Names: []string{"a", "b", "c", "d", "e", "f"}, Voters: 6, MaxTTL: countedTTL, Dynamic: &Dynamic{}, ByCount: &c,
		Clocks: Clocks{PPM: make([]int64, 6), Wall: make([]time.Duration, 6)},
	}
}

// known lets time pass until the named processes know an electorate and can lock.
func (w *World) known(names ...string) {
	if !w.RunUntil(10*countedTTL, func() bool {
		for _, name := range names {
			if h := w.host(name); h.p == nil || h.p.knew == 0 || !h.p.m.Ready() {
				return false
			}
		}
		return true
	}) && w.failed == nil {
		w.judge.violate(checkLiveness, "%v know no electorate", names)
	}
}

// TestTwoMeshesThatMeetBecomeOne lets two meshes, born beyond the bound, meet. One mesh gives way
// at once, and its processes join the other.
func TestTwoMeshesThatMeetBecomeOne(t *testing.T) {
	o := counted(ByCount{Expect: 3, Most: 5})
	w := New(o)
	w.known("a", "b", "c")
	w.Script.Split([]string{"a", "b"}, []string{"d", "e", "f"})
	w.Script.PowerOff("c")
	for _, name := range []string{"d", "e", "f"} {
		w.Script.Start(name)
	}
	w.known("d", "e", "f")
	if w.fig.Births != 2 {
		t.Fatalf("%d births", w.fig.Births)
	}
	w.Script.Join([]string{"a", "b"}, []string{"d", "e", "f"})
	all := []string{"a", "b", "d", "e", "f"}
	one := func() bool {
		first := w.host("a").p.knew
		return first != 0 && !slices.ContainsFunc(all, func(n string) bool { return !vote.SameBirth(w.host(n).p.knew, first) || !w.Script.Ready(n) })
	}
	if !w.RunUntil(3*countedTTL, one) {
		t.Errorf("they are not one: %v", w.Err())
	}
	if w.fig.Alarms == 0 {
		t.Error("no process raises an alarm")
	}
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}

// ruleIsNeeded plays a scenario with nodes as in production, and with nodes that break a rule. Two
// nodes hold a key only without the rule.
func ruleIsNeeded(t *testing.T, o Options, broken Builder, scenario func(w *World)) {
	t.Helper()
	run := func(build Builder) *World {
		o.Build = build
		w := New(o)
		scenario(w)
		return w
	}
	if w := run(Genuine); w.Err() != nil || w.fig.Births == 0 || w.fig.Acquisitions == 0 {
		t.Errorf("with the rule: %d births, %d leases, %v", w.fig.Births, w.fig.Acquisitions, w.Err())
	}
	if v := run(broken).Violation(); v == nil || v.Check != check.RuleExclusion {
		t.Errorf("without the rule: %v", v)
	}
}

// TestEveryRuleOfABirthIsNeeded shows that each rule of a birth by count is needed: two nodes hold
// a key without the rule, and never with the rule.
func TestEveryRuleOfABirthIsNeeded(t *testing.T) {
	for _, m := range countedMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			ruleIsNeeded(t, m.options, m.build, m.scenario)
		})
	}
}

// TestLostPacketsDelayNoBirth lets five processes found a mesh over a network that loses one packet
// of a hundred: TCP sends such a packet again after 200 ms, two polls later. The founders must
// reach each other for birthMargin without a break, and lost packets are no break.
func TestLostPacketsDelayNoBirth(t *testing.T) {
	for seed := range uint64(20) {
		o := counted(ByCount{Expect: 5, Most: 5})
		o.Seed = seed
		o.Net.Delay = func(_, _ int, random uint64) time.Duration {
			if random%100 == 0 {
				return 250 * time.Millisecond
			}
			return time.Millisecond
		}
		w := New(o)
		if !w.RunUntil(5*time.Second, func() bool { return w.fig.Births > 0 }) {
			t.Errorf("seed %d: no mesh after 5 s", seed)
		}
	}
}
