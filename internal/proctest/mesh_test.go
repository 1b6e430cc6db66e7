package proctest

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
)

// ttl is the MaxTTL and TTL of the meshes here, unless a test sets another: no lease may be lost
// when the machine is so busy that a process doesn't run for seconds.
const ttl = 10 * time.Second

const secret = "0123456789abcdef of these tests"

// mesh is a set of processes with knowledge of each other's addresses.
type mesh struct {
	t     *testing.T
	names []string // the voters; with dynamic membership the founders
	nodes []string // the nodes listed as peers of each started process
	addrs map[string]string
	procs map[string]*process
	extra []string // further arguments of all processes
	dirs  string   // parent of the state directories; empty: the electorate is fixed
	runs  string   // the locknode to start; empty: of this version
}

// startMesh starts a mesh of the named voters on ports of their own.
func startMesh(t *testing.T, names []string, extra ...string) *mesh {
	t.Helper()
	m := newMesh(t, names, extra...)
	for _, name := range names {
		m.start(name, m.addrs[name])
	}
	for _, name := range names {
		m.procs[name].reached("listening")
	}
	for _, name := range names {
		m.procs[name].reached("ready")
	}
	return m
}

// newMesh reserves ports for the named voters, without starting the voters.
func newMesh(t *testing.T, names []string, extra ...string) *mesh {
	t.Helper()
	m := &mesh{t: t, names: names, addrs: make(map[string]string), procs: make(map[string]*process), extra: extra}
	for _, name := range names {
		m.admit(name)
	}
	return m
}

// admit gives a node a port, and lists the node as a peer of all processes started later.
func (m *mesh) admit(name string) {
	m.t.Helper()
	m.addrs[name] = freeport.Address(m.t)
	m.nodes = append(m.nodes, name)
}

// args returns the arguments common to all nodes of the mesh, and the addresses of the peers.
func (m *mesh) args() []string {
	var peers []string
	for _, name := range m.nodes {
		peers = append(peers, m.addrs[name])
	}
	args := []string{"-voters", strings.Join(m.names, ","), "-peers", strings.Join(peers, ","), "-max-ttl", ttl.String()}
	return append(args, m.extra...)
}

// start starts a process under a name, in place of the earlier process of this name, and with the
// same state directory if the mesh has directories.
func (m *mesh) start(name, bind string, more ...string) *process {
	m.t.Helper()
	args := append(m.args(), "-bind", bind)
	if m.dirs != "" {
		args = append(args, "-state-dir", m.stateDir(name))
	}
	m.procs[name] = launchProgram(m.t, cmp.Or(m.runs, program), name, secret, append(args, more...)...)
	return m.procs[name]
}

// end tells processes to end by a command, and waits until they have ended well.
func (m *mesh) end(command string, names ...string) {
	m.t.Helper()
	for _, name := range names {
		m.procs[name].tell(command)
	}
	for _, name := range names {
		if code := m.procs[name].exitCode(); code != 0 {
			m.t.Errorf("%s ends with code %d, want 0", name, code)
		}
	}
}

// stateDir returns the state directory of a node.
func (m *mesh) stateDir(name string) string { return filepath.Join(m.dirs, name) }

// report logs how long a step took, beside the time promised for an idle machine. report fails
// nothing: a busy machine takes longer, and a hang ends in the wait for the step.
func report(t *testing.T, what string, took, promised time.Duration) {
	t.Helper()
	t.Logf("%s: %v (promised: %v)", what, took.Round(100*time.Microsecond), promised)
}

// larger fails the test unless a later lease has the larger token.
func larger(t *testing.T, later, earlier line) {
	t.Helper()
	if later.Token <= earlier.Token {
		t.Errorf("the later lease has token %d, the earlier one %d; tokens must rise", later.Token, earlier.Token)
	}
}

// notBefore fails the test when a lease began before an instant.
func notBefore(t *testing.T, granted line, earliest time.Time, why string) {
	t.Helper()
	if granted.At.Before(earliest) {
		t.Errorf("%s was granted %v too early: %s", granted.Key, earliest.Sub(granted.At), why)
	}
}

var abc = []string{"a", "b", "c"}
