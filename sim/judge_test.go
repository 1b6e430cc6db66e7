package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// allBut returns the set that disables every check except for one.
func allBut(rule string) map[string]bool {
	deaf := make(map[string]bool)
	for _, c := range []string{
		check.RuleExclusion, check.RuleTokens, checkTokenBounds, checkLost, checkNotified, checkValidity, checkQuiet, check.RulePromises, check.RuleSerial, checkTry, checkUnlock,
		checkAlarm, checkLiveness, checkBaseline, checkEvents, check.RuleHistory, check.RuleResource, check.RuleOrder, checkDrift, check.RuleRest, check.RuleLength, check.RuleIdle, checkRefusal,
	} {
		deaf[c] = c != rule
	}
	return deaf
}

// TestOneCheckAloneFindsMutants shows that a check finds the mutants it exists for, with all other
// checks disabled.
func TestOneCheckAloneFindsMutants(t *testing.T) {
	for _, row := range []struct{ check, mutant string }{
		{check.RuleHistory, "no quiet time"},
		{check.RuleHistory, "quiet votes that count"},
		{check.RuleHistory, "votes kept across a voter's incarnations"},
		{check.RuleHistory, "session validity by any majority"},
		{check.RuleHistory, "late serials honoured"},
		{check.RuleHistory, "generations ignored"},
		{check.RuleHistory, "no confirmation of tokens"},
		{check.RuleHistory, "restarted voters that don't ask for the highest token"},
		{check.RuleHistory, "majority of the peers that look alive"},
		{check.RuleHistory, "a lost lease comes back"},
		{check.RuleHistory, "highest token asked for at the start of the quiet time"},
		{check.RuleHistory, "an acknowledgement covers votes of another generation"},
		{check.RuleHistory, "a superseded incarnation's votes dropped at once"},
		{check.RuleHistory, "expiry on wall clocks"},
		{check.RuleHistory, "hearsay of a death ends a session"},
		{check.RuleHistory, "release without owner check"},
		{check.RuleHistory, "an answer that only adds"},
		{check.RuleHistory, "a proposal timeout that revokes without the owner's word"},
		{check.RuleResource, "no confirmation of tokens"},
		{check.RuleResource, "restarted voters that don't ask for the highest token"},
		{check.RuleOrder, "the youngest is served first"},
	} {
		t.Run(row.check+" finds "+row.mutant, func(t *testing.T) {
			t.Parallel()
			for _, m := range mutants {
				if m.name != row.mutant {
					continue
				}
				if err := m.play(m.build, allBut(row.check)); err == nil {
					t.Error("it doesn't")
				} else {
					t.Logf("%.300v", err)
				}
				return
			}
			t.Error("there is no such mutant")
		})
	}
}

// TestTheJudgeBeyondTheAssumptionsIsJudged shows that runs with checks of tokens alone find the
// mutants that break the order of tokens: by one of 200 seeds beyond the assumptions, or by the
// mutant's scenario.
func TestTheJudgeBeyondTheAssumptionsIsJudged(t *testing.T) {
	sampled.Computes(t)
	for _, row := range []struct {
		mutant string
		seeds  uint64 // one of the first seeds finds the mutant; zero: its scenario does
	}{
		{"restarted voters that don't ask for the highest token", 200},
		{"majority of the peers that look alive", 200},
		{"no confirmation of tokens", 0},
		{"highest token asked for at the start of the quiet time", 0},
	} {
		t.Run(row.mutant, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == row.mutant })
			if i < 0 {
				t.Fatal("there is no such mutant")
			}
			m := mutants[i]
			if row.seeds != 0 {
				beyond := func(seed uint64, b Builder) error {
					o := DrawBeyond(seed)
					o.Build = b
					w := New(o)
					w.judge.deaf = outcomes
					w.Run(mutantLength)
					return w.Err()
				}
				for seed := uint64(1); seed <= row.seeds; seed++ {
					err := beyond(seed, m.build)
					if err == nil {
						continue
					}
					t.Logf("seed %d: %.200v", seed, err)
					if err := beyond(seed, Genuine); err != nil {
						t.Errorf("seed %d without it: %v", seed, err)
					}
					return
				}
				t.Errorf("none of %d seeds finds it", row.seeds)
				return
			}
			m.options.TokensOnly = true
			if err := m.play(m.build, outcomes); err == nil {
				t.Error("its scenario doesn't find it")
			} else {
				t.Logf("%.200v", err)
			}
			if err := m.play(Genuine, nil); err != nil {
				t.Errorf("its scenario without it: %v", err)
			}
		})
	}
}

// eldest reverses the order of stamps for its voter: the latest request comes first.
type eldest struct{ Machine }

func youngestFirst(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return eldest{n}, err
}

func (e eldest) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	const turn = 2 * epoch / 1000
	switch m.Kind {
	case vote.KindRequest:
		m.Time = turn - m.Time
	case vote.KindSync:
		for i := range m.Entries {
			m.Entries[i].Time = turn - m.Entries[i].Time
		}
	}
	e.Machine.Deliver(now, conn, from, m)
}

// threeWait has x1 hold a key while x2 waits and, later than clock errors can explain, x3 waits
// too.
func threeWait(w *World) {
	requestInOrder(w, Ask{Node: "x1", Key: "k"}, Ask{Node: "x2", Key: "k"}, Ask{Node: "x3", Key: "k"})
}

// requestInOrder makes a first request, which is granted and released later, and while its lease
// lasts two more, further apart than errors of clocks can explain. It returns once one of these is
// granted.
func requestInOrder(w *World, first, second, third Ask) {
	w.Run(calmTTLs*sceneTTL + servedFixed)
	held := w.Script.Ask(first)
	w.Run(time.Second)
	before := w.Script.Ask(second)
	w.Run(3 * time.Second)
	after := w.Script.Ask(third)
	w.Run(time.Second)
	w.Script.Release(held)
	w.RunUntil(sceneTTL, func() bool { return before.State == Granted || after.State == Granted })
}

// TestAnUnexplainedCallIsNamed shows that the violation in a wrong history names the call at fault.
func TestAnUnexplainedCallIsNamed(t *testing.T) {
	w := New(Options{History: true, Clocks: Clocks{Exact: true}})
	w.Script.Awake()
	a, b := w.Script.Lock("a", "k"), w.Script.Lock("b", "k")
	w.Run(time.Second)
	if a.State != Granted || b.State != Waiting {
		t.Fatalf("%v, %v", a.State, b.State)
	}
	b.Token, b.Asked, b.Had = a.Token+1, w.Now(), w.Now()
	w.histories.granted(b, false) // the grant never happened
	w.histories.checkHistory()
	want := fmt.Sprintf("lock by b's request %d: token %d", b.Number, b.Token)
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q named", err, want)
	}
}

// TestAnExcuseCoversVotesThatAreOlder is the shrunk script of a world beyond the assumptions. Two
// voters trust clocks behind the last token, and vote for a, which is paused unseen. Meanwhile b is
// granted the key with a token above all others, and then a learns that its request has won. The
// votes for a are older than b's lease, so b's lease doesn't use up the excuse for these votes.
func TestAnExcuseCoversVotesThatAreOlder(t *testing.T) {
	w := New(Options{
		Seed:   0x1dd99b8,
		Voters: 3,
		MaxTTL: 3 * time.Second,
		Net:    Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1},
		Clocks: Clocks{PPM: []int64{0, 0, -136033}, Exact: true},
		Load: Load{Asks: []Ask{
			{At: 10810 * time.Millisecond, Node: "a", Key: "key-0"},
			{At: 30 * time.Second, Node: "c", Key: "key-0"},
			{At: 31100 * time.Millisecond, Node: "b", Key: "key-0"},
			{At: 32 * time.Second, Node: "b", Key: "key-0"},
			{At: 34 * time.Second, Node: "a", Key: "key-0"},
		}},
		Acts: []Act{
			{At: 1800 * time.Millisecond, Fault: fault.Beyond, Hosts: []string{"b"}, PPM: 81256},
			{At: 8 * time.Second, Fault: fault.Beyond, Hosts: []string{"c"}, PPM: 6577},
			{At: 11 * time.Second, Fault: fault.Stop, Hosts: []string{"a"}, For: 11 * time.Second},
			{At: 14 * time.Second, Fault: fault.Unseen, Hosts: []string{"c"}, For: 800 * time.Millisecond},
			{At: 20200 * time.Millisecond, Fault: fault.Rolling, Hosts: []string{"b", "a", "c"}, By: 5500 * time.Millisecond, Seed: 0x38aeb84247742645},
			{At: 22200 * time.Millisecond, Fault: fault.Stop, Hosts: []string{"b"}, For: 2300 * time.Millisecond},
			{At: 24 * time.Second, Fault: fault.Flap, Hosts: []string{"b"}, Far: []string{"a"}, For: 9 * time.Second, By: time.Second},
			{At: 26700 * time.Millisecond, Fault: fault.Unseen, Hosts: []string{"a"}, For: 3 * time.Second},
			{At: 30 * time.Second, Fault: fault.Stop, Hosts: []string{"a"}, For: 3 * time.Second},
			{At: 33 * time.Second, Fault: fault.Unseen, Hosts: []string{"b"}, For: 4 * time.Second},
			{At: 34200 * time.Millisecond, Fault: fault.Unseen, Hosts: []string{"a"}, For: 6 * time.Second},
		},
		TokensOnly: true,
	})
	w.Run(40200 * time.Millisecond)
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
	if w.Figures().Excused == 0 {
		t.Error("nothing was excused: this doesn't mean the same any more")
	}
}

// TestAnExcuseCoversALeaseThatIsHandedOff is the shrunk script of a world beyond the assumptions.
// Voter c forgets a token of b, a node with a fast clock, and votes for node a by its own clock.
// The first caller of a asked before b was granted the key, so the smaller token of this caller
// isn't out of order. The second caller of a asked later and takes over the lease of the first: its
// token is out of order, with the same excuse.
func TestAnExcuseCoversALeaseThatIsHandedOff(t *testing.T) {
	w := New(Options{
		Seed:   0x3d77860f,
		Voters: 3,
		MaxTTL: 2 * time.Second,
		Net:    Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1},
		Clocks: Clocks{Exact: true},
		Load: Load{Asks: []Ask{
			{At: 21 * time.Second, Node: "a", Key: "key-0"},
			{At: 22 * time.Second, Node: "b", Key: "key-0", Hold: 400 * time.Millisecond},
			{At: 22040 * time.Millisecond, Node: "a", Key: "key-0", Hold: 300 * time.Millisecond},
		}},
		Acts: []Act{
			{Fault: fault.Beyond, Hosts: []string{"b"}, PPM: 179477},
			{At: 20 * time.Second, Fault: fault.Split, Hosts: []string{"a"}, Far: []string{"b", "c"}, For: 5 * time.Second},
			{At: 22020 * time.Millisecond, Fault: fault.Flap, Hosts: []string{"b"}, Far: []string{"c"}, OneWay: true, For: 3 * time.Second, By: time.Second},
			{At: 22040 * time.Millisecond, Fault: fault.Crash, Hosts: []string{"c"}},
		},
		TokensOnly: true,
	})
	w.Run(25700 * time.Millisecond)
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
	if f := w.Figures(); f.ByClock == 0 || f.HandedOff == 0 || f.Fenced == 0 {
		t.Errorf("%d voters trusted their clocks, %d leases were handed off and %d writes refused: this doesn't mean the same any more",
			f.ByClock, f.HandedOff, f.Fenced)
	}
}
