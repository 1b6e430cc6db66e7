package meshtest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Option changes the mesh that [New] and [Run] start.
type Option func(*options)

type options struct {
	names     []string
	voters    int
	maxTTL    time.Duration
	latency   time.Duration
	configure func(*lockmesh.Config)
	dynamic   bool
}

// WithNames sets the nodes' names, one for each. The default is "a", "b", "c" and so on.
func WithNames(names ...string) Option {
	names = slices.Clone(names)
	return func(o *options) { o.names = names }
}

// WithVoters makes the first n nodes voters. The default is all nodes.
func WithVoters(n int) Option { return func(o *options) { o.voters = n } }

// WithMaxTTL sets the MaxTTL of all nodes. The default is [lockmesh.DefaultMaxTTL]. In simulated
// time a longer MaxTTL costs nothing; in real time a new mesh waits for MaxTTL, and
// [lockmesh.MinTTL] is too short for a busy machine: take a second.
func WithMaxTTL(d time.Duration) Option { return func(o *options) { o.maxTTL = d } }

// WithLatency sets how long each message travels, one way. The default is 0: in simulated time
// messages then take no time at all.
func WithLatency(d time.Duration) Option { return func(o *options) { o.latency = d } }

// WithDynamicMembership gives the electorate dynamic membership: crashed nodes are voted out after
// three MaxTTL, and others are voted in. The first nodes, as many as set by WithVoters, bootstrap
// the electorate. Each node has a state directory in memory, which survives its incarnations; see
// [Mesh.Wipe].
func WithDynamicMembership() Option { return func(o *options) { o.dynamic = true } }

// WithConfig sets a function to edit each node's configuration before each start: its TTL, say, or
// its Logger, which by default discards all records. Name, Bind, Advertise, Peers, Voters,
// StateDir, Bootstrap, MaxTTL and Clock must stay unchanged, since the mesh in memory depends on
// them.
func WithConfig(edit func(*lockmesh.Config)) Option { return func(o *options) { o.configure = edit } }

// newOptions applies and validates the options.
func newOptions(t testing.TB, n int, opts []Option) options {
	t.Helper()
	if n < 1 || n > maxNodes {
		t.Fatalf("meshtest: a mesh of %d nodes; ask for 1 to %d", n, maxNodes)
	}
	o := options{names: namesOf(n), voters: n, maxTTL: lockmesh.DefaultMaxTTL, configure: func(*lockmesh.Config) {}}
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case len(o.names) != n:
		t.Fatalf("meshtest: WithNames has %d names for %d nodes; give each node one", len(o.names), n)
	case o.voters < 1 || o.voters > n:
		t.Fatalf("meshtest: WithVoters(%d) of %d nodes; 1 to %d can vote", o.voters, n, n)
	case o.latency < 0:
		t.Fatalf("meshtest: WithLatency(%v) is negative; messages don't arrive before they are sent", o.latency)
	case o.configure == nil:
		t.Fatal("meshtest: WithConfig was given no function; leave it out")
	}
	for i, name := range o.names {
		if slices.Contains(o.names[:i], name) {
			t.Fatalf("meshtest: two nodes are called %q; a name is one node's alone", name)
		}
	}
	return o
}

// namesOf returns "a" to "z", "aa" to "az", and so on.
func namesOf(n int) []string {
	names := make([]string, n)
	for i := range names {
		for j := i; j >= 0; j = j/26 - 1 {
			names[i] = string(rune('a'+j%26)) + names[i]
		}
	}
	return names
}
