//go:build hunt

package proctest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// another is a second secret of these tests.
const another = "another secret: 7hGq0Zs"

// isComplete reports whether all nodes accept each of the given number of secrets, and all send the
// same secret.
func isComplete(all []secretUse, secrets int, names []string) bool {
	sent := 0
	for _, s := range all {
		if !slices.Equal(s.AcceptedBy, names) {
			return false
		}
		if slices.Equal(s.SentBy, names) {
			sent++
		}
	}
	return len(all) == secrets && sent == 1
}

// The secret of three processes is changed in the three steps of docs/changing-the-secret.md, under
// load: no lease is lost, and no process waits for a lock for over a second. Then a process with
// the new secret joins, and a process with the old secret doesn't. The processes are of this
// version, or of this version and the version before.
func TestTheSecretIsChangedUnderLoad(t *testing.T) {
	newest, _ := versionBefore(t)
	before := buildOf(t, newest)
	t.Run("one version", func(t *testing.T) { changeTheSecret(t, program) })
	t.Run("two versions", func(t *testing.T) { changeTheSecret(t, before) })
}

// changeTheSecret changes the secret of three processes, of which the first runs another program
// than the rest.
func changeTheSecret(t *testing.T, first string) {
	m := newMesh(t, abc, "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
	r := &rolling{mesh: m, machine: watchMachine(t)}
	m.runs = first
	for _, name := range m.names {
		r.launch(name)
		m.runs = program
	}
	began := r.underLoad()
	older, newer := own(t, secret), own(t, another)
	for _, step := range []string{older + "|" + newer, newer + "|" + older, newer} {
		for _, name := range m.names {
			m.procs[name].tell("secrets " + step)
			m.procs[name].awaitEvent("secrets", "")
		}
		// The next step begins once all nodes report this step as complete everywhere.
		secrets := strings.Count(step, "|") + 1
		for _, name := range m.names {
			limit := time.Now().Add(patience)
			for p := m.procs[name]; ; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("%s doesn't see that the step %s is complete", name, step)
				}
				p.tell("status")
				if isComplete(p.awaitEvent("status", "").Status.Secrets, secrets, m.names) {
					break
				}
			}
		}
	}
	for _, name := range m.names { // each node takes locks by the new secret alone
		for range 20 {
			m.procs[name].awaitEvent("granted", "k")
		}
	}
	stranger := launch(t, "old", secret, append(m.args(), "-bind", "127.0.0.1:0")...)
	stranger.onLog("it is refused", func(text string) bool { return strings.Contains(text, "secret") })
	member := launch(t, "new", another, append(m.args(), "-bind", "127.0.0.1:0")...)
	member.reached("ready")
	stranger.kill()
	member.kill()
	r.judge(began)
}
