package fault

// Kind is one kind of fault.
type Kind uint8

// The faults.
const (
	// Crash crashes a process and restarts it at once, soon or late.
	Crash Kind = iota
	// CrashAll crashes all processes and restarts them at once or in turn.
	CrashAll
	// Rolling restarts the processes one after the other.
	Rolling
	// Stop stops a process, or all of them, for a while.
	Stop
	// Suspend suspends a machine, or all of them, for a while.
	Suspend
	// Unseen pauses a virtual machine without any clock showing the pause. For runs with
	// sim.Options.TokensOnly.
	Unseen
	// Split partitions the hosts symmetrically in two.
	Split
	// OneWay blocks the messages in one direction between two parts.
	OneWay
	// Bridge makes two parts, connected only through a single node.
	Bridge
	// Isolate cuts a node off from all others.
	Isolate
	// Link cuts the link between two nodes, in a single direction or both.
	Link
	// Break breaks a connection.
	Break
	// Stall holds up the messages from an end of a connection, perhaps beyond the TTL, and
	// then delivers them.
	Stall
	// Slow makes the link between two nodes slow.
	Slow
	// Wall steps a wall clock by up to [Mix].WallSteps, as much as several hours.
	Wall
	// Duplicate makes a process of a non-voting node appear dead and starts a duplicate process
	// under the same name; then the first process goes on, and later the first or the second ends
	// for good.
	Duplicate
	// Rate changes the rate of a machine's clocks, within the bound.
	Rate
	// Beyond changes the rate of a machine's clocks, far beyond the bound. For runs with
	// sim.Options.TokensOnly.
	Beyond
	// Ring lets each node reach only its two neighbours in a ring.
	Ring
	// Flap makes and heals a partition in two, again and again.
	Flap
	// Full makes an end of a connection read nothing, until the peer's queue overflows and the
	// connection ends.
	Full
	// Refuse makes a voter refuse a node's dials, as if their configurations differed.
	Refuse
	// Gossip makes gossip lie to a node about a voter: gossip reports the voter as back when
	// the voter isn't, names another machine's address, and is silent when the voter does come
	// back. Gossip can do no worse: a death reported by gossip changes nothing (see protocol.md).
	Gossip
	// Ambush crashes a process when the process next sends or receives a message of a certain
	// kind, before or after the message is handled.
	Ambush

	// The following faults are for worlds with dynamic membership.

	// Wipe crashes a process and restarts it with an empty directory.
	Wipe
	// Gone crashes a process for good.
	Gone
	// Leave makes a node leave the electorate and end, and restarts the node later.
	Leave
	// Disk makes a disk unwritable for a while.
	Disk
	// Accuse makes a node's gossip report all other nodes as failed for a while.
	Accuse
	// Proposal makes a voter, or two voters, propose some of the running nodes as the next
	// voters, as if gossip had suggested so.
	Proposal
	// Targeted waits for a step of a change of the electorate and injects a fault at that
	// moment: see the nemesis of package sim.
	Targeted
	// Gray blocks TCP between a node and some or all of the others, for longer than an absent
	// voter keeps its vote, while gossip still sees the node.
	Gray

	// The following faults are for worlds of a mesh that is born by count.

	// Begin starts another process, which may reach no other for a while.
	Begin
	// End ends a process for good.
	End
	// Rollout replaces one process after the other by another.
	Rollout
	// Apart cuts off the processes that know no electorate from those that know one.
	Apart
	// Zone loses every third host at once: either these hosts are cut off from the others for a
	// while, or their processes end for good, and others are started elsewhere.
	Zone
	// Register keeps the calls of some hosts, or of all, from the register for a while.
	Register
	// Misconfigure restarts a NonVoting process with a fixed list of voters of its own for a while.
	// At first the process reaches no other, and then one after the other.
	Misconfigure

	// Kinds is how many kinds there are. Counted is the first kind for meshes that are born by
	// count only, and Dynamic the first for dynamic membership only.
	Kinds
	Counted = Begin
	Dynamic = Wipe
)

// names are each fault's name in words and its identifier in Go.
var names = [Kinds]struct{ words, ident string }{
	{"crash", "Crash"},
	{"crash all", "CrashAll"},
	{"rolling restart", "Rolling"},
	{"stop", "Stop"},
	{"suspend", "Suspend"},
	{"pause unseen", "Unseen"},
	{"split", "Split"},
	{"one-way cut", "OneWay"},
	{"bridge", "Bridge"},
	{"isolate", "Isolate"},
	{"cut link", "Link"},
	{"break", "Break"},
	{"stall", "Stall"},
	{"slow link", "Slow"},
	{"wall step", "Wall"},
	{"duplicate", "Duplicate"},
	{"rate change", "Rate"},
	{"rate beyond", "Beyond"},
	{"ring", "Ring"},
	{"flapping split", "Flap"},
	{"full queue", "Full"},
	{"refused dial", "Refuse"},
	{"gossip lies", "Gossip"},
	{"ambush", "Ambush"},
	{"wipe", "Wipe"},
	{"loss for good", "Gone"},
	{"leave", "Leave"},
	{"broken disk", "Disk"},
	{"accusation", "Accuse"},
	{"proposal", "Proposal"},
	{"targeted at a change", "Targeted"},
	{"gray node", "Gray"},
	{"another process", "Begin"},
	{"end of a process", "End"},
	{"rollout", "Rollout"},
	{"newcomers apart", "Apart"},
	{"loss of a zone", "Zone"},
	{"register away", "Register"},
	{"misconfigured process", "Misconfigure"},
}

func (f Kind) String() string { return names[f].words }

// GoName returns the fault's identifier in Go.
func (f Kind) GoName() string { return names[f].ident }

// StreamName returns the fault's name in the names of random streams. The name stays the same when
// the identifier changes, since another stream would draw other worlds from the same seeds.
func (f Kind) StreamName() string {
	switch f {
	case Duplicate:
		return "Twin"
	case Targeted:
		return "Strike"
	default:
		return f.GoName()
	}
}

// IsOfDynamic reports whether the fault occurs only in worlds with dynamic membership.
func (f Kind) IsOfDynamic() bool { return f >= Dynamic && f < Counted }

// IsOfByCount reports whether the fault occurs only in worlds of a mesh that is born by count.
func (f Kind) IsOfByCount() bool { return f >= Counted }
