package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// stage is the progress of a node from a fixed list to dynamic membership.
type stage int

const (
	isFixed stage = iota
	isConverting
	isDynamic
)

// mixture is a mesh of nodes of all three stages, with the list a, b, c.
type mixture struct {
	*dynamicMesh
	stages map[vote.NodeID]stage
	odd    []string // messages to fixed nodes that no fixed node sends
}

func newMixture(t *testing.T) *mixture {
	m := &mixture{dynamicMesh: newDynamicMesh(t, "a b c"), stages: map[vote.NodeID]stage{}}
	m.twist = func(from, to vote.NodeID, msg *vote.Message) {
		if m.stages[to] == isFixed && (msg.Epoch != 0 || msg.Dir != 0 || msg.Kind.IsConsensus()) {
			m.odd = append(m.odd, string(from)+": "+msg.Kind.String())
		}
	}
	return m
}

// restart starts or restarts nodes at a stage, and links them with the others.
func (m *mixture) restart(list string, to stage) {
	m.t.Helper()
	for _, s := range strings.Fields(list) {
		name := vote.NodeID(s)
		m.stop(name)
		if !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
			slices.Sort(m.names)
		}
		m.incarnation++
		m.incarnations[name], m.stages[name] = m.incarnation, to
		cfg := Config{Name: name, Incarnation: m.incarnation, Voters: m.founders, TTL: ttl, MaxTTL: ttl, Dynamic: m.dynamicConfig(name, to)}
		n, err := New(cfg, m.now)
		if err != nil {
			m.t.Fatal(err)
		}
		m.nodes[name] = n
		for _, other := range m.names {
			if other != name && m.nodes[other] != nil {
				m.join(name, other)
				m.join(other, name)
			}
		}
		m.work()
		m.tellGossip()
	}
}

// dynamicConfig returns the content of the directory of a node at a stage.
func (m *mixture) dynamicConfig(name vote.NodeID, at stage) *Dynamic {
	if at == isFixed {
		return nil
	}
	found := m.disks[name] != nil
	if !found {
		m.dirs++
		m.disks[name] = &vote.DiskState{Mesh: "m", Name: name, Dir: m.dirs}
	}
	f := &Dynamic{State: *m.disks[name], Fresh: !found}
	if at == isConverting {
		state, err := electorate.Convert(f.State, found, m.founders, ttl)
		if err != nil {
			m.t.Fatal(err)
		}
		*m.disks[name] = state
		f.State, f.FromFixed, f.Fresh = state, true, f.Fresh && !slices.Contains(m.founders, name)
	}
	return f
}

// tellGossip reports the state of all nodes to all nodes.
func (m *mixture) tellGossip() {
	var all []electorate.Seen
	for _, name := range m.names {
		s := electorate.Seen{Name: name, State: vote.Failed}
		if n := m.nodes[name]; n != nil {
			s.State = vote.Alive
			if m.stages[name] != isFixed && (m.stages[name] == isDynamic || n.Votes()) {
				s.Dir = n.Elector().Dir
			}
		}
		all = append(all, s)
	}
	for _, name := range m.names {
		if n := m.nodes[name]; n != nil {
			n.Gossip(m.now, all)
		}
	}
	m.work()
}

// join links two nodes, if a handshake would.
func (m *mixture) join(from, to vote.NodeID) {
	kind := func(n vote.NodeID) stage {
		if m.nodes[n].Converted() {
			return isDynamic
		}
		return m.stages[n]
	}
	x, y := kind(from), kind(to)
	if x == isFixed && y == isDynamic || x == isDynamic && y == isFixed || !slices.Contains(m.nodes[from].Wanted(), to) {
		return
	}
	conn := m.last + 1
	for _, pair := range [][2]vote.NodeID{{from, to}, {to, from}} {
		if kind(pair[0]) == isConverting && m.stages[pair[1]] == isFixed {
			m.nodes[pair[0]].FixedPeer(conn, pair[1])
		}
	}
	m.link(from, to)
}

// wait lets time pass, and dials connections that a node has closed or newly wants.
func (m *mixture) wait(d time.Duration) {
	for ; d > 0; d -= 10 * time.Millisecond {
		m.pass(10 * time.Millisecond)
		m.work()
		for _, from := range m.names {
			for _, to := range m.names {
				linked := false
				for _, l := range m.conns {
					linked = linked || l == link{from, to}
				}
				if from != to && m.nodes[from] != nil && m.nodes[to] != nil && !linked {
					m.join(from, to)
				}
			}
		}
		m.work()
	}
}

// served checks that each node is granted a key at once, and releases the key.
func (m *mixture) served(list string) {
	m.t.Helper()
	for _, s := range strings.Fields(list) {
		name := vote.NodeID(s)
		n := m.lock(name, "served", false)
		m.want(name, n, quorum.EventGranted)
		m.release(name, n)
		m.want(name, n, quorum.EventReleased)
	}
}

const quietFor = ttl + vote.TokenQueryTimeout + 300*time.Millisecond

// allFixed returns a mixture of fixed nodes with voters that count; x is on no list.
func allFixed(t *testing.T) *mixture {
	m := newMixture(t)
	m.restart("a b c x", isFixed)
	m.wait(quietFor)
	m.served("a b c x")
	return m
}

// Two rolling restarts convert a mesh, with a lease on a node that isn't restarted, and each node
// served after each step.
func TestAFixedMeshIsConvertedWhileLeasesAreHeld(t *testing.T) {
	m := allFixed(t)
	kept := m.lock("x", "kept", false)
	for _, to := range []stage{isConverting, isDynamic} {
		for _, name := range []vote.NodeID{"b", "a", "c"} {
			other := vote.NodeID("a")
			if name == "a" {
				other = "c"
			}
			held := m.lock(other, "held", false)
			m.restart(string(name), to)
			m.served("a b c x")
			m.wait(quietFor)
			m.served("a b c x")
			m.want(other, held, quorum.EventGranted)
			m.release(other, held)
		}
		m.want("x", kept, quorum.EventGranted)
		m.restart("x", to)
		m.wait(quietFor)
		kept = m.lock("x", "kept", false)
		m.served("a b c x")
	}
	m.goBy("a b c x", "1: a b c")
	m.restart("y", isDynamic) // with y, the list changes
	m.wait(6 * ttl)
	m.goBy("a b c x y", "3: a b c x y")
	m.want("x", kept, quorum.EventGranted)
	m.served("a b c x y")
	m.quietly(t)
	if len(m.odd) > 0 {
		t.Errorf("fixed nodes were told: %q", m.odd)
	}
	for _, name := range m.names {
		if n := m.nodes[name].Requester().Counters().Mismatches; n > 0 {
			t.Errorf("%s: %d mismatches", name, n)
		}
	}
}

// With two fixed voters and a converting voter, and the other way round, nodes of both kinds are
// served by each other's votes.
func TestFixedAndConvertingVotersAddUp(t *testing.T) {
	for _, c := range []struct{ converting, gone, fixed string }{{"a", "c", "b, x"}, {"a b", "b", "c, x"}} {
		m := allFixed(t)
		m.restart(c.converting, isConverting)
		m.wait(quietFor)
		m.stop(vote.NodeID(c.gone)) // so a fixed and a converting voter are the majority
		m.wait(ttl)
		for _, name := range []string{"a", "b", "c", "x"} {
			if name != c.gone {
				m.served(name)
			}
		}
		st, _ := m.nodes["a"].ElectorateStatus(m.now)
		_, fixed, _ := strings.Cut(st.Change, "; still fixed: ")
		if st.Lost != "" || fixed != c.fixed || !st.Voter {
			t.Errorf("%+v, want %s", st, c.fixed)
		}
		for _, name := range strings.Split(c.fixed, ", ") {
			m.stop(vote.NodeID(name))
		}
		if st, _ := m.nodes["a"].ElectorateStatus(m.now); strings.Contains(st.Change, "still fixed") {
			t.Errorf("nobody is fixed any more: %+v", st)
		}
	}
}

// A converting voter may have promised anything as a fixed voter, so the voter is quiet however new
// its directory is.
func TestAConvertingVoterIsQuiet(t *testing.T) {
	m := allFixed(t)
	held := m.lock("x", "k", false)
	m.want("x", held, quorum.EventGranted)
	m.stop("x")
	m.restart("a", isConverting)
	m.restart("b", isConverting)
	next := m.lock("c", "k", false)
	m.wait(ttl * 3 / 4)
	m.want("c", next, quorum.EventNone)
	m.wait(quietFor)
	m.want("c", next, quorum.EventGranted)
}

// From version 2 on a converting node parts from fixed nodes.
func TestAConvertingNodePartsFromFixedNodes(t *testing.T) {
	m := allFixed(t)
	m.restart("a b", isConverting)
	m.wait(quietFor)
	m.restart("a", isDynamic)
	m.restart("y", isConverting)
	m.wait(quietFor)
	if n := m.nodes["y"]; n.Converted() || !n.Converting() {
		t.Fatal("y has parted already")
	}
	m.restart("b", isDynamic)
	m.restart("d e", isDynamic)
	m.wait(6 * ttl)
	m.goBy("a b y", "3: a b c d e")
	for _, l := range m.conns {
		if m.stages[l.from] == isFixed && m.stages[l.to] != isFixed || m.stages[l.from] != isFixed && m.stages[l.to] == isFixed {
			t.Errorf("%s is linked with %s", l.from, l.to)
		}
	}
	y := m.nodes["y"]
	if !y.Converted() {
		t.Error("y doesn't know that the list is history")
	}
	// A late connection of a fixed node is closed: its messages are ignored, and no answer is sent.
	y.FixedPeer(999, "c")
	y.Link(m.now, 999, vote.SessionID{Node: "c", Incarnation: m.incarnations["c"]})
	y.Deliver(m.now, 999, vote.SessionID{Node: "c", Incarnation: m.incarnations["c"]}, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: ttl})
	y.Deliver(m.now, 999, vote.SessionID{Node: "c", Incarnation: m.incarnations["c"]}, &vote.Message{Kind: vote.KindSync, Stream: 1, End: true})
	out, _ := y.Drain(nil, nil)
	if len(out) != 1 || out[0].Conn != 999 || !out[0].Close {
		t.Errorf("to c: %+v", out)
	}
	y.Unlink(m.now, 999)
	waits := m.lock("c", "k", false)
	m.wait(3 * ttl)
	m.want("c", waits, quorum.EventNone)
	m.served("a b d e y")
}

// As soon as a converting node learns of version 2, the node closes its connections with fixed
// nodes, whichever side has dialed, and counts on no fixed node.
func TestAConvertingNodePartsAtOnce(t *testing.T) {
	m := allFixed(t)
	m.restart("a", isConverting)
	m.wait(quietFor)
	n := m.nodes["a"]
	held := m.lock("a", "k", false)
	m.want("a", held, quorum.EventGranted)
	want := map[vote.Conn]bool{}
	for c, l := range m.conns {
		if l.from == "a" || l.to == "a" {
			want[c] = true
		}
	}
	next := *n.Known()
	next.Version, next.Old, next.OldMaxTTL = 2, next.Voters, next.MaxTTL
	n.Deliver(m.now, 999, vote.SessionID{Node: "y", Incarnation: 9}, &vote.Message{Kind: vote.KindElectorate, Epoch: 2, Consensus: &vote.Consensus{Electorate: next}})
	out, _ := n.Drain(nil, nil)
	for _, o := range out {
		if o.Close && !want[o.Conn] || !o.Close && o.Conn != 999 {
			t.Errorf("%+v", o)
		}
		delete(want, o.Conn)
	}
	if len(want) > 0 {
		t.Errorf("%d connections aren't closed", len(want))
	}
	if n.Requester().Linked("b") || n.Requester().Linked("c") {
		t.Error("it takes itself for linked with fixed nodes")
	}
	if st, _ := n.ElectorateStatus(m.now); strings.Contains(st.Change, "still fixed") || !n.Converted() {
		t.Errorf("%+v", st)
	}
}

// A node that isn't converting accepts nothing from a fixed node, should a shell ever link the two.
func TestADynamicNodeTakesNothingFromAFixedOne(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(300 * time.Millisecond)
	n := f.nodes["a"]
	n.FixedPeer(999, "x")
	n.Deliver(f.now, 999, vote.SessionID{Node: "x", Incarnation: 5}, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: ttl})
	if out, _ := n.Drain(nil, nil); len(out) != 1 || !out[0].Close || n.Converting() || n.Converted() {
		t.Errorf("%+v", out)
	}
}

// Messages of a fixed node about electorates, and its claim that a directory is an old copy, are
// ignored.
func TestAFixedNodeHasNoSayInElectorates(t *testing.T) {
	m := allFixed(t)
	m.restart("a", isConverting)
	m.wait(quietFor)
	a := m.nodes["a"]
	var conn vote.Conn
	for c, l := range m.conns {
		if l == (link{"b", "a"}) {
			conn = c
		}
	}
	later := *a.Known()
	later.Version, later.Old, later.OldMaxTTL = 2, later.Voters, later.MaxTTL
	from := vote.SessionID{Node: "b", Incarnation: m.incarnations["b"]}
	a.Deliver(m.now, conn, from, &vote.Message{Kind: vote.KindElectorate, Epoch: 2, Consensus: &vote.Consensus{Electorate: later}})
	a.Deliver(m.now, conn, from, &vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonOldCopy})
	if st, _ := a.ElectorateStatus(m.now); a.Known().Version != 1 || st.Trouble != "" {
		t.Errorf("%+v", st)
	}
	m.served("a b c x")
}

// Going back from the first restart changes nothing, however often.
func TestTheFirstRestartIsTakenBack(t *testing.T) {
	m := allFixed(t)
	for _, to := range []stage{isConverting, isFixed, isConverting, isFixed} {
		for _, name := range []string{"a", "b", "c"} {
			m.restart(name, to)
			m.wait(quietFor)
			m.served("a b c x")
		}
	}
	m.quietly(t)
}
