//go:build hunt

package proctest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Three processes with a fixed list of voters get dynamic membership by two rolling restarts, under
// load. Their first version is this one, or the one before conversions, so that the first restart
// brings the new version, too.
func TestAFixedMeshIsConvertedUnderLoad(t *testing.T) {
	for name, first := range map[string]string{"of this version": program, "of the version before": buildOf(t, versionWithoutConversions)} {
		t.Run(name, func(t *testing.T) { convertUnderLoad(t, first) })
	}
}

// convertUnderLoad starts fixed processes of a program. Each is restarted as soon as the one before
// is settled, while all of them take one lock over and over, and each but the one that is restarted
// holds a lease. No lease is lost, and no lock is unserved for over a second more than the machine
// itself was. Then two others are voted in.
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

// A node with dynamic membership of the version before doesn't know of conversions: it takes a
// converting node for a fixed one, and each refuses the other and says why.
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
