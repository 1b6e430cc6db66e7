package sim

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The actions of a scenario on a world with dynamic membership.

// Electorate returns the newest electorate that any node applies; its version is zero if there is
// none.
func (d *dynamicWorld) Electorate() vote.Electorate { return d.decided[d.newest] }

// Voting reports whether exactly the named nodes vote in the newest electorate, and the electorate
// is final.
func (d *dynamicWorld) Voting(names ...string) bool {
	e := d.Electorate()
	if e.Joint() || len(e.Voters) != len(names) {
		return false
	}
	for _, name := range names {
		h := d.w.host(name)
		if !e.Has(vote.Elector{Name: h.name, Dir: h.disk.state.Dir}) {
			return false
		}
	}
	return true
}

// Knows returns the version of the electorate that a node applies; zero if the node isn't running
// or knows no electorate.
func (d *dynamicWorld) Knows(node string) uint64 {
	if p := d.w.host(node).p; p != nil && p.m.Known() != nil {
		return p.m.Known().Version
	}
	return 0
}

// Leave makes a node ask to be voted out, if the others can do without its vote. Stopping the node
// is left to the scenario.
func (d *dynamicWorld) Leave(node string) {
	p := d.w.host(node).p
	d.w.note(p.host, "leaves")
	p.m.LeaveElectorate(p.read(d.w.now))
	d.w.settle(p)
}

// Lose ends a node with its machine and its disk, for good.
func (d *dynamicWorld) Lose(node string) {
	h := d.w.host(node)
	d.w.crash(h, endingSilent, nil)
	h.retired, h.disk = true, disk{made: h.disk.made}
	d.w.note(h, "is gone for good")
	d.w.order.disturb()
}

// Wipe empties the directory of a stopped node. The node comes back as a different voter of the
// same name.
func (d *dynamicWorld) Wipe(node string) {
	h := d.down(node)
	h.disk = disk{made: h.disk.made}
	d.w.note(h, "has its directory wiped")
}

// Writes returns how often a node's directory has been written.
func (d *dynamicWorld) Writes(node string) uint64 { return d.w.host(node).disk.state.Writes }

// PutBack replaces the directory of a stopped node by the copy made after the given number of
// writes.
func (d *dynamicWorld) PutBack(node string, writes uint64) {
	h := d.down(node)
	for _, s := range h.disk.copies {
		if s.Writes == writes {
			h.disk.state = s
			d.w.note(h, "has its directory put back from a copy of %d writes", writes)
			return
		}
	}
	panic(fmt.Sprintf("sim: no copy of %s's directory has %d writes", node, writes))
}

func (d *dynamicWorld) down(node string) *host {
	h := d.w.host(node)
	if h.p != nil {
		panic(fmt.Sprintf("sim: %s is running", node))
	}
	return h
}

// BreakDisk makes a node's disk reject all writes, until MendDisk.
func (d *dynamicWorld) BreakDisk(node string) { d.w.host(node).disk.broken = true }

// MendDisk ends BreakDisk.
func (d *dynamicWorld) MendDisk(node string) { d.w.host(node).disk.broken = false }

// Gray cuts a node off from others in both directions, except for gossip.
func (d *dynamicWorld) Gray(node string, others ...string) { d.grays(node, others, 1) }

// MendGray ends one Gray.
func (d *dynamicWorld) MendGray(node string, others ...string) { d.grays(node, others, -1) }

func (d *dynamicWorld) grays(node string, others []string, by int) {
	for _, o := range others {
		d.w.nemesis.setGray(d.w.host(node), d.w.host(o), by)
		d.w.nemesis.setGray(d.w.host(o), d.w.host(node), by)
	}
}

// ReportFailed makes a node's gossip report all other nodes as failed, until StopReportingFailed.
func (d *dynamicWorld) ReportFailed(node string) { d.reportFailed[d.w.host(node)]++ }

// StopReportingFailed ends one ReportFailed.
func (d *dynamicWorld) StopReportingFailed(node string) { d.reportFailed[d.w.host(node)]-- }

// when calls then as soon as a node has sent a message of a kind, or has received and handled such
// a message.
func (d *dynamicWorld) when(node string, sends bool, kind vote.Kind, then func()) {
	h := d.w.host(node)
	b := &ambush{kind: kind, sends: sends, after: true}
	b.kill = func() {
		if h.ambush == b {
			h.ambush = nil
			then()
		}
	}
	h.ambush = b
}
