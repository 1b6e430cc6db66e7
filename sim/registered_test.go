package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// TestSwarmRegistered runs seeds of a mesh with a register, with a population larger than any
// bound.
func TestSwarmRegistered(t *testing.T) {
	seeds := sampled.Count(5, 60)
	swarm(t, seeds, DrawWithRegister, func(f *Figures) {
		n := uint64(seeds)
		if f.Fired[fault.Register] == 0 {
			t.Error("no run kept calls from the register")
		}
		if f.Behind < n {
			t.Errorf("%d loads showed an earlier record", f.Behind)
		}
		if f.Births < n || f.Rebirths < n/3 || f.Changes < n/2 || f.Registrations < n {
			t.Errorf("%d births, %d registrations, %d rebirths and %d changes: it has shown too little", f.Births, f.Registrations, f.Rebirths, f.Changes)
		}
		servingJudged(t, f, seeds)
	}, "-register")
}

// TestWithARegisterNoBoundIsNeeded runs the world in which two meshes are born without a register:
// with a register only one mesh is born.
func TestWithARegisterNoBoundIsNeeded(t *testing.T) {
	o := DrawOverBound(crowdedSeed)
	o.ByCount.Register = 6 * o.MaxTTL
	w := New(o)
	w.Run(30 * time.Second)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
	if w.fig.Acquisitions == 0 || w.fig.Registrations == 0 {
		t.Errorf("%+v", w.fig)
	}
}

// A process that hears of another mesh gives up its electorate while it holds a lease, and reports
// the loss. The voters that go on grant the key at once: the lease has ended, and no check may take
// it for a lease that lasts until its validity ends.
func TestALeaseEndsWhenItsProcessGivesUpItsElectorate(t *testing.T) {
	w := New(registered())
	w.known("a", "b", "c")
	r := w.Script.Lock("a", "k")
	w.expect(r, Granted, countedTTL)
	w.judge.onLost(r.p, r)
	if err := w.Err(); err != nil || r.State != Lost || r.EndAt != w.now {
		t.Errorf("%v: %v, over at %v, now %v", err, r.State, r.EndAt, w.now)
	}
}

// registered returns the options of a scenario with processes on six hosts. All six may run at a
// time: two more than Expect 3 allows without a register.
func registered() Options {
	return counted(ByCount{Expect: 3, Most: 6, First: 3, Register: 3 * countedTTL})
}

// apart cuts a, b and c off from the others and, if unregistered is set, from the register.
func apart(w *World, unregistered bool) {
	w.Script.Split([]string{"a", "b", "c"}, []string{"d", "e", "f"})
	w.registry.cut = make(map[*host]int)
	for _, name := range []string{"a", "b", "c"} {
		w.registry.cut[w.host(name)] = bit(unregistered)
	}
}

// twoFleets starts two fleets without contact to each other.
func twoFleets(w *World) {
	apart(w, false)
	for _, name := range []string{"d", "e", "f"} {
		w.Script.Start(name)
	}
	w.Run(3 * countedTTL)
	w.Script.Lock("a", "k")
	w.Script.Lock("d", "k")
	w.Run(4 * countedTTL)
}

// cutOff has a, b and c found a mesh, and a hold a key. Then a, b and c are cut off from all
// others, and other processes take their place.
func cutOff(w *World) {
	w.known("a", "b", "c")
	w.expect(w.Script.Lock("a", "k"), Granted, countedTTL)
	apart(w, true)
	for _, name := range []string{"d", "e", "f"} {
		w.Script.Start(name)
	}
	w.RunUntil(6*countedTTL, func() bool { return w.host("d").p.knew != 0 })
	w.Script.Lock("d", "k")
	w.Run(3 * countedTTL)
}

// countsAlways has its votes count without the consent of the register.
type countsAlways struct{ *node.Node }

func (c countsAlways) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if c.Known().Version != 0 {
		_ = c.Voter().SetTerm(now, vote.Never, nil)
	}
	c.Node.Deliver(now, conn, from, m)
}

// storesBlindly replaces the record of the register without a comparison.
type storesBlindly struct {
	*node.Node
	w *World
}

func (s storesBlindly) RegisterCalls() []vote.RegisterCall {
	calls := s.Node.RegisterCalls()
	for i := range calls {
		calls[i].Old = s.w.registry.record
	}
	return calls
}

// impatient takes the term of a record for a sixth of its length.
type impatient struct{ storesBlindly }

func (s impatient) Registered(now vote.Now, r vote.RegisterResult) {
	r.Record.Term /= 6
	s.Node.Registered(now, r)
}

var registeredMutants = []struct {
	name     string
	seed     uint64 // zero: any seed
	build    Builder
	scenario func(w *World)
}{
	{"a founding by pledges alone", 0, func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		cfg.Dynamic.RegisterTerm = 0
		return node.New(cfg, now)
	}, twoFleets},
	// With this seed both foundings load the record before either stores.
	{"stores without a comparison", 42, func(w *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return storesBlindly{n, w}, err
	}, twoFleets},
	{"votes that count after their term", 0, func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return countsAlways{n}, err
	}, cutOff},
	{"a record replaced before its term is over", 0, func(w *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		if cfg.Name < "d" {
			return n, err // the voters of the first mesh act for the whole term
		}
		return impatient{storesBlindly{n, w}}, err
	}, cutOff},
}

// TestEveryRuleOfTheRegisterIsNeeded shows that each rule of the register is needed: two nodes hold
// a key without the rule, and never with the rule.
func TestEveryRuleOfTheRegisterIsNeeded(t *testing.T) {
	for _, m := range registeredMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			o := registered()
			o.Seed = m.seed
			ruleIsNeeded(t, o, m.build, m.scenario)
		})
	}
}
