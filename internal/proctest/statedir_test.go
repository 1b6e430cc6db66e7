package proctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startDynamic starts a mesh with dynamic membership, and waits until each founder has stored the
// first electorate: founders that are all killed before they have are a lost mesh.
func startDynamic(t *testing.T, founders []string) *mesh {
	t.Helper()
	m := newMesh(t, founders)
	m.dirs = t.TempDir()
	for _, name := range founders {
		m.start(name, m.addrs[name], "-bootstrap")
	}
	for _, name := range founders {
		p := m.procs[name]
		p.awaitElectorate(founders...)
		p.onDisk("the electorate", func() bool {
			state, _ := os.ReadFile(filepath.Join(m.stateDir(name), "state"))
			return strings.Contains(string(state), "\"electorate\": {\n  \"version\": 1,")
		})
	}
	return m
}

// says fails the test unless a text has all the words.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	t.Logf("told: %s", text)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it doesn't say %q: %s", w, text)
		}
	}
}

// A state directory that is shared with another node, or can't be trusted, ends the node before the
// node takes part. The error names the remedy, and TestALostStateDirectory, in the hunt, applies
// the remedy.
func TestStateDirectoriesThatCantBeUsed(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	state := func(name string) string { return filepath.Join(m.stateDir(name), "state") }
	refused := func(t *testing.T, p *process, words ...string) {
		t.Helper()
		says(t, p.awaitError("join", "state").Text, words...)
		if code := p.exitCode(); code != 1 {
			t.Errorf("it ends with code %d, want 1", code)
		}
		p.none("listening")
	}
	intruder := func(t *testing.T, name, dir string) *process {
		return launch(t, name, secret, append(m.args(), "-bind", "127.0.0.1:0", "-state-dir", dir)...)
	}

	t.Run("in use", func(t *testing.T) {
		p := intruder(t, "d", m.stateDir("a"))
		refused(t, p, m.stateDir("a"), "in use", "stop the other process, or give each node a directory of its own")
	})
	m.procs["c"].kill()
	before, err := os.ReadFile(state("c"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("of another name", func(t *testing.T) {
		p := intruder(t, "d", m.stateDir("c"))
		refused(t, p, state("c"), `it is of node "c"; expected node "d"`, "give each node a directory of its own, or give node and mesh their former names")
	})
	t.Run("of another mesh", func(t *testing.T) {
		p := launch(t, "c", secret, append(m.args(), "-bind", "127.0.0.1:0", "-state-dir", m.stateDir("c"), "-mesh", "another")...)
		refused(t, p, state("c"), `it is of mesh "default", node "c"; expected mesh "another"`)
	})
	if after, err := os.ReadFile(state("c")); err != nil || string(after) != string(before) {
		t.Errorf("a state that was refused has been written to, or is gone (%v)", err)
	}
	t.Run("garbage", func(t *testing.T) {
		if err := os.WriteFile(state("c"), []byte("garbage\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, m.start("c", m.addrs["c"]), state("c"), "can't be trusted", `it begins with "garbage"`,
			"remove it: the node then comes back as a new peer and is voted in again", "don't put an old copy back")
	})
	t.Run("a part has changed", func(t *testing.T) {
		if err := os.WriteFile(state("c"), []byte(strings.Replace(string(before), `"c"`, `"x"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, m.start("c", m.addrs["c"]), state("c"), "can't be trusted", "a part of it has changed")
	})
}

// The founders bootstrap the electorate all together, or not at all: most of them may be a mesh
// founded before, with lost directories.
func TestMostFoundersDontFound(t *testing.T) {
	t.Parallel()
	m := newMesh(t, abc)
	m.dirs = t.TempDir()
	found := []*process{m.start("a", m.addrs["a"], "-bootstrap"), m.start("b", m.addrs["b"], "-bootstrap")}
	waitFor := func(p *process, missing string) {
		t.Helper()
		p.await("waits for "+missing, func(l line) bool {
			return l.Event == "electorate" && l.Version == 0 && l.Text == "waits for all founders; missing: "+missing
		})
	}
	for _, p := range found {
		waitFor(p, "c (not reached)")
	}
	c := m.start("c", m.addrs["c"]) // without the flag to bootstrap
	for _, p := range found {
		waitFor(p, "c (started without Bootstrap)")
		p.tell("trylock k")
		says(t, p.awaitError("trylock", "noquorum").Text, "waits for all founders; missing: c (started without Bootstrap)")
	}
	c.tell("trylock k")
	says(t, c.awaitError("trylock", "noquorum").Text, "no electorate is known")
	c.kill()
	for _, p := range append(found, c) {
		p.none("ready")
		p.none("granted")
	}
	m.start("c", m.addrs["c"], "-bootstrap")
	for _, name := range abc {
		if e := m.procs[name].awaitElectorate(abc...); e.Version != 1 {
			t.Errorf("%s tells of version %d, want 1", name, e.Version)
		}
		granted := m.procs[name].lock("k")
		m.procs[name].tell("unlock k")
		m.procs[name].awaitEvent("released", "k")
		t.Logf("%s has had token %d", name, granted.Token)
	}
}

// Founders that still have Bootstrap set log a warning, now and at each start.
func TestFoundLeftInTheConfigurationWarns(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	warning := []string{"level=WARN", "BOOTSTRAP IS STILL SET", "remove Bootstrap from this node's configuration"}
	for _, name := range abc {
		m.procs[name].awaitLog(append(warning, "name="+name)...)
	}
	m.procs["c"].kill()
	c := m.start("c", m.addrs["c"], "-bootstrap")
	c.awaitLog(append(warning, "name=c")...)
	c.awaitElectorate(abc...)
	c.kill()
	c = m.start("c", m.addrs["c"])
	c.awaitElectorate(abc...)
	c.awaitVoter("c", "reachable")
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.log.String(), "BOOTSTRAP IS STILL SET") {
		t.Error("a node that isn't told to found is warned nevertheless")
	}
}

// In a mesh all electorates are dynamic, or all are fixed.
func TestAFixedNodeIsRefusedByADynamicMesh(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	a := m.procs["a"]
	a.lock("held throughout")
	x := launch(t, "x", secret, append(m.args(), "-bind", "127.0.0.1:0")...)
	x.tell("lock k")
	// Two voters are a majority.
	says(t, x.awaitError("lock", "refused").Text, "the electorate is dynamic at ", " and is fixed at x")
	for _, name := range abc {
		x.awaitLog("is fixed at x", "is dynamic at "+name)
		m.procs[name].awaitLog("is fixed at x", "is dynamic at "+name)
	}
	x.none("granted")
	x.none("ready")
	a.renewed("held throughout", 5)
	a.tell("use held throughout")
	a.awaitEvent("used", "held throughout")
	a.none("lost")
}
