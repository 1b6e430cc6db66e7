package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// dynamicMesh is a mesh with dynamic membership. Each disk stores at once; gossip sees the running
// nodes.
type dynamicMesh struct {
	*mesh
	founders    []vote.NodeID
	disks       map[vote.NodeID]*vote.DiskState
	dirs        vote.Dir
	incarnation vote.Incarnation
}

func newDynamicMesh(t *testing.T, founders string) *dynamicMesh {
	f := &dynamicMesh{mesh: newMesh(t, 0), disks: map[vote.NodeID]*vote.DiskState{}}
	for _, name := range strings.Fields(founders) {
		f.founders = append(f.founders, vote.NodeID(name))
	}
	return f
}

// up starts nodes, or restarts nodes with the content of their disks.
func (f *dynamicMesh) up(list string, found bool) {
	for _, s := range strings.Fields(list) {
		name := vote.NodeID(s)
		f.stop(name)
		if !slices.Contains(f.names, name) {
			f.names = append(f.names, name)
			slices.Sort(f.names)
		}
		fresh := f.disks[name] == nil
		if fresh {
			f.dirs++
			f.disks[name] = &vote.DiskState{Mesh: "m", Name: name, Dir: f.dirs}
		}
		f.incarnation++ // no two nodes have the same incarnation
		f.incarnations[name] = f.incarnation
		n, err := New(Config{
			Name: name, Incarnation: f.incarnations[name], Voters: f.founders, TTL: ttl, MaxTTL: ttl,
			Dynamic: &Dynamic{State: *f.disks[name], Fresh: fresh, MayFound: found},
		}, f.now)
		if err != nil {
			f.t.Fatal(err)
		}
		f.nodes[name] = n
		for _, other := range f.names {
			if other != name && f.nodes[other] != nil {
				f.link(name, other)
				f.link(other, name)
			}
		}
		f.work()
	}
	f.gossip()
}

func (f *dynamicMesh) down(list string) {
	for _, s := range strings.Fields(list) {
		f.stop(vote.NodeID(s))
	}
	f.gossip()
}

func (f *dynamicMesh) gossip() {
	var all []electorate.Seen
	for _, name := range f.names {
		s := electorate.Seen{Name: name, Dir: f.disks[name].Dir, State: vote.Alive}
		if f.nodes[name] == nil {
			s.State = vote.Failed
		}
		all = append(all, s)
	}
	for _, name := range f.names {
		if n := f.nodes[name]; n != nil {
			n.Gossip(f.now, all)
		}
	}
	f.work()
}

// work delivers and stores until no message and no save is left.
func (f *dynamicMesh) work() {
	for busy := true; busy; {
		f.run()
		busy = false
		for _, name := range f.names {
			n := f.nodes[name]
			if n == nil {
				continue
			}
			for _, s := range n.Saves() {
				f.disks[name] = &s
				n.Saved(f.now, s.Writes, "")
				busy = true
			}
		}
	}
}

func (f *dynamicMesh) wait(d time.Duration) {
	for ; d > 0; d -= 10 * time.Millisecond {
		f.pass(10 * time.Millisecond)
		f.work()
		// Closed connections are dialed again.
		for _, from := range f.names {
			for _, to := range f.names {
				linked := func() bool {
					for _, l := range f.conns {
						if l == (link{from, to}) {
							return true
						}
					}
					return false
				}
				if from != to && f.nodes[from] != nil && f.nodes[to] != nil && !linked() {
					f.link(from, to)
				}
			}
		}
	}
}

func (f *dynamicMesh) goBy(list, want string) {
	f.t.Helper()
	for _, s := range strings.Fields(list) {
		e := f.nodes[vote.NodeID(s)].Known()
		got := fmt.Sprint(e.Version, ":")
		for _, v := range e.Voters {
			got += " " + string(v.Name)
		}
		if got != want || e.Joint() {
			f.t.Fatalf("%s applies %q (joint: %v), want %q", s, got, e.Joint(), want)
		}
	}
}

func (f *dynamicMesh) quietly(t *testing.T) {
	t.Helper()
	for _, name := range f.names {
		for _, e := range f.events[name] {
			if e.Kind == quorum.EventAlarm || e.Kind == quorum.EventLost || e.Kind == quorum.EventDrift {
				t.Errorf("%s is told %+v", name, e)
			}
		}
	}
}

func TestFromFoundingToALock(t *testing.T) {
	for _, founders := range []string{"a", "a b", "a b c"} {
		f := newDynamicMesh(t, founders)
		f.up(founders, true)
		early := f.lock("a", "k", false)
		if founders == "a" {
			f.wait(ttl) // a lone founder looks for other nodes first
		}
		f.wait(300 * time.Millisecond) // voters with new directories aren't quiet
		f.goBy(founders, "1: "+founders)
		f.want("a", early, quorum.EventGranted)
		f.release("a", early)
		f.want("a", early, quorum.EventReleased)
		f.quietly(t)
	}
}

func TestALeaseIsKeptWhileTheElectorateChangesUnderIt(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(300 * time.Millisecond)
	held := f.lock("b", "k", false)
	first := f.want("b", held, quorum.EventGranted)
	f.up("d e", false)
	f.wait(4 * ttl)
	f.goBy("a b c d e", "3: a b c d e")
	waits := f.lock("e", "k", false)
	f.down("a")
	f.wait(8 * ttl)
	f.goBy("b c d e", "3: a b c d e") // the seat of a costs nothing
	f.down("c")
	f.wait(8 * ttl)
	f.goBy("b d e", "5: b d e") // of the founders b is left
	f.want("b", held, quorum.EventGranted)
	f.want("e", waits, quorum.EventNone)
	f.release("b", held)
	f.work()
	f.want("b", held, quorum.EventReleased)
	if next := f.want("e", waits, quorum.EventGranted); next.Token <= first.Token {
		t.Fatalf("token %d comes after %d", next.Token, first.Token)
	}
	f.quietly(t)
	for _, name := range f.names {
		if n := f.nodes[name]; n != nil && n.Requester().Counters().Mismatches > 0 {
			t.Errorf("%s: %d mismatches", name, n.Requester().Counters().Mismatches)
		}
	}
}

func TestTokensRiseAfterTheLossOfAllVotersThatGrantedThem(t *testing.T) {
	f := newDynamicMesh(t, "a")
	f.up("a", true)
	f.wait(ttl + 300*time.Millisecond)
	n := f.lock("a", "k", false)
	first := f.want("a", n, quorum.EventGranted)
	f.release("a", n)
	f.wait(3 * vote.Skew) // the key is forgotten
	f.now.Wall -= 3600e6  // and the clocks are no help
	f.up("b c d", false)
	f.wait(5 * ttl)
	f.goBy("a b c d", "3: a b c")
	f.nodes["a"].LeaveElectorate(f.now)
	f.wait(5 * ttl)
	f.goBy("b c d", "5: b c d")
	f.down("a")
	n = f.lock("d", "k", false)
	if next := f.want("d", n, quorum.EventGranted); next.Token <= first.Token+vote.BlockSize-1 {
		t.Fatalf("token %d comes after the run of %d", next.Token, first.Token)
	}
}

func TestAllStartAnewAtOnce(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(300 * time.Millisecond)
	n := f.lock("a", "k", false)
	first := f.want("a", n, quorum.EventGranted)
	f.down("a b c")
	f.up("a b c", true)
	n = f.lock("b", "k", false)
	f.wait(ttl - 50*time.Millisecond)
	f.want("b", n, quorum.EventNone) // a's lease may stand yet
	f.wait(vote.TokenQueryTimeout + 200*time.Millisecond)
	if next := f.want("b", n, quorum.EventGranted); next.Token <= first.Token {
		t.Fatalf("token %d comes after %d", next.Token, first.Token)
	}
	f.goBy("a b c", "1: a b c")
	f.quietly(t)
}

func TestAWipedVoterIsAnotherOne(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(300 * time.Millisecond)
	n := f.lock("a", "k", false)
	f.down("c")
	f.disks["c"] = nil
	f.up("c", true)
	f.wait(ttl / 2)
	f.goBy("a b c", "1: a b c")
	for _, v := range f.nodes["a"].Voters(f.now) {
		if v.Name == "c" && v.State == quorum.Reachable {
			t.Fatal("the wiped c counts as the voter that it was")
		}
	}
	f.wait(6 * ttl)
	f.goBy("a b c", "5: a b c")
	f.want("a", n, quorum.EventGranted)
	f.down("b") // a and the new c are a majority
	n = f.lock("c", "l", false)
	f.want("c", n, quorum.EventGranted)
	f.quietly(t)
}

func TestARecoveryHasTheVotersWaitFirst(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(300 * time.Millisecond)
	n := f.lock("a", "k", false)
	f.want("a", n, quorum.EventGranted)
	f.release("a", n)
	if err := f.nodes["a"].Recover(f.now, []vote.NodeID{"a"}); err == nil {
		t.Fatal("a majority is there")
	}
	f.down("b c")
	f.wait(ttl)
	if err := f.nodes["a"].Recover(f.now, []vote.NodeID{"a"}); err != nil {
		t.Fatal(err)
	}
	f.work()
	n = f.lock("a", "k", false)
	f.wait(ttl / 2)
	f.want("a", n, quorum.EventNone) // b and c may have granted k to another node
	f.wait(ttl)
	f.want("a", n, quorum.EventGranted)
	f.up("b c", false)
	f.wait(6 * ttl)
	f.goBy("a b c", fmt.Sprint(1<<20+3, ": a b c"))
	f.want("a", n, quorum.EventGranted)
	f.quietly(t)
}

// A node that has just started, without a stored version, can be among the voters named by a
// recovery. The node has promised nothing, but must not vote either: two such voters of three would
// grant keys still held by votes of the lost voters.
func TestANewNodeWaitsAfterARecoveryToo(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	n, err := New(Config{
		Name: "d", Incarnation: 1, Voters: f.founders, TTL: ttl, MaxTTL: ttl, Dynamic: &Dynamic{State: vote.DiskState{Mesh: "m", Name: "d", Dir: 4}, Fresh: true},
	}, f.now)
	if err != nil {
		t.Fatal(err)
	}
	first := n.Saves() // the disk is slow
	voters := func(names ...vote.NodeID) (all []vote.Elector) {
		for _, name := range names {
			all = append(all, vote.Elector{Name: name, Dir: vote.Dir(name[0] - 'a' + 1)})
		}
		return all
	}
	for _, e := range []vote.Electorate{
		{Version: 1, Lineage: 7, Voters: voters("a", "b", "c")},
		{Version: 1<<20 + 1, Lineage: 7, Voters: voters("a", "d", "e")},
	} {
		n.Deliver(f.now, 1, vote.SessionID{Node: "a", Incarnation: 9}, &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	}
	for saves := first; len(saves) > 0; saves = n.Saves() {
		n.Saved(f.now, saves[0].Writes, "")
	}
	if n.Voter().ConfigEpoch() != 1<<20+1 {
		t.Fatalf("it applies %d", n.Voter().ConfigEpoch())
	}
	if _, counting := n.Voter().Top(); counting || n.Quiet() < ttl {
		t.Fatalf("its votes count: quiet for %v", n.Quiet())
	}
}

func TestAVoterCountsOnlyOnceItsElectorateIsStored(t *testing.T) {
	f := newDynamicMesh(t, "a")
	f.up("a", true)
	f.wait(ttl + 300*time.Millisecond)
	f.goBy("a", "1: a")
	f.up("b c", false)
	// b's disk hangs from now on.
	for range 3000 {
		f.pass(10 * time.Millisecond)
		for _, name := range []vote.NodeID{"a", "c"} {
			for _, s := range f.nodes[name].Saves() {
				f.nodes[name].Saved(f.now, s.Writes, "")
			}
		}
		if f.nodes["b"].Known().Version == 2 {
			break
		}
	}
	if f.nodes["b"].Known().Version != 2 || f.nodes["b"].Voter().ConfigEpoch() != 1 {
		t.Fatalf("b knows %d and applies %d", f.nodes["b"].Known().Version, f.nodes["b"].Voter().ConfigEpoch())
	}
	if _, counting := f.nodes["b"].Voter().Top(); counting {
		t.Fatal("b counts")
	}
}

func TestAFixedElectorateIsNotFoundedAgain(t *testing.T) {
	m := awake(t, 3)
	if err := m.nodes["a"].Recover(m.now, []vote.NodeID{"a"}); err == nil || !strings.Contains(err.Error(), "is fixed") {
		t.Fatalf("%v", err)
	}
	m.nodes["a"].LeaveElectorate(m.now)
	m.nodes["a"].Gossip(m.now, nil)
	m.nodes["a"].Saved(m.now, 1, "")
	if _, isDynamic := m.nodes["a"].ElectorateStatus(m.now); isDynamic || m.nodes["a"].Known() != nil || m.nodes["a"].Saves() != nil {
		t.Fatal("a node of a fixed electorate has a dynamic one")
	}
	if got := m.nodes["a"].Wanted(); !slices.Equal(got, []vote.NodeID{"b", "c"}) {
		t.Fatalf("%q", got)
	}
}
