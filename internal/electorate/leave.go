package electorate

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Leave has this node voted out, as far as the others can do without it.
func (m *Machine) Leave(now vote.Now) {
	m.begin(now)
	m.leaving = true
	m.pollAt = m.now.Slow
	m.move()
	m.finish()
}

// stays says why this node, which wants to leave, can't be voted out as things are, so that it needn't wait for it.
func (m *Machine) stays() string {
	e := &m.state.Electorate
	switch {
	case !m.leaving || !m.Votes():
		return ""
	case m.away != 0 && m.now.Slow.Sub(m.away) >= m.cfg.MaxTTL:
		return fmt.Sprintf("too few of the voters %s are there to decide it", names(e.Deciding()))
	case e.Joint():
		return ""
	}
	others := 0
	for _, v := range e.Voters {
		if m.gone(v) == "" {
			others++
		}
	}
	for _, o := range m.sorted() {
		if m.standby(o) && !e.Has(vote.Elector{Name: o.name, Dir: o.dir}) {
			others++
		}
	}
	switch {
	case others >= 2 || len(e.Voters) > 2 || len(e.Voters) == 1 && others > 0:
		return ""
	case len(e.Voters) == 1:
		return "it is the only voter, and nobody stands by"
	}
	return "it is one of two voters, and an electorate doesn't shrink to one by itself"
}
