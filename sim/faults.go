package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Fault is one kind of thing that goes wrong.
type Fault uint8

// What may go wrong.
const (
	// FaultCrash : a process dies and comes back at once, soon or late.
	FaultCrash Fault = iota
	// FaultCrashAll : all processes die at once and come back at once or one by one.
	FaultCrashAll
	// FaultRolling : the processes are restarted one after the other.
	FaultRolling
	// FaultStop : a process doesn't run for a while.
	FaultStop
	// FaultSuspend : a machine is suspended for a while.
	FaultSuspend
	// FaultUnseen : a virtual machine is paused and no clock shows it. For runs with Options.TokensOnly.
	FaultUnseen
	// FaultSplit : a partition in two, symmetric.
	FaultSplit
	// FaultOneWay : messages go one way only between two parts.
	FaultOneWay
	// FaultBridge : two parts that only one node sees both of.
	FaultBridge
	// FaultIsolate : one node is alone.
	FaultIsolate
	// FaultLink : the way between two nodes is cut.
	FaultLink
	// FaultBreak : a connection breaks.
	FaultBreak
	// FaultStall : what one side of a connection sends is held up, beyond the TTL perhaps, and then arrives.
	FaultStall
	// FaultSlow : the way between two nodes becomes slow.
	FaultSlow
	// FaultWall : a wall clock is stepped, by milliseconds to hours.
	FaultWall
	// FaultTwin : a process of a node that doesn't vote seems dead, and another is started under its name; then it goes on, and one
	// of the two ends.
	FaultTwin
	// FaultRate : the rate of a machine's clocks changes, within the bound.
	FaultRate
	// FaultBeyond : the same, far beyond the bound. For runs with Options.TokensOnly.
	FaultBeyond
	// FaultRing : each node reaches its two neighbours in a ring only.
	FaultRing
	// FaultFlap : a partition in two that comes and goes.
	FaultFlap
	// FaultFull : one side of a connection reads nothing, and the other's queue for it overflows, so that the connection ends.
	FaultFull
	// FaultRefuse : a voter turns a node's dials away, as if their configurations differed.
	FaultRefuse
	// FaultGossip : gossip lies to a node about a voter: it says that one is back that isn't, names another machine's address, and is
	// silent when the voter does come back. It can't say anything worse: a death that it tells of changes nothing (see protocol.md).
	FaultGossip
	// FaultAmbush : a process dies when it next says or hears a certain word, before or after it has heeded it.
	FaultAmbush

	// What follows is for worlds whose electorate follows the living.

	// FaultWipe : a process dies, and comes back with an empty directory.
	FaultWipe
	// FaultGone : a process dies for good.
	FaultGone
	// FaultLeave : a node has itself voted out, and ends; later it comes back.
	FaultLeave
	// FaultDisk : a disk can't be written for a while.
	FaultDisk
	// FaultAccuse : a node's gossip takes all others for dead for a while.
	FaultAccuse

	faultEnd
	faultFixed = FaultWipe // the first that a fixed electorate doesn't know
)

// faultNames are each fault's words, and its name in Go.
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
}

func (f Fault) String() string { return faultNames[f].words }

// IsOfFollowing reports whether only worlds know the fault whose electorate follows the living.
func (f Fault) IsOfFollowing() bool { return f >= faultFixed }

// Faults say what goes wrong at random, and how often.
type Faults struct {
	// Every is the mean time between two faults; zero means that nothing goes wrong.
	Every time.Duration
	// Weights say how often each kind is drawn, in relation to the others; a kind with zero never happens.
	Weights [faultEnd]int
	// WallSteps is how far a wall clock may be stepped.
	WallSteps time.Duration
}

// beyondPPM is how far clocks err in FaultBeyond: by a fifth, as bad virtual machines have been seen to.
const beyondPPM = 200_000

// dice draw one act. They know what a world is made of, and nothing of what happens in it, so that each act is drawn by itself.
type dice struct {
	*rand.Rand
	ttl   time.Duration
	names []string // of the hosts, twins that there may be included
	locks []string // those of them that don't vote
	votes []string
}

// drawAct draws the n-th act, which comes some time after the one before.
func (o *Options) drawAct(n int, before time.Duration) Act {
	r := rand.New(chance(o.Seed, "fault", n))
	d := dice{Rand: r, ttl: o.MaxTTL, names: o.names()}
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

// draw draws what a kind of act needs.
func (d *dice) draw(a *Act, of *Faults) {
	switch a.Fault {
	case FaultCrash:
		a.Hosts = d.one(d.names)
		switch d.IntN(3) { // at once, before anybody has noticed, soon or late
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
		if d.IntN(2) == 0 { // the voters alone, so slowly that leases live on
			a.Hosts, a.By = d.votes, d.ttl+d.ttl/2+vote.AskFor
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
	case FaultWipe, FaultGone, FaultLeave, FaultDisk, FaultAccuse:
		a.Hosts, a.For = d.one(d.names), d.span()
	case FaultAmbush:
		a.Hosts, a.For = d.one(d.names), within(d.Rand, d.ttl)/time.Duration(1+d.IntN(10))
	case FaultBeyond:
		a.Hosts, a.PPM = d.one(d.names), d.Int64N(2*beyondPPM)-beyondPPM
	case FaultRate:
		a.Hosts, a.PPM = d.one(d.names), min(max(d.Int64N(3*MaxPPM)-3*MaxPPM/2, -MaxPPM), MaxPPM)
	}
}

// one draws one of some hosts; none if there is none.
func (d *dice) one(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return []string{of[d.IntN(len(of))]}
}

func without(names, those []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(those, name) })
}

// span draws how long something lasts: mostly less than a TTL, sometimes several.
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
