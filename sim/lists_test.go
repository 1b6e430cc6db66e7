package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestListsThatDifferNeverMakeTwoHolders shows that a key has one holder at a time, whatever lists
// of voters and maximum TTLs the nodes have, and however both are changed node by node. Once all
// nodes have the same configuration, each node is served.
func TestListsThatDifferNeverMakeTwoHolders(t *testing.T) {
	eachSeed(t, sampled.Count(20, 200), func(t *testing.T, seed uint64) {
		o := DrawLists(seed)
		o.Trace = traceFile(t)
		w := New(o)
		w.Run(lengthFor(t, 20*time.Second))
		if err := w.Settle(); err != nil {
			t.Error(err)
		}
	})
}

// obliviousNode is a node that never learns of other lists of voters.
type obliviousNode struct{ *node.Node }

func (obliviousNode) Met(vote.Now, *vote.Sighting) {}

func oblivious(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return obliviousNode{n}, err
}

var listMutants = []mutant{
	{name: "voters that don't heed another list", build: oblivious, scenario: grownNodeByNode, options: grownOptions(), draw: DrawLists},
}

// grownOptions returns the options of three voters with a list that grows to five.
func grownOptions() Options {
	o := Options{Voters: 5, Lists: &Lists{First: make(map[string][]string), Last: fiveNames}}
	for _, n := range fiveNames {
		o.Lists.First[n] = fiveNames
	}
	for _, n := range fiveNames[:3] {
		o.Lists.First[n] = fiveNames[:3]
	}
	return o
}

var fiveNames = []string{"a", "b", "c", "d", "e"}

// grownNodeByNode restarts c with the longer list. Then a and b are a majority of the old list, and
// c, d and e a majority of the new list.
func grownNodeByNode(w *World) {
	w.Run(3 * sceneTTL)
	w.Relist("c", 0, fiveNames...)
	w.Run(3 * sceneTTL)
	w.Script.Lock("a", "k")
	w.Script.Lock("d", "k")
	w.Run(sceneTTL)
}

// TestAListThatGrowsCostsAPause measures the pause of a rolling change. The pause lasts from the
// moment when the old list loses its majority until the new list counts: a MaxTTL after every voter
// of the new list has learned of the loss.
func TestAListThatGrowsCostsAPause(t *testing.T) {
	o := grownOptions()
	o.MaxTTL = sceneTTL
	w := New(o)
	grownNodeByNode(w)
	for _, n := range []string{"c", "d", "e"} {
		if p := w.host(n).p; p.m.Ready() || p.m.Refusal(p.read(w.now)) == "" {
			t.Errorf("%s takes part while two of three apply the old list", n)
		}
	}
	lost := w.Now()
	w.Relist("b", 0, fiveNames...)
	most := sceneTTL + 2*meetEvery + 2*vote.TokenQueryTimeout
	if !w.RunUntil(most, func() bool { return w.host("e").p.m.Ready() }) {
		t.Errorf("the new list isn't ready %v after the old one has lost its majority", w.Now()-lost)
	}
	if took := w.Now() - lost; took < sceneTTL {
		t.Errorf("the new list counts after %v, while leases of the old one may stand", took)
	}
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}

// TestOfTwoListsThatCountTheShorterGivesWay gives c, d and e a longer list while a and b are cut
// off, so that both lists count. When the nodes meet again, the shorter list gives way at once: its
// leases are lost, and the leases of the longer list stand.
func TestOfTwoListsThatCountTheShorterGivesWay(t *testing.T) {
	o := grownOptions()
	o.MaxTTL = sceneTTL
	w := New(o)
	w.Run(3 * sceneTTL)
	w.Script.Cut("a", "c", "d", "e")
	w.Script.Cut("b", "c", "d", "e")
	for _, n := range []string{"c", "d", "e"} {
		w.Relist(n, 0, fiveNames...)
	}
	w.Run(4 * sceneTTL)
	short, long := w.Script.Lock("a", "of the short list"), w.Script.Lock("d", "of the long list")
	w.Run(sceneTTL)
	if short.State != Granted || long.State != Granted {
		t.Fatalf("the occasion isn't there: %v and %v", short.State, long.State)
	}
	w.Script.Mend("a", "c", "d", "e")
	w.Script.Mend("b", "c", "d", "e")
	w.Run(2 * meetEvery)
	if short.State != Lost || long.State != Granted {
		t.Errorf("after they have met: of the short list %v, of the long list %v", short.State, long.State)
	}
	for _, n := range []string{"a", "b"} {
		p := w.host(n).p
		if text := p.m.Refusal(p.read(w.now)); p.m.Ready() || text == "" {
			t.Errorf("%s goes on: ready %v, refusal %q", n, p.m.Ready(), text)
		}
	}
	if w.fig.Alarms == 0 {
		t.Error("nobody is told")
	}
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}

// TestOfTwoListsThatCountTheYoungerGivesWay has two lists of the same length: the younger list
// gives way.
func TestOfTwoListsThatCountTheYoungerGivesWay(t *testing.T) {
	o := Options{Voters: 2, MaxTTL: sceneTTL, Lists: &Lists{First: map[string][]string{"a": {"a"}, "b": {"b"}}, Last: []string{"a"}}}
	w := New(o)
	w.Script.Cut("a", "b")
	w.Relist("b", 0, "b") // the first incarnations have met
	w.Run(sceneTTL)
	w.Relist("a", 0, "a") // the younger list, though the name a comes first
	w.Run(4 * sceneTTL)
	younger, older := w.Script.Lock("a", "k1"), w.Script.Lock("b", "k2")
	w.Run(sceneTTL)
	if younger.State != Granted || older.State != Granted {
		t.Fatalf("the occasion isn't there: %v and %v", younger.State, older.State)
	}
	w.Script.Mend("a", "b")
	w.Run(2 * meetEvery)
	if younger.State != Lost || older.State != Granted {
		t.Errorf("after they have met: younger %v, older %v", younger.State, older.State)
	}
	// Another cut is no evidence that the other node is gone.
	w.Script.Cut("a", "b")
	w.Run(10 * sceneTTL)
	if w.host("a").p.m.Ready() {
		t.Error("the younger counts again as soon as it sees nobody")
	}
}

// TestVotersRestartedWithAShorterMaxTTLAwaitAHolderWithoutAVote restarts all voters of a list at
// once with a shorter MaxTTL, so the voters meet none of their earlier incarnations. But the voters
// meet d, a node without a vote, still the holder of a lease under the longer MaxTTL.
func TestVotersRestartedWithAShorterMaxTTLAwaitAHolderWithoutAVote(t *testing.T) {
	const longer = 5 * sceneTTL
	o := Options{Voters: 5, MaxTTL: sceneTTL, Lists: &Lists{
		First: make(map[string][]string), MaxTTL: make(map[string]time.Duration),
		Last: fiveNames[:3],
	}}
	for _, n := range fiveNames {
		o.Lists.First[n], o.Lists.MaxTTL[n] = fiveNames[:3], longer
	}
	w := New(o)
	w.Run(2 * longer)
	held := w.Script.Lock("d", "k")
	w.Run(sceneTTL)
	if held.State != Granted {
		t.Fatalf("the occasion isn't there: %v", held.State)
	}
	for _, n := range []string{"a", "b", "c", "e"} {
		w.lists.most[w.host(n)] = sceneTTL
		w.Relist(n, 0, fiveNames[:3]...)
	}
	w.Run(time.Millisecond) // until e has started
	next := w.Script.Lock("e", "k")
	if !w.RunUntil(2*longer, func() bool { return next.State == Granted }) {
		t.Errorf("the key isn't granted again: %v", next.State)
	}
	if held.State != Lost {
		t.Errorf("the lease under the longer MaxTTL is %v", held.State)
	}
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}
