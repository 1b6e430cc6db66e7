//go:build hunt

package proctest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Three processes with a fixed list of voters get dynamic membership by two rolling restarts under
// load. The processes first run either this version or the version before conversions; in the
// latter case the first restart also brings the new version.
func TestAFixedMeshIsConvertedUnderLoad(t *testing.T) {
	for name, first := range map[string]string{"of this version": program, "of the version before": buildOf(t, versionWithoutConversions)} {
		t.Run(name, func(t *testing.T) { convertUnderLoad(t, first) })
	}
}

// convertUnderLoad starts processes of a program with a fixed list, and restarts each as soon as
// the process before is settled. Meanwhile all processes take the same lock over and over, and each
// process holds a lease of its own except while it is restarted. No lease is lost, and no process
// waits for a lock for over a second longer than the machine itself stood still. Then two more
// nodes are voted in.
func convertUnderLoad(t *testing.T, first string) {
	m := newMesh(t, slices.Clone(abc), "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
	r := &rolling{mesh: m, machine: watchMachine(t)}
	m.runs = first
	for _, name := range abc {
		r.launch(name)
	}
	began := r.underLoad()
	m.runs, m.dirs = program, t.TempDir()
	for _, more := range [][]string{{"-from-fixed"}, nil} {
		start := time.Now()
		for _, name := range abc {
			p := m.procs[name]
			p.tell("unlock " + kept(name))
			p.awaitEvent("released", kept(name))
			p.tell("stop")
			if code := p.exitCode(); code != 0 {
				t.Errorf("%s ends with code %d, want 0", name, code)
			}
			p = r.launch(name, more...)
			p.reached("settled")
			p.lock(kept(name))
		}
		t.Logf("all are restarted with %q after %v", more, time.Since(start).Round(time.Millisecond))
	}
	for _, name := range []string{"d", "e"} {
		m.admit(name)
		r.launch(name).reached("settled")
	}
	m.procs["a"].onLog("five voters", func(text string) bool {
		return strings.Contains(text, "the electorate has changed") && strings.Contains(text, "joint=false") && strings.Contains(text, `voters="[a b c d e]"`)
	})
	for _, name := range []string{"d", "e"} {
		m.procs[name].tell("close")
	}
	r.judge(began)
}

// The version before conversions takes a converting node for a node with a fixed list. So a dynamic
// node of the old version and a converting node refuse each other, and both log the reason.
func TestTheVersionBeforeAndAConvertingMesh(t *testing.T) {
	before := buildOf(t, versionWithoutConversions)
	m := newMesh(t, slices.Clone(abc), "-max-ttl", "2s")
	m.dirs = t.TempDir()
	m.nodes = append(m.nodes, "x")
	for _, name := range abc {
		m.start(name, m.addrs[name], "-from-fixed")
	}
	m.procs["a"].reached("settled")
	m.runs = before
	x := m.start("x", "127.0.0.1:0")
	for _, p := range []*process{m.procs["a"], x} {
		p.onLog("the refusal", func(text string) bool {
			return strings.Contains(text, "the electorate") && strings.Contains(text, "is fixed") && strings.Contains(text, "is dynamic")
		})
	}
	x.tell("trylock k")
	x.awaitError("trylock", "noquorum")
	a := m.procs["a"]
	a.lock("k")
}
