package sim

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// What a scenario does to a world whose electorate follows the living.

// Electorate returns the newest electorate that any node goes by; its version is zero while there is none.
func (w *World) Electorate() vote.Electorate { return w.decided[w.newest] }

// Voting reports whether exactly these nodes vote in the newest electorate, and it is final.
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

// Knows returns the version of the electorate that a node goes by; zero if it runs not or knows none.
func (w *World) Knows(node string) uint64 {
	if p := w.host(node).p; p != nil && p.m.Known() != nil {
		return p.m.Known().Version
	}
	return 0
}

// Leave has a node voted out, as far as the others can do without it. The scenario stops it when it sees fit.
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

// Wipe empties the directory of a node that is down. It comes back as another voter of the same name.
func (w *World) Wipe(node string) {
	h := w.down(node)
	h.disk = disk{made: h.disk.made}
	w.note(h, "has its directory wiped")
}

// Writes returns how often a node's directory has been written.
func (w *World) Writes(node string) uint64 { return w.host(node).disk.state.Writes }

// PutBack replaces the directory of a node that is down by a copy that was made when it had been written so often.
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

// BreakDisk has a node's disk take no writes any more; MendDisk ends it.
func (w *World) BreakDisk(node string) { w.host(node).disk.broken = true }

// MendDisk ends BreakDisk.
func (w *World) MendDisk(node string) { w.host(node).disk.broken = false }

// Accuse has a node's gossip take all others for dead; Acquit ends it.
func (w *World) Accuse(node string) { w.accused[w.host(node)]++ }

// Acquit ends one Accuse.
func (w *World) Acquit(node string) { w.accused[w.host(node)]-- }

// when does something as soon as a node says a word, or hears and heeds it.
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
