package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// story is a mesh with dynamic membership, the history of its processes, and the ledger of its
// workers.
type story struct {
	*mesh
	ledger string
	every  []*process // all processes, the dead included
	kills  []killing
	phases []phase
}

// killing is a kill of a process, and two instants before and after.
type killing struct {
	name          string
	before, after time.Time
}

type phase struct {
	what     string
	from, to time.Time
}

// found starts the founders, with a worker in each.
func found(t *testing.T, founders []string) *story {
	t.Helper()
	ledger := filepath.Join(t.TempDir(), "ledger")
	s := &story{mesh: newMesh(t, founders, "-lock", "k", "-hold", "10ms", "-pause", "10ms", "-ledger", ledger), ledger: ledger}
	s.dirs = t.TempDir()
	s.phase("found", func() {
		for _, name := range founders {
			s.launch(name, "-bootstrap")
		}
		s.awaitAll(founders...)
	})
	return s
}

func (s *story) launch(name string, more ...string) *process {
	s.t.Helper()
	p := s.start(name, s.addrs[name], more...)
	s.every = append(s.every, p)
	return p
}

// phase runs a step, and ends when each worker has been granted the lock again.
func (s *story) phase(what string, do func()) {
	s.t.Helper()
	ph := phase{what: what, from: time.Now()}
	do()
	for _, name := range s.nodes {
		s.procs[name].forget()
	}
	for _, name := range s.nodes {
		s.procs[name].awaitEvent("granted", "k")
	}
	ph.to = time.Now()
	s.phases = append(s.phases, ph)
}

// join starts nodes unknown to the mesh, with directories that don't exist yet.
func (s *story) join(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.admit(name)
		s.launch(name)
	}
}

func (s *story) kill(name string) {
	s.t.Helper()
	before := time.Now()
	s.kills = append(s.kills, killing{name, before, s.procs[name].kill()})
}

// killHolding kills a process almost certainly while the process holds the lock.
func (s *story) killHolding(name string) {
	s.t.Helper()
	s.procs[name].forget()
	s.procs[name].awaitEvent("working", "k")
	s.kill(name)
}

// bury forgets nodes that never come back.
func (s *story) bury(names ...string) {
	s.nodes = slices.DeleteFunc(s.nodes, func(n string) bool { return slices.Contains(names, n) })
}

// failAfter is the time after which an unreachable voter is voted out.
const failAfter = 3 * ttl

// restart kills a voter, starts the node again with its directory, and waits until all nodes count
// all voters.
func (s *story) restart(name string) {
	s.t.Helper()
	was, dir := s.procs[name].awaitElectorate(s.nodes...), s.procs[name].dirID()
	s.killHolding(name)
	p := s.launch(name)
	// The new incarnation was quiet first, so older reports about the dead incarnation are
	// overtaken.
	p.awaitVoter(name, "reachable")
	version := s.awaitAll(s.nodes...)
	if now := p.dirID(); now != dir || dir == 0 {
		s.t.Errorf("%s had the state directory %x and has %x since its restart", name, dir, now)
	}
	// A node that is back in time with its directory is the same voter as before. On a busy machine
	// the node may be late: then the electorate rightly votes the node out, and in again.
	if took := time.Since(s.kills[len(s.kills)-1].before); version != was.Version && took < failAfter {
		s.t.Errorf("%s was back within %v, and the electorate changed from version %d to %d", name, took, was.Version, version)
	}
}

// awaitAll waits until each live node reports the named voters as its electorate, and counts all
// these voters. awaitAll returns the newest version reported.
func (s *story) awaitAll(voters ...string) (version uint64) {
	s.t.Helper()
	for _, name := range s.nodes {
		p := s.procs[name]
		e := p.awaitElectorate(voters...)
		if e.Voter != slices.Contains(voters, name) {
			s.t.Errorf("%s says %t when asked whether it votes in electorate %d of %v", name, e.Voter, e.Version, e.Names)
		}
		version = max(version, e.Version)
		for _, v := range voters {
			p.awaitVoter(v, "reachable")
		}
	}
	return version
}

// end stops all live processes, and judges their output and the ledger.
func (s *story) end() {
	s.t.Helper()
	for _, p := range s.every {
		p.none("lost")
		p.none("error") // checked now, since the last nodes to unlock find no voter any more
		p.none("unreadable")
	}
	s.mesh.end("close", s.nodes...)
	text, err := os.ReadFile(s.ledger)
	s.must(err)
	leases, cut, err := judge(string(text))
	if err == nil {
		err = unexplained(leases, cut, s.kills)
	}
	if err != nil {
		s.t.Errorf("%v\nin a ledger that ends with:\n%s", err, tail(string(text), 4000))
	}
	for _, ph := range s.phases {
		n := 0
		for _, h := range leases {
			if h.began.After(ph.from) && h.began.Before(ph.to) {
				n++
			}
		}
		s.t.Logf("%-25s %8v, %4d leases", ph.what+":", ph.to.Sub(ph.from).Round(time.Millisecond), n)
		if n == 0 {
			s.t.Errorf("%s: nobody was granted the lock", ph.what)
		}
	}
	longest := time.Duration(0)
	for i := range max(len(leases)-1, 0) {
		longest = max(longest, leases[i+1].began.Sub(leases[i].began))
	}
	s.t.Logf("%d leases one after the other, %d of them cut short by a kill; the longest time from one to the next: %v", len(leases), len(cut), longest.Round(time.Millisecond))
	if len(cut) == 0 && err == nil {
		s.t.Error("no holder was killed while it held the lock; the test has shown less than it could")
	}
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// unexplained returns an error for a lease cut short without a kill of its holder.
func unexplained(leases []holding, cut []int, kills []killing) error {
	for _, i := range cut {
		h, next := leases[i], leases[i+1].began
		if !slices.ContainsFunc(kills, func(k killing) bool { return k.name == h.name && h.began.Before(k.after) && k.before.Before(next) }) {
			return fmt.Errorf("%s never ended its lease with token %d, and wasn't killed before %s began", h.name, h.token, leases[i+1].name)
		}
	}
	return nil
}

// tail returns the end of a text, from the beginning of a line on.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	_, rest, _ := strings.Cut(text[len(text)-most:], "\n")
	return rest
}

func TestUnfinishedLeasesAreExplainedByKillsOnly(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	leases := []holding{{"a", 1, at(10)}, {"b", 2, at(20)}, {"a", 3, at(30)}}
	for _, c := range []struct {
		what  string
		kill  killing
		wrong bool
	}{
		{"killed while it held", killing{"b", at(24), at(25)}, false},
		{"another was killed", killing{"a", at(24), at(25)}, true},
		{"killed before", killing{"b", at(14), at(15)}, true},
		{"killed after the next began", killing{"b", at(34), at(35)}, true},
	} {
		if err := unexplained(leases, []int{1}, []killing{c.kill}); (err != nil) != c.wrong {
			t.Errorf("%s: error %v; want one: %t", c.what, err, c.wrong)
		}
	}
}
