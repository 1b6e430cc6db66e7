package fault

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Zones is in how many zones the hosts stand, every third in the same.
const Zones = 3

// maxPPM is the largest error of a clock's rate that the protocol allows, in parts per million.
const maxPPM = vote.RhoPerMille * 1000

// BeyondPPM is how far clocks err at most in Beyond: by a fifth, as observed on bad virtual
// machines.
const BeyondPPM = 200_000

// actGenerator draws one act. The generator knows the configuration of a world but nothing of the
// run, so that each act is drawn independently.
type actGenerator struct {
	*rand.Rand
	ttl   time.Duration
	names []string // of the hosts, including possible duplicates
	locks []string // the hosts that don't vote
	votes []string
}

// Mesh is what a generator must know of a mesh.
type Mesh struct {
	Names  []string // of the nodes, voters first
	Voters int
	MaxTTL time.Duration
}

// Draw draws the n-th act of a seed, some time after the previous act.
func (m *Mix) Draw(seed uint64, n int, before time.Duration, of Mesh) Act {
	r := rand.New(Chance(seed, "fault", n))
	d := actGenerator{Rand: r, ttl: of.MaxTTL, names: slices.Clone(of.Names)}
	d.votes, d.locks = d.names[:of.Voters], slices.Clone(of.Names[of.Voters:])
	if m.Weights[Duplicate] > 0 {
		for _, name := range of.Names[of.Voters:] {
			d.names = append(d.names, name+"'")
			d.locks = append(d.locks, name+"'")
		}
	}
	a := Act{At: before + Within(r, 2*m.Every), Seed: r.Uint64()}
	total := 0
	for _, weight := range m.Weights {
		total += weight
	}
	k := r.IntN(total)
	for f, weight := range m.Weights {
		if k -= weight; k < 0 {
			a.Fault = Kind(f)
			break
		}
	}
	d.draw(&a, m)
	return a
}

// draw draws the parameters needed by an act's kind of fault.
func (d *actGenerator) draw(a *Act, of *Mix) {
	switch a.Fault {
	case Crash:
		a.Hosts = d.one(d.names)
		switch d.IntN(3) { // at once, before any node has noticed; soon; or late
		case 0:
			a.For = d.span()
		case 1:
			a.For = Within(d.Rand, d.ttl/4)
		}
	case CrashAll:
		a.Hosts = d.names
		if d.IntN(2) == 0 {
			a.For = d.span()
		}
	case Rolling:
		a.Hosts = d.names
		if d.IntN(2) == 0 { // only the voters, slowly enough for leases to survive
			a.Hosts, a.By = d.votes, d.ttl+d.ttl/2+vote.TokenQueryTimeout
		} else {
			a.By = d.ttl/4 + Within(d.Rand, 2*d.ttl)
		}
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Stop, Suspend, Unseen:
		a.Hosts, a.For = d.one(d.names), d.span()
		if d.IntN(8) == 0 {
			a.Hosts = d.names
		}
	case Ring:
		a.Hosts, a.For = d.names, d.span()
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Split, OneWay, Bridge, Flap:
		a.OneWay, a.For = a.Fault == OneWay || a.Fault == Flap && d.IntN(2) == 0, d.span()
		if a.Fault == Flap {
			a.By = d.ttl/50 + Within(d.Rand, d.ttl/2)
		}
		names := d.names
		if a.Fault == Bridge {
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
	case Isolate:
		a.Hosts, a.For = d.one(d.names), d.span()
		a.Far = Without(d.names, a.Hosts)
	case Link:
		a.Hosts, a.For, a.OneWay = d.one(d.names), d.span(), d.IntN(2) == 0
		a.Far = d.one(Without(d.names, a.Hosts))
	case Break:
		a.Hosts = d.one(d.names)
		a.Far = d.one(Without(d.votes, a.Hosts))
	case Stall, Full:
		a.Hosts, a.For, a.Back = d.one(d.names), d.span(), d.IntN(2) == 0
		a.Far = d.one(Without(d.votes, a.Hosts))
	case Slow:
		a.Hosts, a.For, a.By = d.one(d.names), d.span(), Within(d.Rand, d.ttl/4)
		a.Far = d.one(Without(d.names, a.Hosts))
	case Wall:
		most := of.WallSteps >> d.IntN(20) // small steps are as interesting as large ones
		a.Hosts, a.By = d.one(d.names), Within(d.Rand, 2*most+1)-most
	case Duplicate:
		a.Hosts, a.For = d.one(d.locks), d.span()
	case Refuse, Gossip:
		a.Hosts, a.For = d.one(d.names), d.span()
		a.Far = d.one(Without(d.votes, a.Hosts))
	case Begin:
		a.Hosts, a.For = d.one(d.names), d.ttl+Within(d.Rand, 20*d.ttl)
	case End:
		a.Hosts = d.one(d.names)
	case Rollout:
		a.Hosts, a.By = d.names, d.ttl/4+Within(d.Rand, 4*d.ttl)
		d.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Zone:
		zone := d.IntN(Zones)
		for i, name := range d.names {
			if i%Zones == zone {
				a.Hosts = append(a.Hosts, name)
			}
		}
		a.For, a.Back = 2*d.ttl+Within(d.Rand, 20*d.ttl), d.IntN(2) == 0
	case Apart, Register:
		a.Hosts, a.For = d.one(d.names), 2*d.ttl+Within(d.Rand, 30*d.ttl)
	case Wipe, Gone, Leave, Disk, Accuse, Targeted:
		a.Hosts, a.For = d.one(d.names), d.span()
	case Gray:
		a.Hosts, a.For = d.one(d.names), 2*d.ttl+Within(d.Rand, 8*d.ttl)
		all := d.IntN(2) == 0
		for _, name := range Without(d.names, a.Hosts) {
			if all || d.IntN(3) > 0 {
				a.Far = append(a.Far, name)
			}
		}
	case Proposal:
		a.Hosts, a.For = d.one(d.names), d.ttl
		a.Far = d.one(d.names)
	case Ambush:
		a.Hosts, a.For = d.one(d.names), Within(d.Rand, d.ttl)/time.Duration(1+d.IntN(10))
	case Beyond:
		a.Hosts, a.PPM = d.one(d.names), d.Int64N(2*BeyondPPM)-BeyondPPM
	case Rate:
		a.Hosts, a.PPM = d.one(d.names), min(max(d.Int64N(3*maxPPM)-3*maxPPM/2, -maxPPM), maxPPM)
	}
}

// one draws a single host from the given hosts, or none if there are none.
func (d *actGenerator) one(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return []string{of[d.IntN(len(of))]}
}

// Without returns the names without some of them.
func Without(names, those []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(those, name) })
}

// span draws a duration: mostly less than a TTL, sometimes several TTLs.
func (d *actGenerator) span() time.Duration { return Span(d.Rand, d.ttl) }

// Span draws a duration: mostly less than a TTL, sometimes several TTLs.
func Span(r *rand.Rand, ttl time.Duration) time.Duration {
	switch r.IntN(5) {
	case 0, 1:
		return Within(r, ttl/2+1)
	case 2, 3:
		return ttl/4 + Within(r, 3*ttl/2)
	default:
		return ttl + Within(r, 4*ttl)
	}
}
