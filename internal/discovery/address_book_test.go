package discovery

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/vote"
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
		t.Error("an address is barred for ever")
	}
}
