package plan

import (
	"math/rand/v2"
	"time"
)

// setEvery is how often a machine corrects its wall clock by a better clock, as NTP does. Between
// two corrections the clock strays by its rate's error.
const setEvery = 64 * time.Second

// keepTime keeps a node's wall clock at its drawn distance from true time.
func (x *world) keepTime(n *nodeState, ppm int64) {
	x.w.At(setEvery, func() {
		x.w.Script.StepWall(n.name, -time.Duration(int64(setEvery)*ppm/1_000_000))
		x.keepTime(n, ppm)
	})
}

// crashing makes a node crash and come back, again and again.
func (x *world) crashing(n *nodeState) {
	c := &x.s.Crashes
	if c.Every == 0 {
		return
	}
	x.w.At(x.exp(n.crashes, c.Every), func() {
		if n.safe {
			return
		}
		x.crashes++
		x.pass()
		x.up--
		back := c.Return
		if n.crashes.Float64() < c.StaysDown {
			x.w.Script.PowerOff(n.name)
			back = c.Replaced
		} else {
			x.w.Script.Crash(n.name)
		}
		n.process = nil
		x.w.At(x.exp(n.crashes, back), func() {
			x.w.Script.Start(n.name)
			x.begin(n)
			x.crashing(n)
		})
	})
}

// pausing makes a node's process stop and go on, again and again.
func (x *world) pausing(n *nodeState) {
	p := &x.s.Pauses
	if p.Every == 0 {
		return
	}
	x.w.At(x.exp(n.stops, p.Every), func() {
		if n.process != nil {
			x.pauses++
			x.w.Script.Stop(n.name)
		}
		x.w.At(x.exp(n.stops, p.Last), func() {
			x.w.Script.Continue(n.name)
			x.pausing(n)
		})
	})
}

// parting makes the mesh split in two, and heal, again and again. Two partitions may overlap.
func (x *world) parting(r *rand.Rand) {
	p := &x.s.Partitions
	if p.Every == 0 || len(x.nodes) < 2 {
		return
	}
	x.w.At(x.exp(r, p.Every), func() {
		x.partitions++
		var one, other []string
		alone := x.nodes[r.IntN(len(x.nodes))]
		group := ""
		if len(x.s.Groups) > 0 {
			group = x.s.Groups[r.IntN(len(x.s.Groups))].Name
		}
		for _, n := range x.nodes {
			coin := r.IntN(2) == 0
			if p.Shape == "node" && n == alone || p.Shape == "group" && n.group == group || p.Shape == "random" && coin {
				one = append(one, n.name)
			} else {
				other = append(other, n.name)
			}
		}
		x.w.Script.Split(one, other)
		x.w.At(x.exp(r, p.Last), func() { x.w.Script.Join(one, other) })
		x.parting(r)
	})
}

// outages cuts pairs of nodes from each other now and then.
func (x *world) outages(seed uint64) {
	for _, a := range x.nodes {
		for _, b := range x.nodes[:a.i] {
			if l := x.s.way(a.place, b.place); l.Outage.Every > 0 {
				x.outage(a, b, l, stream(seed, streamOutages, a.i*nodesMost+b.i))
			}
		}
	}
}

func (x *world) outage(a, b *nodeState, l *Link, r *rand.Rand) {
	x.w.At(x.exp(r, l.Outage.Every), func() {
		x.cuts++
		x.w.Script.Cut(a.name, b.name)
		x.w.At(x.exp(r, l.Outage.Last), func() {
			x.w.Script.Mend(a.name, b.name)
			x.outage(a, b, l, r)
		})
	})
}
