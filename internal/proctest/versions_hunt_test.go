//go:build hunt

package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// versionWithoutConversions is the last commit before a handshake and gossip tell whether a
	// node is converting.
	versionWithoutConversions = "a6dd838"

	// versionWithoutMaxTTL is the last commit before wire version 2, in which electorates have a
	// maximum TTL.
	versionWithoutMaxTTL = "eb84a35"

	// versionWithoutBirths is the last commit before births by count, which added elements to the
	// handshake, and a tag to gossip.
	versionWithoutBirths = "bb5cf52"
)

// buildOf builds the locknode of a commit.
func buildOf(t *testing.T, commit string) string {
	t.Helper()
	return buildCommandOf(t, commit, "./examples/locknode")
}

// buildCommandOf builds a command of a commit, which takes the history of the repository.
func buildCommandOf(t *testing.T, commit, command string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(in, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			if strings.Contains(string(out), "not a git repository") || strings.Contains(string(out), "not a valid object name") || strings.Contains(string(out), "unknown revision") {
				t.Skipf("SKIPPED: the history isn't here, so the version before can't be built: %s", out)
			}
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	source, old := filepath.Join(dir, "source"), filepath.Join(dir, "before.exe")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "source.tar")
	run("../..", "git", "archive", "--format=tar", "-o", archive, commit)
	run(source, "tar", "-xf", archive)
	run(source, "go", "build", "-o", old, command)
	return old
}

// Three processes of one version are replaced by processes of the other in turn, each as soon as
// the process before is settled, and then back by the first version. All the while both versions
// form a single mesh, under load: no lease is lost, and no process waits for a lock for over a
// second longer than the machine itself stood still.
func TestTwoVersionsAreOneMesh(t *testing.T) {
	newest, _ := versionBefore(t)
	before, earlier := buildOf(t, newest), buildOf(t, versionWithoutMaxTTL)
	for _, c := range []struct {
		name          string
		first, second string // the locknodes
		order         []string
		dynamic       bool
	}{
		{"fixed voters", before, program, abc, false},
		{"fixed voters of this version before others", program, before, []string{"c", "b", "a"}, false},
		{"voters with directories", before, program, abc, true},
		{"voters with directories founded by this version", program, before, []string{"c", "b", "a"}, true},
		{"fixed voters of wire version 1", earlier, program, abc, false},
		{"fixed voters before others of wire version 1", program, earlier, []string{"c", "b", "a"}, false},
		{"voters with directories of wire version 1", earlier, program, abc, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMesh(t, abc, "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
			m.runs = c.first
			r := &rolling{mesh: m, machine: watchMachine(t)}
			if c.dynamic {
				m.dirs = t.TempDir()
				if c.first == earlier {
					r.crash = rollTTL // see "close" below
				}
			}
			for _, name := range abc {
				if c.dynamic {
					r.launch(name, "-bootstrap")
				} else {
					r.launch(name)
				}
			}
			began := r.underLoad()
			ending := c.first
			for what, runs := range [...]string{c.second, c.first} {
				m.runs = runs
				stop := "leave"
				switch {
				case c.dynamic && ending == earlier:
					stop = "close" // the ending process doesn't know "stop"
				case c.dynamic:
					stop = "stop"
				}
				for _, name := range c.order {
					p := m.procs[name]
					p.tell("unlock " + kept(name))
					p.awaitEvent("released", kept(name))
					p.tell(stop)
					if code := p.exitCode(); code != 0 {
						t.Errorf("%s ends with code %d, want 0", name, code)
					}
					p = r.launch(name)
					p.reached("settled")
					p.lock(kept(name))
				}
				ending = runs
				t.Logf("change %d of 2 is done after %v", what+1, time.Since(began).Round(time.Millisecond))
			}
			r.judge(began)
		})
	}
}

// Rollouts replace one version by the other, back, and again, with and without a register, under
// the load of a client of each version. The mesh is founded by either version. No lease of a live
// pod is lost, no key has two holders, and no process waits for a lock for over a second.
func TestVersionsAreChangedByRollouts(t *testing.T) {
	newest, _ := versionBefore(t)
	before, now := buildCommandOf(t, newest, "./examples/service"), buildService(t)
	for _, order := range []struct{ name, first, second string }{
		{"founded by the version before", before, now},
		{"founded by this version", now, before},
	} {
		for _, s := range []strategy{{3, 1, 0}, {3, 0, 1}} {
			t.Run(fmt.Sprintf("%s with surge %d", order.name, s.maxSurge), func(t *testing.T) {
				d := newDeployment(t, order.first, s)
				d.roll("the start")
				d.startClient("client-first")
				d.program = order.second
				d.startClient("client-second")
				d.measure = time.Now()
				d.replaceAll("the second version")
				d.program = order.first
				d.replaceAll("the first version again")
				d.program = order.second
				d.replaceAll("the second version again")
				d.judge()
			})
		}
	}
}

// Processes of two versions form a mesh born by count: three processes of the earlier version found
// the mesh. Each is replaced by a process of this version, started beside the others and awaited;
// then the earlier version replaces this version in the same way. No more than four processes run
// at a time, the bound of the promise.
func TestTwoVersionsAreOneMeshBornByCount(t *testing.T) {
	newest, _ := versionBefore(t)
	for _, c := range []struct{ name, commit string }{
		{"the version before", newest},
		{"wire version 1", versionWithoutMaxTTL},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := buildOf(t, c.commit)
			f := newFleet(t, rollTTL, "-lock", "k", "-hold", "5ms", "-pause", "5ms")
			r := &rolling{mesh: f.mesh, machine: watchMachine(t)}
			launch := func(name, runs string) *process {
				f.runs = runs
				f.begin(name)
				r.names, r.every = append(r.names, name), append(r.every, f.procs[name])
				return f.procs[name]
			}
			for _, name := range abc {
				launch(name, before)
			}
			began := r.underLoad()
			for what, next := range [][]string{{"d", "e", "f"}, {"g", "h", "i"}} {
				runs := [...]string{program, before}[what]
				for _, name := range next {
					launch(name, runs).reached("settled")
					f.procs[name].lock(kept(name))
					old := r.names[0]
					r.names = r.names[1:]
					p := f.procs[old]
					p.tell("unlock " + kept(old))
					p.awaitEvent("released", kept(old))
					p.tell("leave")
					if runs == program {
						// Without a state directory the process gives itself 5 s to leave, and a
						// little more may be needed. By then the process has released its leases.
						r.hasty = append(r.hasty, p)
					}
					if code := p.exitCode(); code != 0 && runs == before {
						t.Errorf("%s ends with code %d, want 0", old, code)
					}
				}
				for _, name := range next {
					f.procs[name].awaitElectorate(next...)
				}
				t.Logf("change %d of 2 is done after %v", what+1, time.Since(began).Round(time.Millisecond))
			}
			r.judge(began)
		})
	}
}

// A version refuses, and names, a setting unknown to it: the version without births doesn't know a
// mesh born by count, and for this version a fixed list is a mesh of another kind.
func TestAVersionWithoutBirthsAndAMeshBornByCount(t *testing.T) {
	before := buildOf(t, versionWithoutBirths)
	f := newFleet(t, 2*time.Second)
	f.begin("a", "b", "c")
	f.serves("a")
	m := newMesh(t, []string{"x", "y"}, "-max-ttl", "2s")
	m.runs = before
	m.nodes = append(m.nodes, "a")
	m.addrs["a"] = f.addrs["a"]
	x := m.start("x", m.addrs["x"])
	m.start("y", m.addrs["y"])
	x.onLog("the other kind", func(text string) bool { return strings.Contains(text, "Expect is 3") })
	f.procs["a"].onLog("the other kind", func(text string) bool { return strings.Contains(text, "Expect is 3") })
	f.serves("a", "b", "c")
	// Beside a mesh that counts, a mesh of another kind with the same name and secret doesn't
	// begin. Until x's voter knows that it waits, x is only quiet, as each voter is after its
	// start; x may also be refused by each peer that has answered so far.
	x.await("a refusal by a voter that waits", func(l line) bool {
		return l.Event == "error" && l.Op == "ready" && strings.Contains(l.Text, "the voter of x waits")
	})
	x.tell("trylock k")
	x.awaitError("trylock", "refused")
}

// A mesh founded by this version has a decided MaxTTL, unknown to the earlier version: the old
// process is refused, and both sides log the reason.
func TestTheVersionBeforeAndADecidedMaxTTL(t *testing.T) {
	before := buildOf(t, versionWithoutMaxTTL)
	m := newMesh(t, []string{"a", "b", "c"}, "-max-ttl", "2s")
	m.dirs = t.TempDir()
	m.nodes = append(m.nodes, "x")
	for _, name := range m.names {
		m.start(name, m.addrs[name], "-bootstrap")
	}
	m.procs["a"].reached("settled")
	m.runs = before
	x := m.start("x", "127.0.0.1:0")
	for p, why := range map[*process]string{m.procs["a"]: "wire version is 2 at a and 1 at x", x: "wire version is 2 at"} {
		p.onLog("the refusal", func(text string) bool { return strings.Contains(text, why) })
	}
	x.tell("trylock k")
	x.awaitError("trylock", "noquorum")
}
