package plan

import "time"

// Scenario is the mesh that an operator asks about. The tags are the reference: defaults, bounds
// and the table in docs/planning.md come from the tags.
type Scenario struct {
	Comment string  `json:"comment" doc:"free text, printed with the figures"`
	Voters  int     `json:"voters" min:"0" max:"25" default:"0" doc:"nodes that vote and lock, named a, b, c…; or list the nodes in groups"`
	Others  int     `json:"others" min:"0" max:"50" default:"0" doc:"nodes that only lock, named x1, x2…"`
	Groups  []Group `json:"groups" doc:"instead of voters and others: nodes by place, such as rack, site or region"`
	LockOn  string  `json:"lock_on" oneof:"all others voters" default:"all" doc:"which nodes take locks: all, only the others, or only the voters"`

	MaxTTL Duration `json:"max_ttl" min:"200ms" max:"24h" default:"10s" doc:"MaxTTL of the mesh: a restarted voter is quiet for so long"`
	TTL    Duration `json:"ttl" min:"200ms" max:"24h" default:"" otherwise:"max_ttl" doc:"TTL of every node: how long leases outlive their node's last message"`

	Link  Link       `json:"link" doc:"the network between two nodes without an entry in links"`
	Links []PairLink `json:"links" doc:"the network between two groups, or within a group"`

	Clocks     Clocks     `json:"clocks" doc:"the errors of the nodes' clocks"`
	Crashes    Crashes    `json:"crashes" doc:"processes that crash and lose their memory"`
	Partitions Partitions `json:"partitions" doc:"splits of the mesh into parts that don't reach each other"`
	Pauses     Pauses     `json:"pauses" doc:"processes that don't run for a while: garbage collection, a busy machine, a signal"`

	Load     Load     `json:"load" doc:"the lock requests of your application"`
	Probe    Probe    `json:"probe" doc:"how availability is measured: each node requests a free lock of its own"`
	Posts    Posts    `json:"posts" doc:"how take-over and hand-over are measured: locks that always have a holder and waiters"`
	Simulate Simulate `json:"simulate" doc:"the simulated time, the number of worlds and the seed"`
}

// Group is a set of nodes at one place.
type Group struct {
	Name   string `json:"name" need:"yes" doc:"lower-case letters, digits and dashes, 20 at most. Its nodes are name-1, name-2…, voters first"`
	Voters int    `json:"voters" min:"0" max:"25" default:"0" doc:"nodes that vote and lock"`
	Others int    `json:"others" min:"0" max:"50" default:"0" doc:"nodes that only lock"`
}

// Link describes the delays, losses and outages between two nodes, each way.
type Link struct {
	Median Duration `json:"median" min:"1us" max:"1s" default:"" otherwise:"must be given for every pair of nodes" doc:"half of the messages take less than this time, one way"`
	P99    Duration `json:"p99" min:"1us" max:"10s" default:"" otherwise:"twice the median" doc:"99 of 100 messages take less. Between the median and p99, and beyond, delays are log-normal. Equal to the median: all messages take the median"`
	Least  Duration `json:"least" min:"1us" max:"1s" default:"" otherwise:"half of the median" doc:"no message takes less"`
	Loss   float64  `json:"loss" min:"0" max:"0.5" default:"0" doc:"share of messages that are lost and sent again by TCP: after 200 ms or four medians, whichever is more, and then after twice as long each time"`
	Outage Outage   `json:"outage" doc:"times in which no message passes between two nodes, for each pair by itself"`
}

// PairLink is a Link between two groups.
type PairLink struct {
	Between []string `json:"between" need:"yes" doc:"two names of groups; the same name twice: within this group"`
	Link
}

// Outage states how often, and for how long, a pair of nodes is cut off from each other.
type Outage struct {
	Every Duration `json:"every" min:"100ms" max:"87600h" zero:"never" default:"0s" doc:"mean time between two outages; 0s: never"`
	Last  Duration `json:"last" min:"1ms" max:"24h" default:"1s" doc:"mean length of an outage"`
}

// Clocks states the errors of the clocks.
type Clocks struct {
	PPM  int      `json:"ppm" min:"0" max:"5000" default:"50" doc:"maximum error of a clock's rate, in parts per million; each node's error is drawn at random. Beyond 5000 (0.5 %) exclusion isn't promised"`
	Wall Duration `json:"wall" min:"0s" max:"24h" default:"10ms" doc:"maximum error of a wall clock, either way; each node's error is drawn at random. Between two corrections, every 64 s, the clock also drifts by its rate's error"`
}

// Crashes states how often processes crash.
type Crashes struct {
	Every     Duration `json:"every" min:"1s" max:"87600h" zero:"never" default:"0s" doc:"mean time between two crashes of a node; 0s: never"`
	Return    Duration `json:"return" min:"0s" max:"720h" default:"10s" doc:"mean time from a crash to the start of a new process"`
	StaysDown float64  `json:"stays_down" min:"0" max:"1" default:"0" doc:"share of crashes in which the machine is lost, too"`
	Replaced  Duration `json:"replaced" min:"1s" max:"8760h" default:"4h" doc:"mean time after which a lost machine is replaced, under its old name"`
}

// Partitions states how often the mesh splits.
type Partitions struct {
	Every Duration `json:"every" min:"1s" max:"87600h" zero:"never" default:"0s" doc:"mean time between two partitions, in the whole mesh; 0s: never"`
	Last  Duration `json:"last" min:"1ms" max:"720h" default:"30s" doc:"mean length of a partition"`
	Shape string   `json:"shape" oneof:"node group random" default:"node" doc:"node: a random node is cut off from all other nodes; group: a random group is cut off; random: each node goes to one of two sides at random"`
}

// Pauses states how often processes are stopped.
type Pauses struct {
	Every Duration `json:"every" min:"100ms" max:"87600h" zero:"never" default:"0s" doc:"mean time between two pauses of a node; 0s: never"`
	Last  Duration `json:"last" min:"1ms" max:"24h" default:"200ms" doc:"mean length of a pause"`
}

// Load is the application's use of locks.
type Load struct {
	Clients int      `json:"clients" min:"0" max:"50" default:"1" doc:"clients on each node that takes locks"`
	Keys    int      `json:"keys" min:"1" max:"200" default:"10" doc:"keys for which the clients contend, all equally likely"`
	Hold    Duration `json:"hold" min:"0s" max:"24h" default:"1s" doc:"mean time for which a lock is held"`
	Think   Duration `json:"think" min:"1ms" max:"24h" default:"20s" doc:"mean time from a release to the next request"`
}

// Probe states how availability is measured.
type Probe struct {
	Every  Duration `json:"every" min:"10ms" max:"1h" default:"1s" doc:"time between two probes of a node"`
	Within Duration `json:"within" min:"1ms" max:"1h" default:"" otherwise:"probe.every" doc:"a probe that is granted later has failed; at most probe.every"`
}

// Posts states how take-over and hand-over are measured.
type Posts struct {
	Count int      `json:"count" min:"0" max:"50" default:"" otherwise:"as many as nodes take locks, 8 at most" doc:"number of these locks. Five nodes (or all nodes, if there are fewer) compete for each lock; 0: none"`
	Hold  Duration `json:"hold" min:"1ms" max:"24h" default:"30s" doc:"mean time after which the holder releases the lock to the next waiter"`
}

// Simulate states how much is simulated.
type Simulate struct {
	For    Duration `json:"for" min:"1s" max:"87600h" default:"24h" doc:"measured time, in all worlds together"`
	Worlds int      `json:"worlds" min:"1" max:"1000" default:"8" doc:"number of worlds that share the measured time. Each world starts all nodes anew, and waits until the nodes are ready before measuring and injecting faults"`
	Seed   uint64   `json:"seed" min:"0" max:"18446744073709551615" default:"1" doc:"the same seed gives the same figures"`
}

// Duration is a time.Duration given in a file as a string, such as "30ms" or "1h30m".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// unset stands for a missing value with a default that depends on other fields; see
// Scenario.complete.
const unset = -1

// Bounds on all fields together.
const (
	nodesMost  = 50
	groupsMost = 20
	linksMost  = groupsMost * (groupsMost + 1) / 2
	probesMost = 20_000_000 // the probes' delays are kept until the end: 160 MB
	candidates = 5          // nodes that compete for a post
	postsMost  = 8          // by default
)
