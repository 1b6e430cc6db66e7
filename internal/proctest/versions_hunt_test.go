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
	// format: the handshake has one more element, and gossip a tag, of converting nodes.
	versionWithoutConversions = "a6dd838"

	// versionWithoutMaxTTL is the last commit before wire version 2, whose electorates have a
	// maximum TTL.
	versionWithoutMaxTTL = "eb84a35"

	// versionWithoutBirths is the last commit before births by count, which added elements to the
	// handshake, and a tag to gossip.
	versionWithoutBirths = "bb5cf52"
)

// buildOf builds the locknode of a commit. It needs the history of the repository.
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

// Three processes of the version before are replaced by processes of this one, one after the other,
// as each is settled; and then this version's by the one before. All the while both kinds are one
// mesh, under load: no lease is lost, and no lock is unserved for over a second more than the
// machine was.
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
				r.crash = rollTTL
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
				case c.dynamic && runs == program && before == earlier: // the ending process knows no "stop"
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

// Processes of two versions are one mesh that is born by count: three of the version before found
// it, and are replaced by processes of this one, each started beside the others and waited for; and
// then those by the version before. No more than four run at a time, the bound of the promise.
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
						// Without a state directory the version before gives itself 5 s to leave, and a
						// little more may be needed. It has released its leases by then.
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

// What a version doesn't know it refuses, and names: a mesh that is born by count is unknown to the
// version without births, and one with a fixed list is another kind to this one.
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
	// Beside a mesh that counts, another kind of the same name and secret doesn't begin.
	// Until x's voter knows that it waits, x is only quiet, as each voter is after its start; x may be
	// refused by each peer that has answered so far, too.
	x.await("a refusal by a voter that waits", func(l line) bool {
		return l.Event == "error" && l.Op == "ready" && strings.Contains(l.Text, "the voter of x waits")
	})
	x.tell("trylock k")
	x.awaitError("trylock", "refused")
}

// A mesh that this version has founded has a decided MaxTTL, of which the version before doesn't
// know: it is refused, and told why.
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
