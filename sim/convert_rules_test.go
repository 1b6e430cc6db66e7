package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
)

// The scenarios of this file break the rules of a conversion from a fixed list, one at a time.

// conversionTTL is the maximum TTL of these scenarios.
const conversionTTL = 2 * time.Second

// convertingAs returns the options of a scenario with the list a, b, c, and further hosts. The map
// stages has the first stage of each host that doesn't start as a fixed node.
func convertingAs(stages map[string]Stage, names ...string) Options {
	return Options{
		Names: names, Voters: 3, Clients: len(names) - 3, MaxTTL: conversionTTL, Clocks: Clocks{Exact: true},
		Dynamic: &Dynamic{MaxVoters: 7, Unfounded: true}, Convert: &Convert{First: stages, Unmet: true},
	}
}

// counts lets time pass until newly started voters are out of startup quarantine.
func (w *World) counts() { w.Run(conversionTTL + 2*vote.TokenQueryTimeout) }

// votedIn waits, for a limited time, until the named nodes are the voters and apply this
// electorate.
func (w *World) votedIn(names ...string) {
	w.RunUntil(20*conversionTTL, func() bool { return w.dynamic.Voting(names...) })
	w.Run(conversionTTL / 2)
}

// thawed is a converting node that takes part in changes of the electorate, as a dynamic node does.
// The wrapper itself translates the messages between the node and fixed nodes.
type thawed struct {
	*node.Node
	fixed map[vote.Conn]vote.NodeID
	parts bool // without contact to fixed nodes from version 2 on
	heard vote.Message
}

func thaws(parts bool) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		if cfg.Dynamic == nil || !cfg.Dynamic.FromFixed {
			return node.New(cfg, now)
		}
		cfg.Dynamic.FromFixed = false
		n, err := node.New(cfg, now)
		return &thawed{Node: n, fixed: make(map[vote.Conn]vote.NodeID), parts: parts}, err
	}
}

func (t *thawed) FixedPeer(conn vote.Conn, peer vote.NodeID) { t.fixed[conn] = peer }

func (t *thawed) Converted() bool { return t.parts && t.Known().Version > 1 }

func (t *thawed) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if _, fixed := t.fixed[conn]; fixed {
		if t.Converted() || m.Kind.IsConsensus() {
			return
		}
		t.heard = *m
		t.heard.Epoch = 1
		for _, v := range t.Known().All() {
			if m.Kind == vote.KindAnswer && m.End && v.Name == from.Node {
				t.heard.Dir = v.Dir
			}
		}
		m = &t.heard
	}
	t.Node.Deliver(now, conn, from, m)
}

func (t *thawed) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = t.Node.Drain(out, ev)
	kept := out[:first]
	for _, o := range out[first:] {
		if _, fixed := t.fixed[o.Conn]; fixed && !o.Close {
			if t.Converted() || o.Message.Kind.IsConsensus() {
				continue
			}
			o.Message.Epoch, o.Message.Dir = 0, 0
		}
		kept = append(kept, o)
	}
	return kept, ev
}

// takenBack turns the nodes of the list back into fixed nodes, cut off from nodes that started
// meanwhile. If the voters of the list have voted these newer nodes in, the newer nodes are a
// majority as well.
func takenBack(w *World) {
	w.counts()
	w.votedIn("a", "b", "c", "d", "e", "f", "g")
	w.Script.Split([]string{"a", "b", "c"}, []string{"d", "e", "f", "g"})
	for _, name := range []string{"a", "b", "c"} {
		w.Become(name, StageFixed, 0)
	}
	w.counts()
	w.expect(w.Script.Lock("a", "k"), Granted, time.Second)
	w.Script.Lock("d", "k")
	w.Run(time.Second)
}

// leftBehind has a and b become dynamic nodes, vote in d, e and f in place of c, which was left
// behind, and restart with FromFixed set once more.
func leftBehind(w *World) {
	w.counts()
	for _, name := range []string{"a", "b"} {
		w.Become(name, StageDynamic, 0)
		w.counts()
	}
	w.votedIn("a", "b", "d", "e", "f")
	for _, name := range []string{"a", "b"} {
		w.Become(name, StageConverting, 0)
		w.counts()
	}
	w.Script.Split([]string{"a", "b", "c"}, []string{"d", "e", "f"})
	w.Script.Lock("c", "k")
	w.Run(time.Second)
	w.expect(w.Script.Lock("d", "k"), Granted, time.Second)
}

// heldByFixed has y hold a key by the votes of fixed nodes, and lose all links to these nodes as
// two of them are converted.
func heldByFixed(w *World) {
	w.counts()
	w.expect(w.Script.Lock("y", "k"), Granted, time.Second)
	w.Script.Cut("y", "a", "b", "c")
	w.Become("a", StageConverting, 0)
	w.Become("b", StageConverting, 0)
	w.Run(300 * time.Millisecond)
	r := w.Script.Lock("z", "k")
	w.Run(conversionTTL / 2)
	w.expect(r, Granted, 2*conversionTTL)
}

// freshly has a converting voter of the list skip the startup quarantine because its directory is
// new.
func freshly(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	if f := cfg.Dynamic; f != nil && f.FromFixed {
		f.Fresh = true
		w.host(string(cfg.Name)).p.fresh = true
	}
	return node.New(cfg, now)
}

// grownWhileConverted has d and e, converting nodes with a longer list than a and b, cut off from a
// and b together with c. Then c is converted with the longer list as well.
func grownWhileConverted(w *World) {
	w.counts()
	w.Script.Split([]string{"a", "b"}, []string{"c", "d", "e"})
	w.conversion.stages[w.host("c")] = StageConverting
	w.Relist("c", 0, fiveNames...)
	w.counts()
	w.expect(w.Script.Lock("a", "k"), Granted, time.Second)
	w.Script.Lock("d", "k")
	w.Run(conversionTTL)
}

// obliviousOnceConverting builds converting nodes that never learn that other nodes have another
// list.
func obliviousOnceConverting(w *World, cfg node.Config, now vote.Now) (Machine, error) {
	if cfg.Dynamic == nil {
		return node.New(cfg, now)
	}
	return oblivious(w, cfg, now)
}

// forgottenOnce has c, a converting node, store version 2 and lose its directory. b has accepted
// version 2, and doesn't learn of the decision. So b and c grant x a key under version 1. Then b
// learns of version 2, and a ends the joint electorate.
func forgottenOnce(w *World) {
	w.counts()
	for _, name := range []string{"a", "b"} {
		w.Become(name, StageDynamic, 0)
		w.counts()
	}
	w.Script.Cut("x", "a", "d", "e")
	w.dynamic.when("a", false, vote.KindAccepted, func() { w.Script.Cut("b", "a", "c", "d", "e") })
	w.Script.Start("d")
	w.Script.Start("e")
	w.RunUntil(4*conversionTTL, func() bool { return w.dynamic.Knows("c") == 2 })
	w.Run(3 * conversionTTL / 10) // until c has reported version 2 to a
	w.Script.Cut("c", "a", "d", "e")
	w.Script.PowerOff("c")
	w.dynamic.Wipe("c")
	w.Script.Restart("b") // so that b forgets the write count of c's directory
	w.Script.Start("c")
	w.Script.Mend("c", "b")
	w.Script.Start("x")
	w.counts()
	w.expect(w.Script.Lock("x", "k"), Granted, 2*time.Second)
	w.Script.Mend("b", "a", "d", "e")
	w.RunUntil(conversionTTL/2, func() bool {
		return w.dynamic.Knows("a") == 3 && w.dynamic.Knows("d") == 3 && w.dynamic.Knows("e") == 3
	})
	w.Script.Lock("d", "k")
	w.Run(conversionTTL / 2)
}

// remembersAlways is a converting node that claims in its reports to remember, as a dynamic node
// does.
type remembersAlways struct{ *node.Node }

func recalls(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	if f := cfg.Dynamic; f != nil && f.FromFixed {
		return remembersAlways{n}, err
	}
	return n, err
}

func (r remembersAlways) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = r.Node.Drain(out, ev)
	for i := range out {
		if m := &out[i].Message; m.Kind == vote.KindReport {
			_, m.Counting = r.Voter().Top()
		}
	}
	return out, ev
}

// bothNeeded leaves a fixed and a converting voter as the only majority.
func bothNeeded(w *World) {
	w.Become("a", StageConverting, 0)
	w.counts()
	w.counts()
	w.Script.Crash("c")
	for _, name := range []string{"a", "b", "y", "z"} {
		r := w.Script.Lock(name, "k")
		w.expect(r, Granted, time.Second)
		w.Script.Release(r)
	}
}

// untranslated is a converting node that leaves out a part of the translation for fixed nodes.
type untranslated struct {
	*node.Node
	fixed map[vote.Conn]bool
	// in replaces the translation of messages from fixed nodes.
	in func(*vote.Message)
	// out undoes the translation of messages to fixed nodes.
	out   func(*vote.Message, *vote.Electorate)
	heard vote.Message
}

func untranslates(in func(*vote.Message), out func(*vote.Message, *vote.Electorate)) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &untranslated{Node: n, fixed: make(map[vote.Conn]bool), in: in, out: out}, err
	}
}

func (u *untranslated) FixedPeer(conn vote.Conn, peer vote.NodeID) {
	if u.in == nil {
		u.Node.FixedPeer(conn, peer)
	}
	u.fixed[conn] = true
}

func (u *untranslated) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if u.fixed[conn] && u.in != nil {
		u.heard = *m
		u.in(&u.heard)
		m = &u.heard
	}
	u.Node.Deliver(now, conn, from, m)
}

func (u *untranslated) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = u.Node.Drain(out, ev)
	for i := range out {
		if o := &out[i]; u.fixed[o.Conn] && u.out != nil {
			u.out(&o.Message, u.Known())
		}
	}
	return out, ev
}

var conversionRules = []struct {
	name     string
	options  Options
	build    Builder
	scenario func(w *World)
	check    string // violated without the rule
}{
	{
		"a converting node is frozen", convertingAs(map[string]Stage{"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2, "g": 2}, "a", "b", "c", "d", "e", "f", "g"),
		thaws(true), takenBack, check.RuleExclusion,
	},
	{
		"a converting node parts from fixed nodes", convertingAs(map[string]Stage{"a": 1, "b": 1, "d": 2, "e": 2, "f": 2}, "a", "b", "c", "d", "e", "f"),
		thaws(false), leftBehind, check.RuleExclusion,
	},
	{"a converting voter is quiet though its directory is new", convertingAs(nil, "a", "b", "c", "y", "z"), freshly, heldByFixed, check.RuleExclusion},
	{"a converting voter heeds other lists", grownConverting(), obliviousOnceConverting, grownWhileConverted, check.RuleExclusion},
	{
		"no drain rests on a frozen node", func() Options {
			o := convertingAs(map[string]Stage{"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "x": 2}, "a", "b", "c", "d", "e", "x")
			o.Dynamic.Absent = []string{"d", "e", "x"}
			return o
		}(), recalls, forgottenOnce, check.RuleExclusion,
	},
	{
		"the epoch of fixed nodes is translated", convertingAs(nil, "a", "b", "c", "y", "z"), untranslates(func(m *vote.Message) {
			if m.Kind == vote.KindAnswer && m.End { // translates the directory alone
				m.Dir = 1
			}
		}, nil), bothNeeded, checkLiveness,
	},
	{
		"the epoch is translated for fixed nodes", convertingAs(nil, "a", "b", "c", "y", "z"), untranslates(nil, func(m *vote.Message, e *vote.Electorate) { m.Epoch = e.Version }),
		bothNeeded, checkLiveness,
	},
	{
		"the directory is translated for fixed nodes", convertingAs(nil, "a", "b", "c", "y", "z"), untranslates(nil, func(m *vote.Message, e *vote.Electorate) {
			if m.Kind == vote.KindAnswer && m.End {
				m.Dir = e.Voters[0].Dir
			}
		}), bothNeeded, checkLiveness,
	},
}

// grownConverting returns the options of three fixed voters beside two converting nodes with a
// longer list.
func grownConverting() Options {
	o := grownOptions()
	o.MaxTTL, o.Dynamic = conversionTTL, &Dynamic{Unfounded: true}
	o.Convert = &Convert{First: map[string]Stage{"d": StageConverting, "e": StageConverting}}
	return o
}

// TestEveryRuleOfAConversionIsNeeded shows that each rule of a conversion is needed: without the
// rule two nodes hold a key or nodes aren't served, and with the rule neither happens.
func TestEveryRuleOfAConversionIsNeeded(t *testing.T) {
	for _, c := range conversionRules {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := func(build Builder, deaf map[string]bool) *World {
				o := c.options
				o.Build = build
				w := New(o)
				w.judge.deaf = deaf
				c.scenario(w)
				return w
			}
			if w := run(Genuine, nil); w.Err() != nil || w.fig.Acquisitions == 0 {
				t.Errorf("with the rule: %d leases, %v", w.fig.Acquisitions, w.Err())
			}
			// Check only the effects visible to users.
			if v := run(c.build, outcomes).Violation(); v == nil || v.Check != c.check {
				t.Errorf("without the rule: %v", v)
			}
		})
	}
}
