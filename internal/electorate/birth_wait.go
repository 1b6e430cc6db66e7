package electorate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A birth waits while a live process may know of an electorate. A process that knows an electorate
// without a majority gives the electorate up after [AbandonAfter]. A process that is seen by
// gossip, and doesn't answer, may never answer: gossip shows a dead process for seconds, and where
// processes crash in a loop there is always such a process. So the birth waits for AbandonAfter at
// most, unless as many processes as a majority needs have each been silent for so long: they may be
// a mesh behind a broken network. A process that reported last that it knows no electorate (a
// *fresh* process) isn't waited for.
//
// A founder *pledges* to found a mesh with a set of processes; the mesh is born when all of the set
// have pledged. Of the founders only the first to pledge waits for processes that may be dead. Each
// founder sees other dead processes at other times: if each had to wait, a pledge would be given up
// before the others had pledged.

// awaited returns a process for which the birth waits, by a rule; nil without such a process. If
// the register names an ended mesh, no process waits: an electorate that another process knows is
// that of the ended mesh.
func (m *Machine) awaited(by func() *other) *other {
	if m.registers() && m.mayFound() && !m.register.record.IsZero() {
		return nil
	}
	return by()
}

// waitsForAnswer returns a process that may know of an electorate, and for an answer of which the
// birth waits; nil without such a process.
func (m *contactLayer) waitsForAnswer() *other {
	if o := m.anotherMesh(); o != nil {
		return o
	}
	if _, silent := m.mayKnowMesh(); len(silent) > 0 && (m.silentSince == 0 || m.now.Slow.Sub(m.silentSince) < AbandonAfter(m.maxTTL())) {
		return silent[0]
	}
	return nil
}

// anotherMesh returns a process that has reported an electorate; or the first of the silent
// processes if as many have each been silent for long as a majority needs; nil without such a
// process.
func (m *contactLayer) anotherMesh() *other {
	knows, silent := m.mayKnowMesh()
	if knows != nil {
		return knows
	}
	long := slices.DeleteFunc(silent, func(o *other) bool {
		return m.now.Slow.Sub(max(o.firstSeen, o.reportedAt)) < AbandonAfter(m.maxTTL())
	})
	if len(long) < m.smallestMajority() {
		return nil
	}
	return long[0]
}

// noteSilence notes since when the birth has waited for processes that don't answer.
func (m *contactLayer) noteSilence() {
	switch _, silent := m.mayKnowMesh(); {
	case len(silent) == 0:
		m.silentSince = 0
	case m.silentSince == 0:
		m.silentSince = m.now.Slow
	}
}

// mayKnowMesh returns a process that has reported an electorate, or else the live processes that
// don't answer, and may know one.
func (m *contactLayer) mayKnowMesh() (knows *other, silent []*other) {
	for _, name := range m.AppendWanted(nil) {
		o := m.others[name]
		switch {
		case o == nil || !m.mayKnow(o):
		case m.recent(o):
			return o, nil
		case !m.wasFresh(o):
			silent = append(silent, o)
		}
	}
	return nil, silent
}

// wasFresh reports whether a process that doesn't answer knew no electorate when this process, or a
// fresh process that reaches both, last heard of it.
func (m *contactLayer) wasFresh(o *other) bool {
	if o.dir == 0 {
		return false
	}
	if o.confirmed && o.report.dir == o.dir && o.report.founding && m.now.Slow.Sub(o.reportedAt) < AbandonAfter(m.maxTTL()) {
		return true
	}
	for _, p := range m.others { // in any order
		if m.isFresh(p) && slices.Contains(p.report.contacts, vote.Elector{Name: o.name, Dir: o.dir}) {
			return true
		}
	}
	return false
}

// smallestMajority returns how many processes at least are a majority of any electorate.
func (m *stateLayer) smallestMajority() int { return m.cfg.MinVoters/2 + 1 }

// answerText describes the wait for the answer of a process.
func (m *contactLayer) answerText(o *other) string {
	if m.recent(o) {
		return fmt.Sprintf("%s knows an electorate: waits until a majority of it is back, or %s gives it up after %v without a majority", o.name, o.name, AbandonAfter(m.maxTTL()))
	}
	return fmt.Sprintf("waits for an answer of %s, which gossip sees alive, and which may know of an electorate. If this lasts, %s is restarted again and again, or packets (UDP) "+
		"reach it and connections (TCP) don't: open its port for both, or end it", o.name, o.name)
}
