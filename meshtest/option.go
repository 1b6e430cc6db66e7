package meshtest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Option changes what [New] and [Run] start.
type Option func(*options)

type options struct {
	names   []string
	voters  int
	maxTTL  time.Duration
	latency time.Duration
	edit    func(*lockmesh.Config)
	follow  bool
}

// Names names the nodes, one for each. The default is "a", "b", "c" and so on.
func Names(names ...string) Option {
	names = slices.Clone(names)
	return func(o *options) { o.names = names }
}

// Voters makes the first so many nodes voters. The default is all of them.
func Voters(n int) Option { return func(o *options) { o.voters = n } }

// MaxTTL sets the MaxTTL of all nodes. The default is [lockmesh.DefaultMaxTTL]. In simulated time a longer one costs nothing; in real time a new
// mesh waits for as long, and [lockmesh.MinTTL] is too short for a busy machine: take a second.
func MaxTTL(d time.Duration) Option { return func(o *options) { o.maxTTL = d } }

// Latency is how long each message travels, one way. The default is 0: in simulated time what nodes say then takes no time at all.
func Latency(d time.Duration) Option { return func(o *options) { o.latency = d } }

// FollowsTheLiving makes the electorate one that follows the living: nodes that have crashed are voted out after three MaxTTL, and others are voted in. The
// first nodes, as many as Voters says, found it. Each node has a state directory in memory, which outlasts its lives; see [Mesh.Wipe].
func FollowsTheLiving() Option { return func(o *options) { o.follow = true } }

// Configure has each node's configuration edited before each start: its TTL, say, or its Logger, which discards everything unless one is
// set. Name, Bind, Advertise, Peers, Voters, StateDir, Found, MaxTTL and Clock must stay as they are, since the mesh in memory rests on them.
func Configure(edit func(*lockmesh.Config)) Option { return func(o *options) { o.edit = edit } }

// newOptions checks what was asked for.
func newOptions(t testing.TB, n int, opts []Option) options {
	t.Helper()
	if n < 1 || n > maxNodes {
		t.Fatalf("meshtest: a mesh of %d nodes; ask for 1 to %d", n, maxNodes)
	}
	o := options{names: namesOf(n), voters: n, maxTTL: lockmesh.DefaultMaxTTL, edit: func(*lockmesh.Config) {}}
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case len(o.names) != n:
		t.Fatalf("meshtest: Names has %d names for %d nodes; give each node one", len(o.names), n)
	case o.voters < 1 || o.voters > n:
		t.Fatalf("meshtest: Voters(%d) of %d nodes; 1 to %d can vote", o.voters, n, n)
	case o.latency < 0:
		t.Fatalf("meshtest: Latency(%v) is negative; messages don't arrive before they are sent", o.latency)
	case o.edit == nil:
		t.Fatal("meshtest: Configure was given no function; leave it out")
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
