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
func (g *actGenerator) draw(a *Act, of *Mix) {
	switch a.Fault {
	case Crash:
		a.Hosts = g.one(g.names)
		switch g.IntN(3) { // at once, before any node has noticed; soon; or late
		case 0:
			a.For = g.span()
		case 1:
			a.For = Within(g.Rand, g.ttl/4)
		}
	case CrashAll:
		a.Hosts = g.names
		if g.IntN(2) == 0 {
			a.For = g.span()
		}
	case Rolling:
		a.Hosts = g.names
		if g.IntN(2) == 0 { // only the voters, slowly enough for leases to survive
			a.Hosts, a.By = g.votes, g.ttl+g.ttl/2+vote.TokenQueryTimeout
		} else {
			a.By = g.ttl/4 + Within(g.Rand, 2*g.ttl)
		}
		g.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Stop, Suspend, Unseen:
		a.Hosts, a.For = g.one(g.names), g.span()
		if g.IntN(8) == 0 {
			a.Hosts = g.names
		}
	case Ring:
		a.Hosts, a.For = g.names, g.span()
		g.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Split, OneWay, Bridge, Flap:
		a.OneWay, a.For = a.Fault == OneWay || a.Fault == Flap && g.IntN(2) == 0, g.span()
		if a.Fault == Flap {
			a.By = g.ttl/50 + Within(g.Rand, g.ttl/2)
		}
		names := g.names
		if a.Fault == Bridge {
			bridge := g.IntN(len(names))
			names = slices.Delete(names, bridge, bridge+1)
		}
		for _, name := range names {
			if g.IntN(2) == 0 {
				a.Hosts = append(a.Hosts, name)
			} else {
				a.Far = append(a.Far, name)
			}
		}
	case Isolate:
		a.Hosts, a.For = g.one(g.names), g.span()
		a.Far = Without(g.names, a.Hosts)
	case Link:
		a.Hosts, a.For, a.OneWay = g.one(g.names), g.span(), g.IntN(2) == 0
		a.Far = g.one(Without(g.names, a.Hosts))
	case Break:
		a.Hosts = g.one(g.names)
		a.Far = g.one(Without(g.votes, a.Hosts))
	case Stall, Full:
		a.Hosts, a.For, a.Back = g.one(g.names), g.span(), g.IntN(2) == 0
		a.Far = g.one(Without(g.votes, a.Hosts))
	case Slow:
		a.Hosts, a.For, a.By = g.one(g.names), g.span(), Within(g.Rand, g.ttl/4)
		a.Far = g.one(Without(g.names, a.Hosts))
	case Wall:
		most := of.WallSteps >> g.IntN(20) // small steps are as interesting as large ones
		a.Hosts, a.By = g.one(g.names), Within(g.Rand, 2*most+1)-most
	case Duplicate:
		a.Hosts, a.For = g.one(g.locks), g.span()
	case Refuse, Gossip:
		a.Hosts, a.For = g.one(g.names), g.span()
		a.Far = g.one(Without(g.votes, a.Hosts))
	case Begin:
		a.Hosts, a.For = g.one(g.names), g.ttl+Within(g.Rand, 20*g.ttl)
	case End:
		a.Hosts = g.one(g.names)
	case Rollout:
		a.Hosts, a.By = g.names, g.ttl/4+Within(g.Rand, 4*g.ttl)
		g.Shuffle(len(a.Hosts), func(i, j int) { a.Hosts[i], a.Hosts[j] = a.Hosts[j], a.Hosts[i] })
	case Zone:
		zone := g.IntN(Zones)
		for i, name := range g.names {
			if i%Zones == zone {
				a.Hosts = append(a.Hosts, name)
			}
		}
		a.For, a.Back = 2*g.ttl+Within(g.Rand, 20*g.ttl), g.IntN(2) == 0
	case Apart, Register:
		a.Hosts, a.For = g.one(g.names), 2*g.ttl+Within(g.Rand, 30*g.ttl)
	case Misconfigure:
		a.Hosts, a.For = g.one(g.locks), 2*g.ttl+Within(g.Rand, 8*g.ttl)
	case Wipe, Gone, Leave, Disk, Accuse, Targeted:
		a.Hosts, a.For = g.one(g.names), g.span()
	case Gray:
		a.Hosts, a.For = g.one(g.names), 2*g.ttl+Within(g.Rand, 8*g.ttl)
		all := g.IntN(2) == 0
		for _, name := range Without(g.names, a.Hosts) {
			if all || g.IntN(3) > 0 {
				a.Far = append(a.Far, name)
			}
		}
	case Proposal:
		a.Hosts, a.For = g.one(g.names), g.ttl
		a.Far = g.one(g.names)
	case Ambush:
		a.Hosts, a.For = g.one(g.names), Within(g.Rand, g.ttl)/time.Duration(1+g.IntN(10))
	case Beyond:
		a.Hosts, a.PPM = g.one(g.names), g.Int64N(2*BeyondPPM)-BeyondPPM
	case Rate:
		a.Hosts, a.PPM = g.one(g.names), min(max(g.Int64N(3*maxPPM)-3*maxPPM/2, -maxPPM), maxPPM)
	}
}

// one draws a single host from the given hosts, or none if there are none.
func (g *actGenerator) one(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return []string{of[g.IntN(len(of))]}
}

// Without returns the names without some of them.
func Without(names, those []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(those, name) })
}

// span draws a duration: mostly less than a TTL, sometimes several TTLs.
func (g *actGenerator) span() time.Duration { return Span(g.Rand, g.ttl) }

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
