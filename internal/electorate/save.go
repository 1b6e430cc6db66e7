package electorate

import (
	"fmt"
	"time"
)

// SaveLimit returns how long a save may be under way before the save counts as trouble. A healthy
// disk answers within milliseconds, and a busy disk within a second. A disk that takes longer than
// a maximum TTL (a frozen file system, a dead network disk) blocks every change of the electorate
// that needs this node, like a failing disk.
func SaveLimit(maxTTL time.Duration) time.Duration { return maxTTL }

// cannotSave returns why the state directory can't be written; empty while saves succeed. A save
// under way can't be aborted, so an overdue save is trouble until its end.
func (m *stateLayer) cannotSave() string {
	switch {
	case m.stuck != "":
		return "the state directory can't be written: " + m.stuck
	case m.saveOverdue():
		return fmt.Sprintf("the state directory can't be written: the disk has not answered for %.1fs", m.now.Slow.Sub(m.savingFrom).Seconds())
	}
	return ""
}

func (m *stateLayer) saveOverdue() bool {
	return m.savingNow && m.now.Slow.Sub(m.savingFrom) >= SaveLimit(m.maxTTL())
}

// watchSave raises an alarm once for each overdue save.
func (m *stateLayer) watchSave() {
	if m.saveOverdue() && !m.overdue {
		m.overdue = true
		if m.stuck == "" { // otherwise an alarm has reported the failed saves already
			m.alarms = append(m.alarms, m.cannotSave()+". This node takes no part in changes of the electorate until the disk answers; it goes on voting on locks")
		}
	}
}
