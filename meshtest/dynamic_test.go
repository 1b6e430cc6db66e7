package meshtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// vote waits until a node sees these voters.
func vote(t *testing.T, m *lockmesh.Mesh, voters ...string) lockmesh.ElectorateStatus {
	t.Helper()
	states, err := m.WatchElectorate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(5 * time.Minute)
	for {
		select {
		case s := <-states:
			var names []string
			for _, v := range s.Voters {
				names = append(names, v.Name)
			}
			if !s.Joint && slices.Equal(names, voters) {
				return s
			}
		case <-late:
			t.Fatalf("%v never voted:\n%v", voters, m.Status())
		}
	}
}

func TestMembershipIsDynamic(t *testing.T) {
	meshtest.Run(t, 5, func(t *testing.T, m *meshtest.Mesh) {
		a := m.Node("a")
		before := vote(t, m.Node("c"), "a", "b", "c", "d", "e")
		m.Crash("b")
		m.Crash("c")
		vote(t, a, "a", "d", "e")
		m.Wipe("c")
		m.Restart("b")
		after := vote(t, m.Restart("c"), "a", "b", "c", "d", "e")
		if before.DirID == after.DirID {
			t.Error("the wiped directory is the same")
		}
		lease, err := a.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}, meshtest.WithDynamicMembership(), meshtest.WithVoters(3), meshtest.WithMaxTTL(time.Second))
}
