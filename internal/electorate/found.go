package electorate

import (
	"hash/fnv"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// founding reports whether this node waits to found version 1 with the other founders.
func (m *Machine) founding() bool {
	return m.cfg.Found && m.state.Electorate.Version == 0 && m.Trusted() && slices.Contains(m.cfg.Founders, m.cfg.Self.Node)
}

// found founds version 1, with all founders at once: each pledges its directory to the very same set, once and for ever, and whoever
// knows the pledges of all goes by it. So two sets that are both founded have no directory in common: whatever was founded before,
// each of its founders has lost its directory since, and was told to found again.
func (m *Machine) found() {
	if !m.founding() {
		return
	}
	for _, name := range m.Wanted() {
		if o := m.others[name]; o != nil && m.mayKnow(o) {
			return
		}
	}
	if len(m.cfg.Founders) == 1 && m.now.Slow.Sub(m.started) < SettleAfter(m.cfg.MaxTTL) {
		return // whoever founds alone meets the others first, if there are any: its directory may have been lost
	}
	founders := []vote.Elector{m.Elector()}
	for _, name := range m.cfg.Founders {
		if name == m.cfg.Self.Node {
			continue
		}
		o := m.others[name]
		if o == nil || !m.recent(o) || !o.told.founding || o.told.dir == 0 {
			return // all of them, not most: those who are missing may know of an electorate
		}
		founders = append(founders, vote.Elector{Name: name, Dir: o.told.dir})
	}
	slices.SortFunc(founders, vote.Elector.Compare)
	if len(m.state.Pledge) == 0 {
		m.state.Pledge, m.pending = founders, true
		return
	}
	if !slices.Equal(m.stored.Pledge, founders) {
		return
	}
	for _, v := range founders {
		if v != m.Elector() && !slices.Equal(m.others[v.Name].told.pledge, founders) {
			return
		}
	}
	m.adopt(&vote.Electorate{Version: 1, Lineage: lineage(founders), Voters: founders})
}

// mayKnow reports whether another is there and may know of an electorate, so that none is founded before it has said that it doesn't.
func (m *Machine) mayKnow(o *other) bool {
	return o.seen == Alive && (!m.recent(o) || o.told.elected != 0)
}

// lineage names a founding.
func lineage(founders []vote.Elector) uint64 {
	h := fnv.New64a()
	for _, v := range founders {
		_, _ = h.Write([]byte(v.Name))
		var b [9]byte
		for i := range 8 {
			b[i+1] = byte(v.Dir >> (8 * i))
		}
		_, _ = h.Write(b[:])
	}
	return h.Sum64() | 1
}
