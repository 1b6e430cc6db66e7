package sim

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The actions of a scenario on a world with dynamic membership.

// Electorate returns the newest electorate that any node goes by; its version is zero if there is
// none.
func (w *World) Electorate() vote.Electorate { return w.decided[w.newest] }

// Voting reports whether exactly the named nodes vote in the newest electorate, and the electorate
// is final.
func (w *World) Voting(names ...string) bool {
	e := w.Electorate()
	if e.Joint() || len(e.Voters) != len(names) {
		return false
	}
	for _, name := range names {
		h := w.host(name)
		if !e.Has(vote.Elector{Name: h.name, Dir: h.disk.state.Dir}) {
			return false
		}
	}
	return true
}

// Knows returns the version of the electorate that a node goes by; zero if the node isn't running
// or knows no electorate.
func (w *World) Knows(node string) uint64 {
	if p := w.host(node).p; p != nil && p.m.Known() != nil {
		return p.m.Known().Version
	}
	return 0
}

// Leave makes a node ask to be voted out, if the others can do without its vote. Stopping the node
// is left to the scenario.
func (w *World) Leave(node string) {
	p := w.host(node).p
	w.note(p.host, "leaves")
	p.m.LeaveElectorate(p.read(w.now))
	w.settle(p)
}

// Lose ends a node with its machine and its disk, for good.
func (w *World) Lose(node string) {
	h := w.host(node)
	w.crash(h, endingSilent, nil)
	h.retired, h.disk = true, disk{made: h.disk.made}
	w.note(h, "is gone for good")
	w.disturb()
}

// Wipe empties the directory of a stopped node. The node comes back as a different voter of the
// same name.
func (w *World) Wipe(node string) {
	h := w.down(node)
	h.disk = disk{made: h.disk.made}
	w.note(h, "has its directory wiped")
}

// Writes returns how often a node's directory has been written.
func (w *World) Writes(node string) uint64 { return w.host(node).disk.state.Writes }

// PutBack replaces the directory of a stopped node by the copy made after the given number of
// writes.
func (w *World) PutBack(node string, writes uint64) {
	h := w.down(node)
	for _, s := range h.disk.copies {
		if s.Writes == writes {
			h.disk.state = s
			w.note(h, "has its directory put back from a copy of %d writes", writes)
			return
		}
	}
	panic(fmt.Sprintf("sim: no copy of %s's directory has %d writes", node, writes))
}

func (w *World) down(node string) *host {
	h := w.host(node)
	if h.p != nil {
		panic(fmt.Sprintf("sim: %s is running", node))
	}
	return h
}

// BreakDisk makes a node's disk reject all writes, until MendDisk.
func (w *World) BreakDisk(node string) { w.host(node).disk.broken = true }

// MendDisk ends BreakDisk.
func (w *World) MendDisk(node string) { w.host(node).disk.broken = false }

// FreezeDisk makes new saves on a node's disk neither end nor fail, until ThawDisk. A save under
// way isn't affected.
func (w *World) FreezeDisk(node string) { w.host(node).disk.frozen = true }

// ThawDisk ends FreezeDisk, and completes the waiting saves.
func (w *World) ThawDisk(node string) {
	d := &w.host(node).disk
	for _, saved := range d.waits {
		saved.at = w.now + 1
		w.push(saved)
	}
	d.frozen, d.waits = false, nil
}

// Gray cuts a node off from others in both directions, except for gossip.
func (w *World) Gray(node string, others ...string) { w.grays(node, others, 1) }

// MendGray ends one Gray.
func (w *World) MendGray(node string, others ...string) { w.grays(node, others, -1) }

func (w *World) grays(node string, others []string, by int) {
	for _, o := range others {
		w.setGray(w.host(node), w.host(o), by)
		w.setGray(w.host(o), w.host(node), by)
	}
}

// Accuse makes a node's gossip report all other nodes as failed, until Acquit.
func (w *World) Accuse(node string) { w.accused[w.host(node)]++ }

// Acquit ends one Accuse.
func (w *World) Acquit(node string) { w.accused[w.host(node)]-- }

// when calls then as soon as a node has sent a message of a kind, or has received and handled such
// a message.
func (w *World) when(node string, says bool, word vote.Kind, then func()) {
	h := w.host(node)
	b := &ambush{word: word, says: says, after: true}
	b.kill = func() {
		if h.ambush == b {
			h.ambush = nil
			then()
		}
	}
	h.ambush = b
}
