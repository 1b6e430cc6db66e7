package explore

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// calmTicks bounds how many ticks a waiting request may still take to be served once no more faults
// occur: a voter's startup quarantine and its token queries, the end of a session, and the same
// time again.
const calmTicks = 4*ticksPerTTL + 2

// served follows a state without further faults until no request waits: all late messages arrive,
// connections come up, crashed nodes start, holders release their keys (unless they wait for more),
// and if nothing else can happen, time passes. A request that waits forever is a violation.
func (x *explorer) served(s state) string {
	found := x.report
	defer func() { x.report = found }()
	s.locks, s.breaks, s.crashes = [maxClients]uint8{}, 0, 0
	var met []uint64
	wrong := ""
	for idle := 0; wrong == ""; {
		s.late, s.ticks = 200, 200
		st, ok := x.next(&s)
		if !ok { // nothing is under way
			if !x.waits(&s) {
				break
			}
			s.late, s.ticks = 0, 0
			h := x.hash(&s)
			if x.calm[h] {
				break
			}
			met = append(met, h)
			s.late, s.ticks = 200, 200
			if st, ok = x.giveBack(&s); ok {
				idle = 0
			} else if idle++; idle > calmTicks || s.tick > 250 {
				return x.starving(&s)
			} else {
				st = Step{kind: stepTick}
			}
		}
		wrong = x.apply(&s, st)
	}
	if wrong != "" {
		return wrong
	}
	for _, h := range met {
		x.calm[h] = true
	}
	return ""
}

// next returns a step that completes something under way.
func (x *explorer) next(s *state) (Step, bool) {
	if st, ok := x.prompt(s); ok {
		return st, true
	}
	for _, st := range x.steps(s, nil) {
		switch st.kind {
		case stepDeliver, stepNotice, stepLink, stepAsk, stepAnswer, stepStart:
			return st, true
		}
	}
	return Step{}, false
}

// giveBack returns the step in which a client releases a held key.
func (x *explorer) giveBack(s *state) (Step, bool) {
	for c := range x.clients {
		for k := range x.o.Keys {
			if u := &x.locals.all[s.nodes[x.node(c)]].users[k]; u.state == holding && !u.waits() {
				return Step{kind: stepRelease, a: uint8(c), key: uint8(k)}, true
			}
		}
	}
	return Step{}, false
}

// starving describes a violation by the waiting clients.
func (x *explorer) starving(s *state) string {
	var all []vote.NodeID
	for c := range x.clients {
		for _, u := range x.locals.all[s.nodes[x.node(c)]].users {
			if u.waits() {
				all = append(all, x.names[x.node(c)])
			}
		}
	}
	return fmt.Sprintf("waiting: %v would wait without end, though nothing goes wrong any more", all)
}
