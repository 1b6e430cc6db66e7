package sockettest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// Processes without names and disks found a mesh over sockets and gossip. Then all voters but one
// end, and the survivor takes part in the next mesh with another identity.
func TestProcessesWithoutNamesFoundAMesh(t *testing.T) {
	sampled.OnlyRaced(t)
	t.Parallel()
	sampled.Waits(t)
	r := &onLoopback{t: t, secret: ownSecret(), ttl: time.Second}
	start := func() *lockmesh.Mesh { return r.join("", func(c *lockmesh.Config) { c.Expect = 3 }) }
	a, b, c := start(), start(), start()
	for _, m := range r.nodes {
		r.ready(m)
	}
	testwait.Until(t, "the three are voters", func() bool { return len(a.Status().Electorate.Voters) == 3 })
	before := a.Status().Electorate.DirID
	l := r.lock(b, "k")
	if err := l.Unlock(testwait.Within(t, patience)); err != nil {
		t.Error(err)
	}
	for _, m := range []*lockmesh.Mesh{b, c} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	d, e := start(), start()
	testwait.Until(t, "the next mesh", func() bool {
		s := d.Status().Electorate
		var names []string
		for _, v := range s.Voters {
			names = append(names, v.Name)
		}
		return s.Ready && slices.Contains(names, a.Name()) && slices.Contains(names, e.Name())
	})
	if now := a.Status().Electorate.DirID; now == before {
		t.Error("a has kept its identity")
	}
	for _, m := range []*lockmesh.Mesh{a, d, e} {
		r.lock(m, m.Name())
	}
}

// A mesh of one process acquires its first lock at once, and ends in each way.
func TestAMeshOfOneProcessEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(m *lockmesh.Mesh) error{
		"leave": func(m *lockmesh.Mesh) error { return m.Leave(testwait.Within(t, patience)) },
		"stop":  func(m *lockmesh.Mesh) error { return m.Stop(testwait.Within(t, patience)) },
		"close": (*lockmesh.Mesh).Close,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := lockmesh.Join(t.Context(), lockmesh.Config{Bind: "127.0.0.1:0", Expect: 1})
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Lock(testwait.Within(t, patience), "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(testwait.Within(t, patience)); err != nil {
				t.Error(err)
			}
			if err := end(m); err != nil && !errors.Is(err, lockmesh.ErrStillVoter) {
				t.Error(err)
			}
		})
	}
}

// A survivor of a lost mesh that isn't among the founders of the next mesh is voted in later, under
// its new identity, which the other nodes learn by gossip. The founders meet the survivor only
// after the founding: on a busy machine the survivor might be fresh before all three have started,
// and would be a founder itself. A node without a vote leads the two parts together.
func TestASurvivorIsVotedInUnderItsNewIdentity(t *testing.T) {
	sampled.OnlyRaced(t)
	t.Parallel()
	sampled.Waits(t)
	r := &onLoopback{t: t, secret: ownSecret(), ttl: time.Second}
	start := func(name string) *lockmesh.Mesh {
		return r.join(name, func(c *lockmesh.Config) { c.Expect = 3 })
	}
	voters := func(m *lockmesh.Mesh, names ...string) {
		t.Helper()
		testwait.Until(t, "the voters are as wanted", func() bool {
			s := m.Status().Electorate
			var got []string
			for _, v := range s.Voters {
				got = append(got, v.Name)
			}
			slices.Sort(got)
			return !s.Joint && slices.Equal(got, names)
		})
	}
	x, y, z := start("x"), start("y"), start("z")
	voters(z, "x", "y", "z")
	for _, m := range []*lockmesh.Mesh{x, y} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	r.peers = nil
	a := start("a")
	start("b")
	c := start("c")
	voters(a, "a", "b", "c")
	r.peers = []string{a.Addr(), z.Addr()}
	r.join("d", func(c *lockmesh.Config) { c.Expect, c.NonVoting = 3, true })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	voters(a, "a", "b", "z")
	r.lock(z, "k")
}
