package mismatch

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// duplicate is the state about another live process with this node's name.
type duplicate struct {
	alarmedAbout vote.Incarnation // of the process that the last alarm was about
	counted      bool             // PhaseDuplicate: this voter had counted by then
	// until is when the other process is presumed gone, in PhaseDuplicate, if this voter had not
	// counted.
	until vote.Instant
}

// seeDuplicate records a handshake with another live process of this node's name. The process that
// started later withdraws, since its operator could have known of the other process.
//
// A voter that had counted doesn't count again in this incarnation, since a new cut looks the same
// as the end of the other process. A voter that had not counted has promised nothing, and may count
// again once the other process has been silent for a while.
func (m *Machine) seeDuplicate(now vote.Now, s *vote.Sighting) {
	if m.phase == PhaseLeaving || s.Standing == vote.StandingLeaving {
		return
	}
	older := byAge(now.Slow-vote.Instant(s.Up), m.started)
	if older == 0 && s.Peer.Incarnation < m.self.Incarnation {
		older = 1
	}
	known := m.dup.alarmedAbout == s.Peer.Incarnation
	m.dup.alarmedAbout = s.Peer.Incarnation
	if older <= 0 {
		if !known {
			m.alarms = append(m.alarms, fmt.Sprintf(
				"another live process at %s is called %q too (incarnation %x), and was started "+
					"after this one: it withdraws. Locks that were granted since it started, %v "+
					"ago, by either of the two may have had two holders. Stop it, or give it "+
					"another name",
				s.Addr, m.self.Node, uint64(s.Peer.Incarnation), s.Up.Round(time.Millisecond)))
		}
		return
	}
	if m.phase == PhaseDuplicate {
		m.dup.until = now.Slow.Add(m.duplicateFor())
		return
	}
	m.dup.counted, m.dup.until = m.phase == PhaseCounting, now.Slow.Add(m.duplicateFor())
	m.phase = PhaseDuplicate
	m.reason = fmt.Sprintf("another, older live process at %s is called %q too; stop one of the two, "+
		"or rename it; then restart this process",
		s.Addr, m.self.Node)
	if !m.dup.counted {
		return // the shell reports the duplicate, and no lock was granted by both
	}
	m.alarms = append(m.alarms, fmt.Sprintf(
		"another live process at %s is called %q too (incarnation %x), and was started before "+
			"this one: this process withdraws. Its voter doesn't count any more, and its leases "+
			"are lost. Locks that were granted since this process started, %v ago, by either of "+
			"the two may have had two holders. Stop one of the two, or rename it; then restart "+
			"this process",
		s.Addr, m.self.Node, uint64(s.Peer.Incarnation), now.Slow.Sub(m.started).Round(time.Millisecond)))
}

// LinkRefusal returns why other nodes must look for this node's name elsewhere: this process has
// counted, and gave way to an older process with its name.
func (m *Machine) LinkRefusal() string {
	if m.phase == PhaseDuplicate && m.dup.counted {
		return fmt.Sprintf("this process is a duplicate of %q and has withdrawn in favor of an "+
			"older one", m.self.Node)
	}
	return ""
}

// duplicateFor returns how long an older process with this node's name is remembered.
func (m *Machine) duplicateFor() time.Duration { return max(m.terms.MaxTTL, settleLeast) }

// endDuplicate lets a voter that had not counted come back once the other process has not been
// heard of for a while.
func (m *Machine) endDuplicate(now vote.Now) {
	if m.phase == PhaseDuplicate && !m.dup.counted && now.Slow >= m.dup.until {
		m.phase, m.pause.votersEnd = PhaseFree, 0
	}
}
