package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Fault is one kind of fault.
type Fault uint8

// The faults.
const (
	// FaultCrash crashes a process and restarts it at once, soon or late.
	FaultCrash Fault = iota
	// FaultCrashAll crashes all processes and restarts them at once or in turn.
	FaultCrashAll
	// FaultRolling restarts the processes one after the other.
	FaultRolling
	// FaultStop stops a process, or all of them, for a while.
	FaultStop
	// FaultSuspend suspends a machine, or all of them, for a while.
	FaultSuspend
	// FaultUnseen pauses a virtual machine without any clock showing the pause. For runs with
	// Options.TokensOnly.
	FaultUnseen
	// FaultSplit partitions the hosts symmetrically in two.
	FaultSplit
	// FaultOneWay blocks the messages in one direction between two parts.
	FaultOneWay
	// FaultBridge makes two parts, connected only through a single node.
	FaultBridge
	// FaultIsolate cuts a node off from all others.
	FaultIsolate
	// FaultLink cuts the link between two nodes, in a single direction or both.
	FaultLink
	// FaultBreak breaks a connection.
	FaultBreak
	// FaultStall holds up the messages from an end of a connection, perhaps beyond the TTL, and
	// then delivers them.
	FaultStall
	// FaultSlow makes the link between two nodes slow.
	FaultSlow
	// FaultWall steps a wall clock by up to Faults.WallSteps, as much as several hours.
	FaultWall
	// FaultTwin makes a process of a non-voting node appear dead and starts a duplicate process
	// under the same name; then the first process goes on, and later the first or the second ends
	// for good.
	FaultTwin
	// FaultRate changes the rate of a machine's clocks, within the bound.
	FaultRate
	// FaultBeyond changes the rate of a machine's clocks, far beyond the bound. For runs with
	// Options.TokensOnly.
	FaultBeyond
	// FaultRing lets each node reach only its two neighbours in a ring.
	FaultRing
	// FaultFlap makes and heals a partition in two, again and again.
	FaultFlap
	// FaultFull makes an end of a connection read nothing, until the peer's queue overflows and the
	// connection ends.
	FaultFull
	// FaultRefuse makes a voter refuse a node's dials, as if their configurations differed.
	FaultRefuse
	// FaultGossip makes gossip lie to a node about a voter: gossip reports the voter as back when
	// the voter isn't, names another machine's address, and is silent when the voter does come
	// back. Gossip can do no worse: a death reported by gossip changes nothing (see protocol.md).
	FaultGossip
	// FaultAmbush crashes a process when the process next sends or receives a message of a certain
	// kind, before or after the message is handled.
	FaultAmbush

	// The following faults are for worlds with dynamic membership.

	// FaultWipe crashes a process and restarts it with an empty directory.
	FaultWipe
	// FaultGone crashes a process for good.
	FaultGone
	// FaultLeave makes a node leave the electorate and end, and restarts the node later.
	FaultLeave
	// FaultDisk makes a disk unwritable for a while.
	FaultDisk
	// FaultAccuse makes a node's gossip report all other nodes as failed for a while.
	FaultAccuse
	// FaultProposal makes a voter, or two voters, propose some of the running nodes as the next
	// voters, as if gossip had suggested so.
	FaultProposal
	// FaultStrike waits for a step of a change of the electorate and injects a fault at that
	// moment: see [World.lurk].
	FaultStrike
	// FaultGray blocks TCP between a node and some or all of the others, for longer than an absent
	// voter keeps its vote, while gossip still sees the node.
	FaultGray

	// The following faults are for worlds of a mesh that is born by count.

	// FaultBegin starts another process, which may reach no other for a while.
	FaultBegin
	// FaultEnd ends a process for good.
	FaultEnd
	// FaultRollout replaces one process after the other by another.
	FaultRollout
	// FaultApart cuts off the processes that know no electorate from those that know one.
	FaultApart
	// FaultZone loses every third host at once: either these hosts are cut off from the others for a
	// while, or their processes end for good, and others are started elsewhere.
	FaultZone
	// FaultRegister keeps the calls of some hosts, or of all, from the register for a while.
	FaultRegister

	faultEnd
	faultCounted = FaultBegin // the first fault for meshes that are born by count only
	faultFixed   = FaultWipe  // the first fault for dynamic membership only
)

// faultNames are each fault's name in words and its identifier in Go.
var faultNames = [faultEnd]struct{ words, ident string }{
	{"crash", "FaultCrash"},
	{"crash all", "FaultCrashAll"},
	{"rolling restart", "FaultRolling"},
	{"stop", "FaultStop"},
	{"suspend", "FaultSuspend"},
	{"pause unseen", "FaultUnseen"},
	{"split", "FaultSplit"},
	{"one-way cut", "FaultOneWay"},
	{"bridge", "FaultBridge"},
	{"isolate", "FaultIsolate"},
	{"cut link", "FaultLink"},
	{"break", "FaultBreak"},
	{"stall", "FaultStall"},
	{"slow link", "FaultSlow"},
	{"wall step", "FaultWall"},
	{"twin", "FaultTwin"},
	{"rate change", "FaultRate"},
	{"rate beyond", "FaultBeyond"},
	{"ring", "FaultRing"},
	{"flapping split", "FaultFlap"},
	{"full queue", "FaultFull"},
	{"refused dial", "FaultRefuse"},
	{"gossip lies", "FaultGossip"},
	{"ambush", "FaultAmbush"},
	{"wipe", "FaultWipe"},
	{"loss for good", "FaultGone"},
	{"leave", "FaultLeave"},
	{"broken disk", "FaultDisk"},
	{"accusation", "FaultAccuse"},
	{"proposal", "FaultProposal"},
	{"strike at a change", "FaultStrike"},
	{"gray node", "FaultGray"},
	{"another process", "FaultBegin"},
	{"end of a process", "FaultEnd"},
	{"rollout", "FaultRollout"},
	{"newcomers apart", "FaultApart"},
	{"loss of a zone", "FaultZone"},
	{"register away", "FaultRegister"},
}

func (f Fault) String() string { return faultNames[f].words }

// GoName returns the fault's identifier in Go.
func (f Fault) GoName() string { return faultNames[f].ident }

// IsOfFollowing reports whether the fault occurs only in worlds with dynamic membership.
func (f Fault) IsOfFollowing() bool { return f >= faultFixed && f < faultCounted }

// IsOfCounted reports whether the fault occurs only in worlds of a mesh that is born by count.
func (f Fault) IsOfCounted() bool { return f >= faultCounted }

// Faults say which faults are drawn at random, and how often.
type Faults struct {
	// Every is the mean time between two faults; zero means no faults.
	Every time.Duration
	// Weights say how often each fault is drawn, relative to the others; a fault with weight zero
	// never happens.
	Weights [faultEnd]int
	// WallSteps is the largest step of a wall clock.
	WallSteps time.Duration
}

// beyondPPM is how far clocks err at most in FaultBeyond: by a fifth, as observed on bad virtual
// machines.
const beyondPPM = 200_000

// dice draws one act. The generator knows the configuration of a world but nothing of the run, so
// that each act is drawn independently.
type dice struct {
	*rand.Rand
	ttl   time.Duration
	names []string // of the hosts, including possible duplicates
	locks []string // the hosts that don't vote
	votes []string
}

// drawAct draws the n-th act, some time after the previous act.
func (o *Options) drawAct(n int, before time.Duration) Act {
	r := rand.New(chance(o.Seed, "fault", n))
	d := dice{Rand: r, ttl: o.MaxTTL, names: o.NodeNames()}
	d.votes, d.locks = d.names[:o.Voters], slices.Clone(d.names[o.Voters:])
	if o.Faults.Weights[FaultTwin] > 0 {
		for _, name := range d.names[o.Voters:] {
			d.names = append(d.names, name+"'")
			d.locks = append(d.locks, name+"'")
		}
	}
	a := Act{At: before + within(r, 2*o.Faults.Every), Luck: r.Uint64()}
	total := 0
	for _, weight := range o.Faults.Weights {
		total += weight
	}
	k := r.IntN(total)
	for f, weight := range o.Faults.Weights {
		if k -= weight; k < 0 {
			a.Fault = Fault(f)
			break
		}
	}
	d.draw(&a, &o.Faults)
	return a
}

// draw draws the parameters needed by an act's kind of fault.
func (d *dice) draw(a *Act, of *Faults) {
	switch a.Fault {
	case FaultCrash:
		a.Hosts = d.one(d.names)
		switch d.IntN(3) { // at once, before any node has noticed; soon; or late
		case 0:
			a.For = d.span()
		case 1:
			a.For = within(d.Rand, d.ttl/4)
		}
	case FaultCrashAll:
		a.Hosts = d.names
		if d.IntN(2) == 0 {
			a.For = d.span()
		}
	case FaultRolling:
		a.Hosts = d.names
		if d.IntN(2) == 0 { // only the voters, slowly enough for leases to survive
			a.Hosts, a.By = d.votes, d.ttl+d.ttl/2+vote.TokenQueryTimeout
		} else {
			a.By = d.ttl/4 + within(d.Rand, 2*d.ttl)
		}
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case FaultStop, FaultSuspend, FaultUnseen:
		a.Hosts, a.For = d.one(d.names), d.span()
		if d.IntN(8) == 0 {
			a.Hosts = d.names
		}
	case FaultRing:
		a.Hosts, a.For = d.names, d.span()
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case FaultSplit, FaultOneWay, FaultBridge, FaultFlap:
		a.OneWay, a.For = a.Fault == FaultOneWay || a.Fault == FaultFlap && d.IntN(2) == 0, d.span()
		if a.Fault == FaultFlap {
			a.By = d.ttl/50 + within(d.Rand, d.ttl/2)
		}
		names := d.names
		if a.Fault == FaultBridge {
			bridge := d.IntN(len(names))
			names = slices.Delete(names, bridge, bridge+1)
		}
		for _, name := range names {
			if d.IntN(2) == 0 {
				a.Hosts = append(a.Hosts, name)
			} else {
				a.Far = append(a.Far, name)
			}
		}
	case FaultIsolate:
		a.Hosts, a.For = d.one(d.names), d.span()
		a.Far = without(d.names, a.Hosts)
	case FaultLink:
		a.Hosts, a.For, a.OneWay = d.one(d.names), d.span(), d.IntN(2) == 0
		a.Far = d.one(without(d.names, a.Hosts))
	case FaultBreak:
		a.Hosts = d.one(d.names)
		a.Far = d.one(without(d.votes, a.Hosts))
	case FaultStall, FaultFull:
		a.Hosts, a.For, a.Back = d.one(d.names), d.span(), d.IntN(2) == 0
		a.Far = d.one(without(d.votes, a.Hosts))
	case FaultSlow:
		a.Hosts, a.For, a.By = d.one(d.names), d.span(), within(d.Rand, d.ttl/4)
		a.Far = d.one(without(d.names, a.Hosts))
	case FaultWall:
		most := of.WallSteps >> d.IntN(20) // small steps are as interesting as large ones
		a.Hosts, a.By = d.one(d.names), within(d.Rand, 2*most+1)-most
	case FaultTwin:
		a.Hosts, a.For = d.one(d.locks), d.span()
	case FaultRefuse, FaultGossip:
		a.Hosts, a.For = d.one(d.names), d.span()
		a.Far = d.one(without(d.votes, a.Hosts))
	case FaultBegin:
		a.Hosts, a.For = d.one(d.names), d.ttl+within(d.Rand, 20*d.ttl)
	case FaultEnd:
		a.Hosts = d.one(d.names)
	case FaultRollout:
		a.Hosts, a.By = d.names, d.ttl/4+within(d.Rand, 4*d.ttl)
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case FaultZone:
		zone := d.IntN(zones)
		for i, name := range d.names {
			if i%zones == zone {
				a.Hosts = append(a.Hosts, name)
			}
		}
		a.For, a.Back = 2*d.ttl+within(d.Rand, 20*d.ttl), d.IntN(2) == 0
	case FaultApart, FaultRegister:
		a.Hosts, a.For = d.one(d.names), 2*d.ttl+within(d.Rand, 30*d.ttl)
	case FaultWipe, FaultGone, FaultLeave, FaultDisk, FaultAccuse, FaultStrike:
		a.Hosts, a.For = d.one(d.names), d.span()
	case FaultGray:
		a.Hosts, a.For = d.one(d.names), 2*d.ttl+within(d.Rand, 8*d.ttl)
		all := d.IntN(2) == 0
		for _, name := range without(d.names, a.Hosts) {
			if all || d.IntN(3) > 0 {
				a.Far = append(a.Far, name)
			}
		}
	case FaultProposal:
		a.Hosts, a.For = d.one(d.names), d.ttl
		a.Far = d.one(d.names)
	case FaultAmbush:
		a.Hosts, a.For = d.one(d.names), within(d.Rand, d.ttl)/time.Duration(1+d.IntN(10))
	case FaultBeyond:
		a.Hosts, a.PPM = d.one(d.names), d.Int64N(2*beyondPPM)-beyondPPM
	case FaultRate:
		a.Hosts, a.PPM = d.one(d.names), min(max(d.Int64N(3*MaxPPM)-3*MaxPPM/2, -MaxPPM), MaxPPM)
	}
}

// one draws a single host from the given hosts, or none if there are none.
func (d *dice) one(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return []string{of[d.IntN(len(of))]}
}

func without(names, those []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(those, name) })
}

// span draws a duration: mostly less than a TTL, sometimes several TTLs.
func (d *dice) span() time.Duration { return span(d.Rand, d.ttl) }

func span(r *rand.Rand, ttl time.Duration) time.Duration {
	switch r.IntN(5) {
	case 0, 1:
		return within(r, ttl/2+1)
	case 2, 3:
		return ttl/4 + within(r, 3*ttl/2)
	default:
		return ttl + within(r, 4*ttl)
	}
}
