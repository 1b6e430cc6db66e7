package discovery

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Gossip reports the process that gave way to an older process of its name. Then probes look for
// the older process, which is dialed first.
func TestAVoterIsLookedForElsewhereOnceItsNamesakeGaveWay(t *testing.T) {
	b := newAddressBook([]vote.NodeID{"c"})
	find := func(want ...string) {
		t.Helper()
		if addrs, _ := b.find("c"); !slices.Equal(addrs, want) {
			t.Errorf("c is looked for at %q, want %q", addrs, want)
		}
	}
	newer := member.Member{Name: "c", Addr: "10.0.0.9:1"}
	b.addMember(newer)
	b.addProbed("c", "10.0.0.9:1")
	if find("10.0.0.9:1"); !b.inGossip("c") {
		t.Error("nobody doubts it")
	}
	if !b.setDuplicate("c", "10.0.0.9:1", true) || b.setDuplicate("c", "10.0.0.9:1", true) || b.inGossip("c") {
		t.Error("it isn't looked for elsewhere")
	}
	if find("10.0.0.9:1"); b.addProbed("c", "10.0.0.9:1") {
		t.Error("who gave way is found again")
	}
	if b.addProbed("c", "10.0.0.3:1") {
		find("10.0.0.3:1", "10.0.0.9:1")
	}
	b.setMembers([]member.Member{newer})
	find("10.0.0.3:1", "10.0.0.9:1")
	// The older process was stopped, and the newer restarted at its address.
	if b.setDuplicate("c", "10.0.0.9:1", false); !b.inGossip("c") {
		t.Error("it is looked for elsewhere though it was linked with")
	}
	find("10.0.0.9:1", "10.0.0.3:1")
	b.setDuplicate("c", "10.0.0.9:1", true)
	b.setMembers(nil)
	if find("10.0.0.3:1"); !b.addProbed("c", "10.0.0.9:1") {
		t.Error("an address stays barred without end")
	}
}

// TestARefusalStandsUntilItsAddressIsGone ends rounds of probes one after the other.
func TestARefusalStandsUntilItsAddressIsGone(t *testing.T) {
	by := func(addr string) *refusal { return &refusal{text: "refused", addr: addr} }
	all, none := []string{"a:1", "b:1"}, []string(nil)
	for _, row := range []struct {
		name           string
		accepted       bool
		refused        *refusal
		answer         answer // of b
		found, failing []string
		is             bool
	}{
		{"a refuses", false, by("a:1"), 0, all, none, true},
		{"all are silent", false, nil, noAnswer, all, none, true},
		{"b isn't asked", false, nil, 0, all, none, true},
		{"b has changed its mind", false, nil, accepts, all, none, false},
		{"b has, and a look-up fails", false, nil, accepts, all, []string{"dns:b: no such host"}, false},
		{"a is gone, and b refuses", false, by("b:1"), 0, []string{"b:1"}, none, true},
		{"the look-up that led to b fails", false, nil, 0, []string{"c:1"}, []string{"dns:b: no such host"}, true},
		{"no address is found", false, nil, 0, none, none, true},
		{"b is gone", false, nil, 0, []string{"c:1"}, none, false},
		{"c refuses", false, by("c:1"), 0, []string{"c:1"}, none, true},
		{"enough accept", true, by("c:1"), accepts, []string{"b:1", "c:1"}, none, false},
	} {
		book := newAddressBook(nil)
		if row.name != "a refuses" {
			book.setRefusal(by("b:1"))
		}
		answers := map[string]answer{"b:1": row.answer}
		if book.noteRound(row.accepted, row.refused, answers, row.found, row.failing); book.isRefused() != row.is {
			t.Errorf("%s: refused: %t", row.name, !row.is)
		}
	}

	// An address that answers no more counts as gone after a while; a refusal begins the while
	// anew.
	book, silent := newAddressBook(nil), map[string]answer{"b:1": noAnswer}
	for range 2 {
		book.noteRound(false, by("b:1"), nil, all, none)
		for n := range refusalMisses {
			if !book.isRefused() {
				t.Fatalf("the refusal is withdrawn after %d rounds", n)
			}
			if n < refusalMisses-1 {
				book.noteRound(false, nil, silent, all, none)
			}
		}
	}
	if book.noteRound(false, nil, silent, all, none); book.isRefused() {
		t.Error("the refusal stands, though the address answers no more")
	}
}

// TestMoreAcceptingThanRefusingAddressesAreEnough: the register lets no mesh be born, after the
// loss of a majority or while the mesh is alive.
func TestMoreAcceptingThanRefusingAddressesAreEnough(t *testing.T) {
	for _, row := range []struct {
		name                   string
		voter, barred, mayLive bool
		accepting, refusing    int
		enough                 bool
	}{
		{"more accept", true, true, false, 2, 1, true},
		{"as many refuse", true, true, false, 2, 2, false},
		{"the mesh may be alive", true, true, true, 9, 1, false},
		{"a node without a vote", false, true, false, 9, 1, false},
		{"the processes for a birth are counted", true, false, false, 2, 1, false},
	} {
		f := &Finder{peers: &peerProber{wake: make(chan struct{}, 1)}}
		f.cfg.Voter = row.voter
		f.SetLacksElectorate(true, row.barred, row.mayLive)
		if is := f.outnumbers(row.accepting, row.refusing); is != row.enough {
			t.Errorf("%s: %t", row.name, is)
		}
	}
}

// TestARefusalEndsWhenGossipMeetsANode: nodes that gossip with each other have the same secret and
// mesh, and the refusal may be older.
func TestARefusalEndsWhenGossipMeetsANode(t *testing.T) {
	f := &Finder{alive: make(map[vote.NodeID]string), at: make(map[string]vote.NodeID), book: newAddressBook(nil)}
	f.book.setRefusal(&refusal{text: "another secret", addr: "a:1"})
	f.noteAlive(&member.Member{Name: "a", State: vote.Alive})
	if f.book.isRefused() {
		t.Error("the refusal stands")
	}

	// Of three processes that wait for their birth, two may have the same wrong secret.
	f = &Finder{alive: make(map[vote.NodeID]string), at: make(map[string]vote.NodeID), book: newAddressBook(nil), peers: &peerProber{wake: make(chan struct{}, 1)}}
	f.cfg.Terms.Birth.Expect = 3
	f.SetLacksElectorate(true, false, false)
	f.book.setRefusal(&refusal{text: "another secret", addr: "a:1"})
	for n, name := range []vote.NodeID{"s", "t"} {
		if !f.IsRefused() {
			t.Errorf("%d other processes are enough", n)
		}
		f.noteAlive(&member.Member{Name: name, State: vote.Alive})
	}
	if f.IsRefused() {
		t.Error("the refusal stands, though three processes have met")
	}
	// Three processes with the same wrong secret aren't born while the register keeps them waiting.
	f.SetLacksElectorate(true, true, false)
	f.book.setRefusal(&refusal{text: "another secret", addr: "a:1"})
	f.noteAlive(&member.Member{Name: "u", State: vote.Alive})
	if !f.IsRefused() {
		t.Error("the refusal is withdrawn, though the register lets no mesh be born")
	}
	f.SetLacksElectorate(true, false, false)
	if f.IsRefused() {
		t.Error("the refusal stands, though the register lets a mesh be born")
	}
}

// ownAddr has this node's address.
type ownAddr struct {
	world.Links
}

func (ownAddr) AdvertiseAddr() string { return "10.0.0.1:7950" }
func (ownAddr) Know(netip.Addr)       {}

// An address is known while a live node, or this one, has the address.
func TestTheAddressesOfLiveNodesAreKnown(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	f := New(ended, Config{Clocks: clock.New(nil), Self: vote.SessionID{Node: "a"}, Dynamic: true})
	f.Connect(ownAddr{})
	b := member.Member{Name: "b", Addr: "10.0.0.2:7950", State: vote.Alive}
	moved, failed := b, b
	moved.Addr, failed.Addr, failed.State = "[fd00::2]:7950", "[fd00::2]:7950", vote.Failed
	for _, step := range []struct {
		event member.Member
		want  []string
	}{{b, []string{"10.0.0.1:7950", "10.0.0.2:7950"}}, {moved, []string{"10.0.0.1:7950", "[fd00::2]:7950"}}, {failed, []string{"10.0.0.1:7950"}}} {
		f.noteAlive(&step.event)
		var known []string
		for _, a := range []string{"10.0.0.1:7950", "10.0.0.2:7950", "[fd00::2]:7950"} {
			if f.Known(netip.MustParseAddrPort(a)) {
				known = append(known, a)
			}
		}
		if !slices.Equal(known, step.want) {
			t.Errorf("known: %q, want %q", known, step.want)
		}
	}
}
