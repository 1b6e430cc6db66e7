//go:build hunt

package proctest

import (
	"strings"
	"testing"
	"time"
)

// The maximum TTL of three processes with state directories is raised and lowered again: each
// process is restarted with the new value as soon as the process before is settled. Meanwhile all
// processes take the same lock over and over, and each process holds a lease of its own except
// while it is restarted. No lease is lost, and no process waits for a lock for over a second longer
// than the machine itself stood still.
func TestMaxTTLIsChangedUnderLoad(t *testing.T) {
	names := []string{"a", "b", "c"}
	m := newMesh(t, names, "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
	m.dirs = t.TempDir()
	r := &rolling{mesh: m, machine: watchMachine(t)}
	for _, name := range names {
		r.launch(name, "-bootstrap")
	}
	began := r.underLoad()
	for _, maxTTL := range []time.Duration{3 * rollTTL, rollTTL} {
		start := time.Now()
		for _, name := range names {
			p := m.procs[name]
			p.tell("unlock " + kept(name))
			p.awaitEvent("released", kept(name))
			p.tell("stop")
			if code := p.exitCode(); code != 0 {
				t.Errorf("%s ends with code %d, want 0", name, code)
			}
			p = r.launch(name, "-max-ttl", maxTTL.String())
			p.reached("settled")
			p.lock(kept(name))
		}
		// a is restarted first, so a is there when the voters decide.
		m.procs["a"].onLog("the other MaxTTL", func(text string) bool {
			return strings.Contains(text, "the electorate has changed") && strings.Contains(text, "joint=false") && strings.Contains(text, "max_ttl="+maxTTL.String())
		})
		t.Logf("a MaxTTL of %v counts after %v", maxTTL, time.Since(start).Round(time.Millisecond))
	}
	r.judge(began)
}
