//go:build hunt

package proctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// versionWithoutConversions is the last commit before the newest change of a wire or state
	// format: for converting nodes the handshake has a further element, and gossip a further tag.
	versionWithoutConversions = "a6dd838"

	// versionWithoutMaxTTL is the last commit before wire version 2, in which electorates have a
	// maximum TTL.
	versionWithoutMaxTTL = "eb84a35"

	// versionWithoutBirths is the last commit before births by count, which added elements to the
	// handshake, and a tag to gossip.
	versionWithoutBirths = "bb5cf52"
)

// buildOf builds the locknode of a commit, which takes the history of the repository.
func buildOf(t *testing.T, commit string) string {
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
	source, old := filepath.Join(dir, "source"), filepath.Join(dir, "locknode-before.exe")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "source.tar")
	run("../..", "git", "archive", "--format=tar", "-o", archive, commit)
	run(source, "tar", "-xf", archive)
	run(source, "go", "build", "-o", old, "./examples/locknode")
	return old
}

// Three processes of an earlier version are replaced by processes of this version in turn, each as
// soon as the process before is settled, and then back by the earlier version. All the while both
// versions form a single mesh, under load: no lease is lost, and no process waits for a lock for
// over a second longer than the machine itself stood still.
func TestTwoVersionsAreOneMesh(t *testing.T) {
	newest, earlier := buildOf(t, versionWithoutConversions), buildOf(t, versionWithoutMaxTTL)
	for _, c := range []struct {
		name, before string
		dynamic      bool
	}{
		{"fixed voters", newest, false},
		{"voters with directories", newest, true},
		{"fixed voters of wire version 1", earlier, false},
		{"voters with directories of wire version 1", earlier, true},
	} {
		before := c.before
		t.Run(c.name, func(t *testing.T) {
			names := []string{"a", "b", "c"}
			m := newMesh(t, names, "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
			m.runs = before
			r := &rolling{mesh: m, machine: watchMachine(t)}
			if c.dynamic {
				m.dirs = t.TempDir()
				if before == earlier {
					r.crash = rollTTL // see "close" below
				}
			}
			for _, name := range names {
				if c.dynamic {
					r.launch(name, "-bootstrap")
				} else {
					r.launch(name)
				}
			}
			began := r.underLoad()
			for what, runs := range [...]string{program, before} {
				m.runs = runs
				stop := "leave"
				switch {
				case c.dynamic && runs == program && before == earlier:
					// The ending process doesn't know "stop".
					stop = "close"
				case c.dynamic:
					stop = "stop"
				}
				for _, name := range names {
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
				t.Logf("change %d of 2 is done after %v", what+1, time.Since(began).Round(time.Millisecond))
			}
			r.judge(began)
		})
	}
}

// Processes of two versions form a mesh born by count: three processes of the earlier version found
// the mesh. Each is replaced by a process of this version, started beside the others and awaited;
// then the earlier version replaces this version in the same way. No more than four processes run
// at a time, the bound of the promise.
func TestTwoVersionsAreOneMeshBornByCount(t *testing.T) {
	for _, c := range []struct{ name, commit string }{
		{"the version before", versionWithoutConversions},
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
