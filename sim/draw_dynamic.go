package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/sim/fault"
)

// DrawDynamic draws a world with dynamic membership.
func DrawDynamic(seed uint64) Options {
	o := Draw(seed)
	d := draws{seed, "following"}
	o.MaxTTL, o.TTL = d.pick("max-ttl", time.Second, time.Second, 2*time.Second), nil
	o.Net.Most = min(o.Net.Most, o.MaxTTL/50)
	o.Net.Least = min(o.Net.Least, o.Net.Most)
	o.Voters, o.Clients = d.pickInt("voters", 1, 2, 3, 3, 3, 4, 5), d.intN("clients", 5)
	o.Dynamic = &Dynamic{MaxVoters: d.pickInt("max-voters", 3, 5, 7), Late: d.pick("late", 0, 5*o.MaxTTL, 20*o.MaxTTL), DiskMost: d.pick("disk", time.Millisecond, 20*time.Millisecond, o.MaxTTL/4)}
	o.Load.Mix.LengthLeast = o.lengthLeast()
	o.Load.Clients = min(o.Load.Clients, 3)
	o.Faults.Every = d.pick("every", o.MaxTTL/2, o.MaxTTL, 3*o.MaxTTL, 10*o.MaxTTL)
	o.Faults.Weights[fault.Duplicate], o.Faults.Weights[fault.Refuse], o.Faults.Weights[fault.Gossip] = 0, 0, 0
	for f := fault.Dynamic; f < fault.Gray; f++ { // see drawGray
		if r := d.rng("weight/" + f.StreamName()); r.IntN(3) > 0 {
			o.Faults.Weights[f] = 1 + r.IntN(4)
		}
	}
	if d.intN("few-faults", 3) == 0 { // changes of the electorate, with few faults
		for f := range fault.Dynamic {
			o.Faults.Weights[f] = 0
		}
		o.Faults.Weights[fault.Crash] = 1
	}
	o.drawHostile()
	o.drawGray()
	o.drawMaxTTLChanges()
	o.drawQuiet("following")
	return o
}

// drawGray gives fault.Gray a weight in one world of six.
func (o *Options) drawGray() {
	if (draws{o.Seed, "following"}).intN("weight/Gray", 6) > 0 {
		return
	}
	total := 0
	for _, weight := range o.Faults.Weights {
		total += weight
	}
	o.Faults.Weights[fault.Gray] = 1 + total/8
}

// drawHostile makes seven of eight worlds change their electorate all the time, aim faults at the
// steps of a change, and hold and want keys across changes. By chance alone, faults hardly ever hit
// the few milliseconds in which a change can go wrong.
func (o *Options) drawHostile() {
	d := draws{o.Seed, "hostile"}
	if d.intN("not", 8) == 0 {
		return
	}
	o.MaxTTL = d.pick("max-ttl", 400*time.Millisecond, 600*time.Millisecond, time.Second)
	o.Voters = d.pickInt("voters", 1, 2, 3, 3, 3, 4)
	o.Clients = 1 + d.intN("clients", 4)
	o.Dynamic.Late, o.Dynamic.Brisk = 2*o.MaxTTL, true
	o.Dynamic.DiskMost = d.pick("disk", time.Millisecond, o.MaxTTL/50, o.MaxTTL/10)
	o.Net = Net{Least: 100 * time.Microsecond, Most: d.pick("net", time.Millisecond, o.MaxTTL/100, o.MaxTTL/50), Jitter: 50, Spikes: d.pickInt("spikes", 0, 5)}
	o.Load.Mix.LengthLeast = o.lengthLeast()

	o.Clocks.Spread = d.pick("spread", 0, 2*time.Second, 4*time.Hour, 4*time.Hour)
	o.Faults.WallSteps = o.Clocks.Spread
	if r := d.rng("ppm"); r.IntN(2) == 0 { // all clocks run at the very bound, some fast and some slow
		for range o.Voters + o.Clients {
			o.Clocks.PPM = append(o.Clocks.PPM, int64(1-2*r.IntN(2))*MaxPPM)
		}
	}

	l := &o.Load
	l.Clients, l.Keys = 1+d.intN("load/clients", 2), 1+d.intN("load/keys", 2)
	l.Kinds = l.Kinds[:min(len(l.Kinds), l.Keys)]
	l.Think = d.pick("load/think", 20*time.Millisecond, 100*time.Millisecond, o.MaxTTL)
	l.Hold = d.pick("load/hold", 20*time.Millisecond, o.MaxTTL, 2*o.MaxTTL)
	l.Patience, l.Try, l.Long = 3*o.MaxTTL, d.pickInt("load/try", 0, 20), 0
	o.Dynamic.Aim = Aim(d.intN("aim", int(aims)))
	switch o.Dynamic.Aim {
	case AimDrain: // a single client holds, and the others wait
		l.Clients, l.Think, l.Hold, l.Patience, l.Forever, l.Try = 1, 20*time.Millisecond, 2*o.MaxTTL, 6*o.MaxTTL, 90, 0
		o.Voters, o.Clients = d.pickInt("drain/voters", 1, 3, 3), d.pickInt("drain/clients", 3, 4)
		// With slower disks or links a change takes longer than the rest of a lease.
		o.Dynamic.DiskMost, o.Net.Most = time.Millisecond, time.Millisecond
	case AimElection: // the smaller the maximum TTL, the more elections
		o.MaxTTL = 400 * time.Millisecond
		o.Net.Most, o.Dynamic.DiskMost = min(o.Net.Most, o.MaxTTL/50), min(o.Dynamic.DiskMost, o.MaxTTL/20)
		o.Dynamic.Late = 2 * o.MaxTTL
		o.Load.Mix.LengthLeast = o.lengthLeast()
		l.Clients, l.Think, l.Patience = 1, 2*o.MaxTTL, 3*o.MaxTTL
	// The key rests during a change, so that new voters learn of its tokens only from the minimum
	// token.
	case AimMinToken:
		l.Clients, l.Keys, l.Think, l.Hold = 1, 1, d.pick("min-token/think", 2*o.MaxTTL, 2*o.MaxTTL, 10*o.MaxTTL), o.MaxTTL/10
		l.Kinds = l.Kinds[:min(len(l.Kinds), 1)]
		o.Clocks.Spread, o.Faults.WallSteps = 4*time.Hour, 4*time.Hour
		o.Voters, o.Clients = d.pickInt("min-token/voters", 1, 2, 3, 3), d.pickInt("min-token/clients", 3, 4)
	case AimFound:
		o.Voters, o.Clients = d.pickInt("found/voters", 3, 4, 5, 5), d.intN("found/clients", 3)
	}

	o.Faults.Every = d.pick("every", o.MaxTTL/2, o.MaxTTL)
	rare := 3
	if o.Dynamic.Aim != AimAll {
		rare = 6
	}
	for f := range fault.Gray { // see drawGray
		rare := rare
		if f.IsOfDynamic() || f == fault.Ambush { // they can meet a change
			rare = 3
		}
		if o.Faults.Weights[f] = min(o.Faults.Weights[f], 1); d.intN("weight/"+f.StreamName(), rare) > 0 {
			o.Faults.Weights[f] = 0
		}
	}
	// Nothing changes while voters are quiet.
	for _, f := range []fault.Kind{fault.CrashAll, fault.Rolling} {
		o.Faults.Weights[f] = 0
	}
	o.Faults.Weights[fault.Proposal], o.Faults.Weights[fault.Targeted] = d.pickInt("weight/Proposal", 8, 16), d.pickInt("weight/Strike", 4, 8, 16)
	if o.Dynamic.Aim == AimElection { // ambushes propose by themselves
		o.Faults.Weights[fault.Proposal], o.Faults.Weights[fault.Targeted] = 1, 16
		o.Voters, o.Clients = d.pickInt("election/voters", 3, 3, 5), 4
	}
	if o.Dynamic.Aim == AimDrain {
		o.Faults.Every, o.Faults.Weights[fault.Targeted] = o.MaxTTL/2, 16
	}
	o.Faults.Weights[fault.Leave], o.Faults.Weights[fault.Wipe] = d.intN("leave", 3), d.intN("wipe", 3)
}
