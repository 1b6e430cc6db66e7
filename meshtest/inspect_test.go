package meshtest_test

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// A holder, a voter itself, crashes with the vote of a single other voter, and before this voter
// has learned of the grant. No live voter can tell then whether the key is held, and no other node
// gets the key: an inspection shows a holder, marked as unsure. (Met with clients of Redis: an
// agent was killed milliseconds after a grant, and the key looked free.)
func TestALeaseOfACrashedNodeThatNoVoterHeardOfIsSeen(t *testing.T) {
	for _, name := range []string{"b", "c"} {
		t.Run("from "+name, func(t *testing.T) {
			meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
				m.Cut("a", "c")
				held, err := m.Node("a").TryLock(t.Context(), "k", lockmesh.WithValue([]byte("v")))
				if err != nil {
					t.Fatal(err)
				}
				deadline := held.Deadline()
				m.Cut("a", "b") // the message about the grant is lost
				m.Crash("a")
				info, err := m.Node(name).Inspect(t.Context(), "k")
				if err != nil || len(info.Holders) != 1 || len(info.Waiters) != 0 {
					t.Fatalf("%+v, %v", info, err)
				}
				if h := info.Holders[0]; !h.Unsure || h.Node != "a" || string(h.Value) != "v" || h.Mode != lockmesh.Exclusive || h.Left <= 0 || h.Token > held.Token() {
					t.Errorf("%+v", h)
				}
				mustBeHeld(t, lock(t, m.Node(name))) // released at the end of the test
				if late := time.Since(deadline); late < 0 || late > ttl {
					t.Errorf("the next holder came %v after the deadline", late)
				}
				if info, err = m.Node(name).Inspect(t.Context(), "k"); err != nil || len(info.Holders) != 1 || info.Holders[0].Node != name {
					t.Errorf("%+v, %v", info, err)
				}
			}, meshtest.Latency(10*time.Millisecond))
		})
	}
}
