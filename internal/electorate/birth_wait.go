package electorate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A birth waits while a live process may know of an electorate. A process that knows an electorate
// without a majority gives the electorate up in time. A process that is seen by gossip, and doesn't
// answer, may never answer. The birth goes on after [AbandonAfter] without an answer if all silent
// processes together are too few for a majority: no mesh lives by these processes alone. More
// silent processes may be a mesh behind a broken network, and are waited for without end.

// awaited returns a process for which the birth waits; nil without such a process. If the register
// names an ended mesh, the knowledge of others is of no use.
func (m *Machine) awaited() *other {
	if m.registers() && m.mayFound() && !m.register.record.IsZero() {
		return nil
	}
	return m.waitsForAnswer()
}

// waitsForAnswer returns a process that may know of an electorate, and for an answer of which the
// birth waits; nil without such a process.
func (m *contactLayer) waitsForAnswer() *other {
	o, silent := m.mayKnowMesh()
	if silent > 0 && silent < m.smallestMajority() && m.silentSince != 0 && m.now.Slow.Sub(m.silentSince) >= AbandonAfter(m.maxTTL()) {
		return nil
	}
	return o
}

// noteSilence notes since when the birth has waited for processes that don't answer.
func (m *contactLayer) noteSilence() {
	switch _, silent := m.mayKnowMesh(); {
	case silent == 0:
		m.silentSince = 0
	case m.silentSince == 0:
		m.silentSince = m.now.Slow
	}
}

// mayKnowMesh returns a live process that may know of an electorate: one that has said so, or else
// one that hasn't answered, and the number of those.
func (m *contactLayer) mayKnowMesh() (o *other, silent int) {
	for _, name := range m.AppendWanted(nil) {
		p := m.others[name]
		switch {
		case p == nil || !m.mayKnow(p) || m.isFreshToOthers(p):
		case m.recent(p):
			return p, 0
		default:
			o, silent = p, silent+1
		}
	}
	return o, silent
}

// smallestMajority returns how many processes at least are a majority of any electorate.
func (m *stateLayer) smallestMajority() int { return m.cfg.MinVoters/2 + 1 }

// isFreshToOthers reports whether this process doesn't reach another, and a fresh process that
// reaches both reports the other as fresh.
func (m *contactLayer) isFreshToOthers(o *other) bool {
	if m.recent(o) || o.dir == 0 {
		return false
	}
	for _, p := range m.others { // in any order
		if m.isFresh(p) && slices.Contains(p.report.contacts, vote.Elector{Name: o.name, Dir: o.dir}) {
			return true
		}
	}
	return false
}

// answerText describes the wait for the answer of a process.
func (m *contactLayer) answerText(o *other) string {
	if m.recent(o) {
		return fmt.Sprintf("%s knows an electorate: waits until a majority of it is back, or %s gives it up after %v without a majority", o.name, o.name, AbandonAfter(m.maxTTL()))
	}
	return fmt.Sprintf("waits for an answer of %s, which gossip sees alive, and which may know of an electorate. If this lasts, %s is restarted again and again, or packets (UDP) "+
		"reach it and connections (TCP) don't: open its port for both, or end it", o.name, o.name)
}
