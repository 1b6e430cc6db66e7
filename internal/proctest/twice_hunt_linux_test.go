//go:build hunt

package proctest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A second process starts under a voter's name while the first process is cut off together with a
// holder: a virtual machine fails over. By a fixed list both sides have a majority, and a key has
// two holders: as the README states, unique names are an assumption. When the two processes meet,
// the newer withdraws at once, both log since when locks may have had two holders, and the older
// side goes on undisturbed.
func TestANameStartedTwiceOverACut(t *testing.T) {
	t.Parallel()
	const a, b, c, other = 1, 2, 3, 4
	h := newNetwork(t)
	args := []string{"-voters", strings.Join(abc, ","), "-peers", addresses(4), "-max-ttl", ttl.String()}
	first := map[string]*process{"a": h.launch(a, "a", args...), "b": h.launch(b, "b", args...), "c": h.launch(c, "c", args...)}
	for _, name := range abc {
		first[name].reached("ready")
	}
	held := first["a"].lock("k")

	h.split([]byte{a, c}, []byte{b, other})
	second := h.launch(other, "c", args...)
	second.reached("ready")
	twice := first["b"].lock("k")
	first["a"].forget()
	if at := first["a"].renewed("k", 3); !at.After(twice.At) {
		t.Errorf("a's lease ended at %v, and b was granted the key at %v: the test wants to see what a name that runs twice costs", at, twice.At)
	}

	h.heal()
	second.awaitLog("this process withdraws", "may have had two holders")
	first["c"].awaitLog("may have had two holders")
	second.tell("lock another")
	if text := second.awaitError("lock", "refused").Text; !strings.Contains(text, `is called "c" too`) {
		t.Errorf("a call of the newer process says: %s", text)
	}
	first["b"].await("the end of b's lease", func(l line) bool { return l.Event == "lost" && l.Key == "k" })
	first["a"].forget()
	first["a"].renewed("k", 3)
	first["a"].tell("use k")
	if used := first["a"].awaitEvent("used", "k"); used.Token != held.Token {
		t.Errorf("a uses its lease with token %d; it was granted with %d", used.Token, held.Token)
	}
	first["a"].none("lost")
	first["c"].none("lost")

	// The second process of the name ends, as the alarm demands, and the mesh is as before.
	second.kill()
	first["a"].tell("unlock k")
	first["a"].awaitEvent("released", "k")
	larger(t, first["b"].lock("k"), held)
}

// The same cut with state directories: a voter is a name and a directory, so the second process is
// no voter, and its side grants nothing.
func TestANameStartedTwiceOverACutWithDirectories(t *testing.T) {
	t.Parallel()
	const a, b, c, other = 1, 2, 3, 4
	h, dirs := newNetwork(t), t.TempDir()
	start := func(n byte, name, dir string, more ...string) *process {
		args := []string{"-voters", strings.Join(abc, ","), "-peers", addresses(4), "-max-ttl", ttl.String(), "-state-dir", filepath.Join(dirs, dir)}
		return h.launch(n, name, append(args, more...)...)
	}
	first := map[string]*process{"a": start(a, "a", "a", "-bootstrap"), "b": start(b, "b", "b", "-bootstrap"), "c": start(c, "c", "c", "-bootstrap")}
	for _, name := range abc {
		first[name].awaitElectorate(abc...)
		first[name].reached("ready")
	}
	held := first["a"].lock("k")

	h.split([]byte{a, c}, []byte{b, other})
	second := start(other, "c", "elsewhere")
	second.reached("listening")
	first["b"].awaitVoter("a", "unreachable")
	first["b"].tell("lock k")
	// Nothing may happen within a time longer than a new voter's startup quarantine and a lease.
	time.Sleep(5 * ttl)
	first["b"].tell("trylock k")
	first["b"].awaitError("trylock", "noquorum")
	second.none("ready")
	second.none("granted")
	first["b"].none("granted")
	first["a"].renewed("k", 3)

	h.heal()
	first["a"].tell("unlock k")
	first["a"].awaitEvent("released", "k")
	larger(t, first["b"].awaitEvent("granted", "k"), held)
	first["a"].none("lost")
}
