package sim

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The actions of a scenario on a world with dynamic membership.

// Electorate returns the newest electorate that any node applies; its version is zero if there is
// none.
func (fs *dynamicWorld) Electorate() vote.Electorate { return fs.decided[fs.newest] }

// Voting reports whether exactly the named nodes vote in the newest electorate, and the electorate
// is final.
func (fs *dynamicWorld) Voting(names ...string) bool {
	e := fs.Electorate()
	if e.Joint() || len(e.Voters) != len(names) {
		return false
	}
	for _, name := range names {
		h := fs.w.host(name)
		if !e.Has(vote.Elector{Name: h.name, Dir: h.disk.state.Dir}) {
			return false
		}
	}
	return true
}

// Knows returns the version of the electorate that a node applies; zero if the node isn't running
// or knows no electorate.
func (fs *dynamicWorld) Knows(node string) uint64 {
	if p := fs.w.host(node).p; p != nil && p.m.Known() != nil {
		return p.m.Known().Version
	}
	return 0
}

// Leave makes a node ask to be voted out, if the others can do without its vote. Stopping the node
// is left to the scenario.
func (fs *dynamicWorld) Leave(node string) {
	p := fs.w.host(node).p
	fs.w.note(p.host, "leaves")
	p.m.LeaveElectorate(p.read(fs.w.now))
	fs.w.settle(p)
}

// Lose ends a node with its machine and its disk, for good.
func (fs *dynamicWorld) Lose(node string) {
	h := fs.w.host(node)
	fs.w.crash(h, endingSilent, nil)
	h.retired, h.disk = true, disk{made: h.disk.made}
	fs.w.note(h, "is gone for good")
	fs.w.order.disturb()
}

// Wipe empties the directory of a stopped node. The node comes back as a different voter of the
// same name.
func (fs *dynamicWorld) Wipe(node string) {
	h := fs.down(node)
	h.disk = disk{made: h.disk.made}
	fs.w.note(h, "has its directory wiped")
}

// Writes returns how often a node's directory has been written.
func (fs *dynamicWorld) Writes(node string) uint64 { return fs.w.host(node).disk.state.Writes }

// PutBack replaces the directory of a stopped node by the copy made after the given number of
// writes.
func (fs *dynamicWorld) PutBack(node string, writes uint64) {
	h := fs.down(node)
	for _, s := range h.disk.copies {
		if s.Writes == writes {
			h.disk.state = s
			fs.w.note(h, "has its directory put back from a copy of %d writes", writes)
			return
		}
	}
	panic(fmt.Sprintf("sim: no copy of %s's directory has %d writes", node, writes))
}

func (fs *dynamicWorld) down(node string) *host {
	h := fs.w.host(node)
	if h.p != nil {
		panic(fmt.Sprintf("sim: %s is running", node))
	}
	return h
}

// BreakDisk makes a node's disk reject all writes, until MendDisk.
func (fs *dynamicWorld) BreakDisk(node string) { fs.w.host(node).disk.broken = true }

// MendDisk ends BreakDisk.
func (fs *dynamicWorld) MendDisk(node string) { fs.w.host(node).disk.broken = false }

// Gray cuts a node off from others in both directions, except for gossip.
func (fs *dynamicWorld) Gray(node string, others ...string) { fs.grays(node, others, 1) }

// MendGray ends one Gray.
func (fs *dynamicWorld) MendGray(node string, others ...string) { fs.grays(node, others, -1) }

func (fs *dynamicWorld) grays(node string, others []string, by int) {
	for _, o := range others {
		fs.w.nemesis.setGray(fs.w.host(node), fs.w.host(o), by)
		fs.w.nemesis.setGray(fs.w.host(o), fs.w.host(node), by)
	}
}

// ReportFailed makes a node's gossip report all other nodes as failed, until StopReportingFailed.
func (fs *dynamicWorld) ReportFailed(node string) { fs.reportFailed[fs.w.host(node)]++ }

// StopReportingFailed ends one ReportFailed.
func (fs *dynamicWorld) StopReportingFailed(node string) { fs.reportFailed[fs.w.host(node)]-- }

// when calls then as soon as a node has sent a message of a kind, or has received and handled such
// a message.
func (fs *dynamicWorld) when(node string, sends bool, kind vote.Kind, then func()) {
	h := fs.w.host(node)
	b := &ambush{kind: kind, sends: sends, after: true}
	b.kill = func() {
		if h.ambush == b {
			h.ambush = nil
			then()
		}
	}
	h.ambush = b
}
