package sim

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// A mutant is a node that breaks one rule of the protocol: the genuine node in a wrapper that
// changes the messages of the node. Production code has no switch for mutants. Tests must find each
// mutant.
type mutant struct {
	name  string
	build Builder
	// scenario sets up the occasion for the harm.
	scenario func(w *World)
	options  Options                   // of the scenario
	draw     func(seed uint64) Options // Draw, if nil
	// unseen says why no user sees the harm, if only the world's own checks can find the mutant.
	unseen string
}

// mutantKinds has the mutants by kind. Of each kind, the gate tries the first mutant at least.
var mutantKinds = [][]mutant{
	firstMutants, moreMutants, modeMutants, handOffMutants, coalescingMutants, holdMutants, deafMutants, dynamicMutants, listMutants,
	grayMutants, forgedMutants, seenMutants, countedMutants, toldMutants,
}

var mutants = slices.Concat(mutantKinds...)

var firstMutants = []mutant{
	{name: "no quiet time", build: shared(broken.Hasty), scenario: votesAgainAtOnce, options: Options{Clients: 2}},
	{name: "quiet votes that count", build: shared(broken.HidesQuiet(broken.QuietCounts)), scenario: oneVoterAcrossTwoLives, options: Options{Clients: 2}},
	{name: "votes kept across a voter's incarnations", build: shared(broken.HidesQuiet(broken.KeepsVotes)), scenario: forgottenVote, options: Options{Clients: 2}},
	{name: "session validity by any majority", build: shared(broken.AnyMajority), scenario: anotherMajority, options: Options{Clients: 2}},
	{name: "late serials honoured", build: shared(broken.HonoursLate), scenario: confirmedAfterYield, options: Options{
		Clients: 2, Clocks: Clocks{PPM: []int64{0, 0, 0, 0, 0}, Wall: []time.Duration{time.Hour, 0, 0, time.Hour, 0}},
	}},
	{name: "generations ignored", build: ignoresGenerations, scenario: sessionRenewed, options: Options{Clients: 2}},
	{name: "no confirmation of tokens", build: shared(broken.ConfirmsNothing), scenario: tokenOfOneVoter, options: Options{
		Clients: 2, Clocks: Clocks{PPM: []int64{0, 0, 0, 0, 0}, Wall: []time.Duration{time.Hour, 0, 0, time.Hour, 0}},
	}},
	{name: "restarted voters that don't ask for the highest token", build: shared(broken.AsksNoVoter), scenario: tokenBeyondTheClocks, options: Options{
		Clients: 2, Clocks: Clocks{PPM: []int64{0, 0, 0, 0, 0}, Wall: []time.Duration{time.Hour, 0, 0, time.Hour, 0}},
	}},
	{name: "majority of the peers that look alive", build: looksAlive, scenario: bothSidesRestart},
}

const (
	mutantLength = 20 * time.Second
	followLength = 60 * time.Second // in 20 s an electorate changes only a few times
	mutantSeeds  = 300              // a mutant that survives so many worlds counts as not found
)

// run runs the world of a default seed, and looks for safety alone: a mutant that merely gets stuck
// isn't found.
func (m *mutant) run(seed uint64, b Builder) error {
	draw, length := Draw, mutantLength
	if m.draw != nil {
		draw, length = m.draw, followLength
	}
	o := draw(seed)
	o.Build = b
	w := New(o)
	w.Run(length)
	return w.Err()
}

// play plays the scenario in a few worlds that differ in their random draws.
func (m *mutant) play(b Builder, deaf map[string]bool) error {
	for seed := uint64(1); seed <= 10; seed++ {
		o := m.options
		o.Seed = seed
		o.Clocks.Exact = o.Clocks.Wall == nil
		o.MaxTTL = cmp.Or(o.MaxTTL, sceneTTL)
		o.Build = b
		o.History = true
		w := New(o)
		w.judge.deaf = deaf
		switch {
		case o.Dynamic != nil, o.Lists != nil: // the scenario starts the mesh
			m.scenario(w)
		case w.Script.Awake():
			m.scenario(w)
		default:
			w.judge.violate(checkLiveness, "the mesh isn't ready")
		}
		if w.failed == nil {
			w.histories.checkHistory()
		}
		if w.Err() != nil {
			return w.Err()
		}
	}
	return nil
}

// outcomes are the checks to disable in a world that is to check only the outcomes that users see:
// two holders at once, and tokens out of order.
var outcomes = map[string]bool{
	checkValidity: true, checkQuiet: true, check.RulePromises: true, check.RuleSerial: true, checkAlarm: true, checkEvents: true, checkNotified: true,
	checkTry: true, checkUnlock: true, checkLost: true, checkBaseline: true, checkDrift: true, checkElectorate: true,
	checkDigests: true,
}

// kill runs the world listed in docs/simulation.md as the first to find the mutant. If the core has
// changed since and this world finds nothing, kill runs all worlds up to the first that finds the
// mutant. The results are the seed and the violation of the world, or zero and nil.
func (m *mutant) kill(noted uint64) (seed uint64, err error) {
	if noted != 0 {
		if err := m.run(noted, m.build); err != nil {
			return noted, err
		}
	}
	return m.firstKill()
}

// firstKill returns the first default seed that finds the mutant, and the violation.
func (m *mutant) firstKill() (seed uint64, err error) {
	for seed := uint64(1); seed <= mutantSeeds; seed++ {
		if err := m.run(seed, m.build); err != nil {
			return seed, err
		}
	}
	return 0, nil
}

// TestEveryMutantIsFound demands that each mutant is found in three ways: by a default seed, unless
// docs/simulation.md states that no seed finds the mutant; by its scenario, with all checks; and by
// its scenario with only the checks of what users see, unless users can't see the harm. The same
// seed or scenario must pass without the mutant.
func TestEveryMutantIsFound(t *testing.T) {
	sampled.Computes(t)
	_, table, _ := readMutants(t)
	pages := noted(table)
	for _, kind := range mutantKinds {
		bySeed, byOutcome := 0, 0
		for _, m := range kind {
			noted, ok := pages[m.name]
			switch {
			case !ok:
				t.Errorf("docs/simulation.md has no row for the mutant %s: %s writes the table", m.name, updateMutants)
			case noted != 0: // otherwise the page states that no seed finds the mutant
				if sampled.Case(bySeed, 6) {
					m.foundBySeed(t, noted)
				}
				bySeed++
			}
			t.Run(m.name+" by its scenario", func(t *testing.T) {
				t.Parallel()
				m.found(t, nil)
				if err := m.play(Genuine, nil); err != nil {
					t.Errorf("the scenario without the mutant: %v", err)
				}
			})
			if m.unseen != "" {
				continue
			}
			if sampled.Case(byOutcome, 4) {
				t.Run(m.name+" by its outcome", func(t *testing.T) {
					t.Parallel()
					m.found(t, outcomes)
				})
			}
			byOutcome++
		}
	}
}

// foundBySeed demands that a default seed finds the mutant, preferably the noted seed.
func (m *mutant) foundBySeed(t *testing.T, noted uint64) {
	t.Run(m.name+" by a seed", func(t *testing.T) {
		t.Parallel()
		seed, err := m.kill(noted)
		if err != nil && seed != noted {
			t.Logf("the core has changed: %d was the first seed that finds it, and now %d is", noted, seed)
		}
		if err == nil {
			t.Fatalf("none of %d seeds finds it, and docs/simulation.md says that one does", mutantSeeds)
		}
		t.Logf("%s, seed %d: %.200v", m.name, seed, err)
		if err := m.run(seed, Genuine); err != nil {
			t.Errorf("seed %d without the mutant: %v", seed, err)
		}
	})
}

// found demands that the scenario finds the mutant.
func (m *mutant) found(t *testing.T, deaf map[string]bool) {
	t.Helper()
	if err := m.play(m.build, deaf); err == nil {
		t.Errorf("the scenario doesn't find it")
	} else {
		t.Logf("%s, its scenario: %.200v", m.name, err)
	}
}

// shared makes a builder of a world of a builder that package explore uses as well.
func shared(build broken.Builder) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		m, err := build(cfg, now)
		return m.(Machine), err
	}
}

// votesAgainAtOnce restarts b, and has x2 ask b, while x1 still relies on b's earlier incarnation.
func votesAgainAtOnce(w *World) {
	w.Script.Cut("x1", "c")
	w.Script.Lock("x1", "k") // votes of a and b
	w.Run(500 * time.Millisecond)
	w.Script.Lock("x2", "k") // vote of c
	w.Script.Cut("x1", "b")
	w.Script.Restart("b")
	w.Run(2 * sceneTTL)
}

// oneVoterAcrossTwoLives has b vote for x2 in one incarnation, and x1 list its lease in a sync to
// the next incarnation.
func oneVoterAcrossTwoLives(w *World) {
	x1 := w.Script.Lock("x1", "k")
	w.Run(100 * time.Millisecond)
	x2 := w.Script.Lock("x2", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Cut("x1", "b")
	w.Run(1300 * time.Millisecond)
	w.Script.Cut("x1", "c")
	// x1's session ends at b; x1's session at c is to last a while longer.
	w.RunUntil(sceneTTL, func() bool { return w.binding("b", x2) })
	w.Run(50 * time.Millisecond)
	w.Script.CutOneWay("b", "x2") // x2 doesn't learn that b has restarted
	w.Script.Restart("b")
	w.Script.Mend("x1", "b")
	w.Run(2 * sceneTTL)
	_ = x1
}

// binding reports whether a voter has voted for a request.
func (w *World) binding(voter string, r *Request) bool {
	p := w.host(voter).p
	if p == nil {
		return false
	}
	v, ok := p.m.Voter().Vote(r.key.name)
	return ok && v.Owner == r.p.id && v.Number == r.Number
}

// forgottenVote has b vote for x1, which hasn't won, forget the vote in a restart, and vote for x2,
// which has the older request.
func forgottenVote(w *World) {
	w.Script.Cut("x2", "a", "b")
	w.Script.Cut("x1", "a", "c")
	w.Run(2 * sceneTTL)
	w.Script.Lock("x2", "k") // vote of c
	w.Run(50 * time.Millisecond)
	w.Script.Lock("x1", "k") // vote of b
	w.Run(50 * time.Millisecond)
	w.Script.Restart("b")
	w.Script.Mend("x2", "b")
	w.Run(2 * sceneTTL)
	w.Script.Mend("x1", "a")
	w.Run(2 * sceneTTL)
}

// anotherMajority has x1 lose b's vote to x2, while c acknowledges the refreshes of x1. c is quiet
// and hasn't voted for x1.
func anotherMajority(w *World) {
	w.Script.Cut("x1", "c")
	w.Run(2 * sceneTTL)
	w.Script.Lock("x1", "k") // votes of a and b
	w.Run(50 * time.Millisecond)
	w.Script.Lock("x2", "k") // vote of c
	w.Run(50 * time.Millisecond)
	w.Script.Cut("x1", "b")
	w.Run(100 * time.Millisecond)
	w.Script.Restart("c")
	w.Script.Mend("x1", "c")
	w.Run(2 * sceneTTL)
}

// confirmedAfterYield has x1 yield b's vote to x2 after x1 has asked b to confirm this vote. The
// confirmation is needed because a proposes a larger token: the clocks of a and x1 are an hour
// ahead. The confirmation arrives when x2 has won.
func confirmedAfterYield(w *World) {
	w.Script.Cut("x1", "c")
	w.Script.Cut("x2", "a")
	w.Script.CutOneWay("a", "x1")
	w.Script.Lock("x1", "k")
	w.Run(20 * time.Millisecond) // x1 has b's vote
	w.Script.CutOneWay("x1", "b")
	w.Script.MendOneWay("a", "x1")
	w.Run(300 * time.Millisecond) // x1 has a's vote too, and asks b to confirm
	w.Script.Lock("x2", "k")      // older, by the voters' clocks: b inquires, and x1 yields
	w.Run(20 * time.Millisecond)
	w.Script.CutOneWay("b", "x1")
	w.Script.MendOneWay("x1", "b")
	w.Run(300 * time.Millisecond) // b confirms, then takes the vote back and votes for x2
	w.Script.MendOneWay("b", "x1")
	w.Run(2 * sceneTTL)
}

// renewing is a voter that renews an ended session on a refresh, whatever the generation.
type renewing struct {
	Machine
	acks map[vote.Conn]vote.Message
}

func ignoresGenerations(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &renewing{Machine: n, acks: make(map[vote.Conn]vote.Message)}, err
}

func (r *renewing) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if a, ok := r.acks[conn]; ok && m.Kind == vote.KindRefresh && a.Stream == m.Stream {
		a.Sent, a.Clock = m.Sent, now.Slow
		r.acks[conn] = a
	}
	r.Machine.Deliver(now, conn, from, m)
}

func (r *renewing) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = r.Machine.Drain(out, ev)
	for i := first; i < len(out); i++ {
		switch o := &out[i]; o.Message.Kind {
		case vote.KindAck:
			r.acks[o.Conn] = o.Message
		case vote.KindUnknown:
			if a, ok := r.acks[o.Conn]; ok && a.Stream == o.Message.Stream {
				o.Message = a
			}
		}
	}
	return out, ev
}

// sessionRenewed has x1's session end at b, unnoticed by x1, and b vote for x2.
func sessionRenewed(w *World) {
	w.Script.Lock("x1", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Lock("x2", "k")
	w.Run(500 * time.Millisecond)
	// An acknowledgement is on its way as well.
	there, back := w.Script.Stall("x1", "b", false), w.Script.Stall("x1", "b", true)
	w.Run(400 * time.Millisecond)
	w.Script.Stop("x1")
	w.Script.Cut("x1", "c")
	w.Run(sceneTTL/2 - 200*time.Millisecond)
	back()
	w.RunUntil(sceneTTL, func() bool { v, ok := w.host("b").p.m.Voter().Vote("k"); return ok && v.Owner.Node == "x2" })
	there()
	w.Run(10 * time.Millisecond)
	w.Script.Continue("x1")
	w.Run(2 * sceneTTL)
}

// tokenOfOneVoter has x1 take its token from a, a voter with a clock an hour ahead. b proposed a
// smaller token and doesn't learn of the larger token; then only b and c are left.
func tokenOfOneVoter(w *World) {
	w.Script.Cut("x1", "c")
	w.Run(2 * sceneTTL)
	w.Script.CutOneWay("a", "x1")
	w.Script.Lock("x1", "k")
	w.Run(100 * time.Millisecond) // b has voted
	w.Script.CutOneWay("x1", "b")
	w.Script.MendOneWay("a", "x1")
	w.Run(400 * time.Millisecond)
	w.Script.PowerOff("x1")
	w.Run(2 * sceneTTL)
	w.Script.PowerOff("a")
	w.Script.Lock("x2", "k")
	w.Run(2 * sceneTTL)
}

// tokenBeyondTheClocks has a lease with a token an hour ahead of the clocks of b and c; then the
// voters restart one at a time.
func tokenBeyondTheClocks(w *World) {
	r := w.Script.Lock("x1", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Release(r)
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Restart(v)
		w.Run(2 * sceneTTL)
	}
	w.Script.Lock("x2", "k")
	w.Run(sceneTTL)
}

// bothSidesRestart restarts both sides of a partition, each without the other.
func bothSidesRestart(w *World) {
	w.Script.Cut("a", "b", "c")
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Restart(v)
	}
	w.Run(3 * sceneTTL)
	w.Script.Lock("a", "k")
	w.Script.Lock("b", "k")
	w.Run(sceneTTL)
}

// looksAlive takes the voters within reach at the start for all voters.
func looksAlive(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	self := w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == cfg.Name })]
	var alive []vote.NodeID
	for _, v := range cfg.Voters {
		if h := w.faults.voterAt(v); h == self || w.net.isOpen(h, self) && w.net.isOpen(self, h) && (h.p != nil || w.now == 0) {
			alive = append(alive, v)
		}
	}
	if len(alive) > 0 {
		cfg.Voters = alive
	}
	return node.New(cfg, now)
}
