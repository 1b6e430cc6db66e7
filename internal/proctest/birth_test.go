package proctest

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

// fleet is a mesh of processes without directories, born by count.
type fleet struct {
	*mesh
	maxTTL time.Duration
}

func newFleet(t *testing.T, maxTTL time.Duration, extra ...string) *fleet {
	t.Helper()
	return &fleet{newMesh(t, nil, extra...), maxTTL}
}

// begin starts further processes. Each gets the addresses of all processes before it.
func (f *fleet) begin(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.admit(name)
		var peers []string
		for _, n := range f.nodes {
			peers = append(peers, f.addrs[n])
		}
		args := []string{"-expect", "3", "-max-ttl", f.maxTTL.String(), "-bind", f.addrs[name], "-peers", strings.Join(peers, ",")}
		f.procs[name] = launchProgram(f.t, cmp.Or(f.runs, program), name, secret, append(args, f.extra...)...)
	}
}

// serves waits until processes can lock, each in turn, and returns the last lease.
func (f *fleet) serves(names ...string) (last line) {
	f.t.Helper()
	for _, name := range names {
		l := f.procs[name].lock("k")
		if last.Token != 0 {
			larger(f.t, l, last)
		}
		last = l
		f.procs[name].tell("unlock k")
		// On a busy machine a lease of a few seconds may end before the release.
		f.procs[name].await("the end of the lease", func(l line) bool { return l.Key == "k" && (l.Event == "released" || l.Event == "lost") })
	}
	return last
}

// Three processes without directories found a mesh. A voter is killed, and a new process takes the
// seat.
func TestABornMeshReplacesAKilledVoter(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4*time.Second)
	f.begin("a", "b", "c")
	for _, name := range abc {
		f.procs[name].awaitElectorate(abc...)
	}
	before := f.serves("a", "b", "c")
	f.begin("d")
	f.procs["d"].reached("ready")
	f.procs["a"].kill()
	for _, name := range []string{"b", "c", "d"} {
		f.procs[name].awaitElectorate("b", "c", "d")
	}
	larger(t, f.serves("d", "b", "c"), before)
}
