package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/sim/fault"
)

// Draw draws a world from a seed: three to five voters, lock-only nodes, sessions of several
// lengths, a network from one rack to distant sites, a load, and a random choice of faults with
// random weights, so that each seed is hostile in a different way.
func Draw(seed uint64) Options {
	d := draws{seed, "draw"}
	o := Options{Seed: seed, Voters: 3 + d.intN("voters", 3), MaxTTL: d.pick("max-ttl", time.Second, 2*time.Second, 3*time.Second, 5*time.Second)}
	if d.intN("has-clients", 2) == 0 {
		o.Clients = d.intN("clients", 3)
	}
	if d.intN("has-ttl", 3) == 0 { // sessions shorter than the maximum allowed by voters
		r := d.rng("ttl")
		for range o.Voters + o.Clients {
			o.TTL = append(o.TTL, o.MaxTTL/time.Duration(1+r.IntN(3)))
		}
	}
	least := o.MaxTTL // the shortest TTL of all sessions
	for _, ttl := range o.TTL {
		least = min(least, ttl)
	}
	jitter := d.pickInt("jitter", 10, 50, 200)
	// A session can't be kept up over a link where a few round trips take longer than the TTL, so
	// the slowest one-way delay is a twelfth of the TTL.
	most := least / 12 * 100 / time.Duration(100+jitter)
	switch d.intN("net", 4) {
	case 0:
		o.Net = Net{Least: 50 * time.Microsecond, Most: 500 * time.Microsecond, Spikes: d.pickInt("spikes", 0, 5, 50)}
	case 1:
		o.Net = Net{Least: 500 * time.Microsecond, Most: 5 * time.Millisecond, Spikes: d.pickInt("spikes", 0, 5, 50)}
	case 2:
		o.Net = Net{Least: most / 4, Most: most, Spikes: d.pickInt("spikes", 0, 5)}
	default:
		o.Net = Net{Least: 200 * time.Microsecond, Most: most, Spikes: d.pickInt("spikes", 0, 5)}
	}
	o.Net.Jitter = jitter
	o.Clocks.Spread = d.pick("spread", 0, 100*time.Millisecond, 2*time.Second, 4*time.Hour)
	o.Load = Load{
		Clients:  1 + d.intN("load/clients", 6),
		Keys:     1 + d.intN("load/keys", 4),
		Think:    d.pick("load/think", 20*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond, 2*time.Second),
		Hold:     d.pick("load/hold", 10*time.Millisecond, 200*time.Millisecond, o.MaxTTL),
		Patience: d.pick("load/patience", o.MaxTTL/2, 3*o.MaxTTL),
		Try:      d.pickInt("load/try", 0, 20, 50),
		Forever:  d.pickInt("load/forever", 0, 50, 90),
		Long:     d.pickInt("load/long", 0, 10),
	}
	o.Faults.Every = d.pick("every", o.MaxTTL/4, o.MaxTTL, 3*o.MaxTTL, 10*o.MaxTTL)
	o.Faults.WallSteps = o.Clocks.Spread
	for f := range fault.Dynamic { // DrawDynamic draws the faults of dynamic membership
		if r := d.rng("weight/" + f.StreamName()); r.IntN(2) == 0 {
			o.Faults.Weights[f] = 1 << r.IntN(4)
		}
	}
	// After these faults all voters are quiet for long.
	for _, f := range []fault.Kind{fault.CrashAll, fault.Rolling} {
		o.Faults.Weights[f] = min(o.Faults.Weights[f], 1)
	}
	o.Faults.Weights[fault.Unseen], o.Faults.Weights[fault.Beyond] = 0, 0
	if o.Clients > 0 && o.Faults.Weights[fault.Duplicate] > 0 {
		o.Faults.Weights[fault.Duplicate] = 8 // for most draws of this fault no node qualifies
	}
	switch d.intN("manner", 10) {
	case 0, 1:
		o.careful()
	case 2:
		o.withoutFaults()
	}
	o.drawKinds()
	return o
}

// DrawBeyond draws a world like [Draw], but with clocks that err by up to a fifth and machines
// paused unseen. Only the order of tokens is checked.
func DrawBeyond(seed uint64) Options {
	o := Draw(seed)
	o.TokensOnly = true
	r := (draws{seed, "beyond"}).rng("ppm")
	for range o.Voters + o.Clients {
		o.Clocks.PPM = append(o.Clocks.PPM, r.Int64N(2*fault.BeyondPPM)-fault.BeyondPPM)
	}
	o.Faults.Weights[fault.Unseen], o.Faults.Weights[fault.Beyond] = 8, 8
	return o
}

// careful makes a mesh where voters are restarted in turn, slowly enough for long leases to
// survive. By chance alone such worlds are rare.
func (o *Options) careful() {
	o.MaxTTL, o.TTL = time.Second, nil
	o.Net.Least, o.Net.Most = 200*time.Microsecond, 20*time.Millisecond // short for the TTL
	o.Clients = max(o.Clients, 1)
	o.Load.Hold, o.Load.Long, o.Load.Forever = 2*o.MaxTTL, 50, 90
	o.Faults.Every = 8 * o.MaxTTL
	o.Faults.Weights = [fault.Kinds]int{fault.Rolling: 6, fault.Break: 1, fault.Refuse: 1}
}

// withoutFaults makes a mesh without faults where many requests wait for long, to judge the order
// of service: see order.go.
func (o *Options) withoutFaults() {
	o.MaxTTL, o.TTL = time.Second, nil
	o.Net.Most = min(o.Net.Most, 20*time.Millisecond)
	o.Net.Least = min(o.Net.Least, o.Net.Most)
	o.Faults.Every = 0
	o.Load = Load{Clients: 3, Keys: 2, Think: 2 * time.Second, Hold: 300 * time.Millisecond, Try: o.Load.Try / 4, Forever: 100}
}

// drawQuiet leaves one world in ten of a kind with changing electorates without faults, and has
// many requests wait there, some of them for long, to judge *idle* and *order*: amid faults such a
// mesh is hardly ever well for long enough.
func (o *Options) drawQuiet(of string) {
	if (draws{o.Seed, of}).intN("quiet", 10) > 0 {
		return
	}
	o.Faults.Every = 0
	l := &o.Load
	l.Clients, l.Think, l.Hold, l.Long, l.Forever, l.Try = 4, o.MaxTTL, 3*o.MaxTTL/10, 20, 100, l.Try/4
}

// isQuiet reports whether drawQuiet has left the world without faults.
func (o *Options) isQuiet() bool { return o.Faults.Every == 0 }

// draws draws the options of a world. Each option has a generator of its own, by its name: a new
// option, or a new choice for one, doesn't change what the others are under any seed.
type draws struct {
	seed uint64
	of   string // the kind of world
}

// rng returns the generator of an option.
func (d draws) rng(option string) *rand.Rand {
	return rand.New(fault.Chance(d.seed, d.of+"/"+option))
}

func (d draws) intN(option string, n int) int { return d.rng(option).IntN(n) }

func (d draws) pick(option string, from ...time.Duration) time.Duration {
	return from[d.intN(option, len(from))]
}

func (d draws) pickInt(option string, from ...int) int { return from[d.intN(option, len(from))] }
