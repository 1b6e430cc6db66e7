package sockettest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Processes without names and disks found a mesh over sockets and gossip. Then all voters but one
// end, and the survivor takes part in the next mesh with another identity.
func TestProcessesWithoutNamesFoundAMesh(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	r := &onLoopback{t: t, secret: ownSecret(), ttl: time.Second}
	start := func() *lockmesh.Mesh { return r.join("", func(c *lockmesh.Config) { c.Expect = 3 }) }
	a, b, c := start(), start(), start()
	for _, m := range r.nodes {
		r.ready(m)
	}
	eventually(t, "the three are voters", func() bool { return len(a.Status().Electorate.Voters) == 3 })
	before := a.Status().Electorate.DirID
	l := r.lock(b, "k")
	if err := l.Unlock(within(t, patience)); err != nil {
		t.Error(err)
	}
	for _, m := range []*lockmesh.Mesh{b, c} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	d, e := start(), start()
	eventually(t, "the next mesh", func() bool {
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
