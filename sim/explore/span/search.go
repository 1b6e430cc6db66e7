package span

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// step is a possible step.
type step struct {
	what rune
	a, b uint8
}

// steps appends all possible steps.
func (m *model) steps(s *state, todo []step) []step {
	todo = append(todo, step{'t', 0, 0})
	if s.decided == first || m.drained(s) {
		todo = append(todo, step{'d', s.decided + 1, 0})
	}
	for i := range m.nodes {
		v := &s.voters[i]
		for version := v.version + 1; version <= s.decided; version++ {
			todo = append(todo, step{'v', uint8(i), version})
		}
		for c := range clients {
			if m.counting(s, i) && (v.vote == 0 || int(v.vote) == c+1) {
				todo = append(todo, step{'a', uint8(i), uint8(c)})
			}
		}
		if s.crashes > 0 {
			todo = append(todo, step{'c', uint8(i), 0})
		}
	}
	for c := range clients {
		for version := s.clients[c].known + 1; version <= s.decided; version++ {
			todo = append(todo, step{'k', uint8(c), version})
		}
	}
	return todo
}

func (m *model) apply(s *state, st step) {
	v := &s.voters[st.a%maxVoters]
	switch st.what {
	case 't':
		m.tick(s)
	case 'd':
		s.decided = st.a
	case 'v':
		v.version = st.b
	case 'a':
		m.acknowledge(s, int(st.a), int(st.b))
	case 'c':
		s.crashes--
		version, quiet := v.version, uint8(length)
		if m.o.mutant == forgets {
			version = first
		}
		if m.o.mutant == noQuiet {
			quiet = 0
		}
		*v = voter{version: version, quiet: quiet, seen: v.seen}
	case 'k':
		m.learn(s, int(st.a), st.b)
	}
	m.looks(s)
}

func (m *model) tick(s *state) {
	down := func(n *uint8) {
		if *n > 0 {
			*n--
		}
	}
	for i := range m.nodes {
		v := &s.voters[i]
		down(&v.left)
		down(&v.quiet)
		if v.left == 0 {
			v.vote = 0
		}
		for c := range s.clients {
			down(&s.clients[c].newest[i])
			down(&s.clients[c].before[i])
		}
	}
	if s.drain > 0 && s.drain <= length {
		s.drain++
	}
}

// canonical exchanges the clients where the exchange makes the state smaller: the clients are
// interchangeable.
func (m *model) canonical(s *state) (exchanged bool) {
	x, y := &s.clients[0], &s.clients[1]
	less := cmp.Or(cmp.Compare(x.known, y.known), bytes.Compare(x.newest[:], y.newest[:]), bytes.Compare(x.before[:], y.before[:]))
	for i := 0; i < m.nodes && less == 0; i++ {
		less = []int{0, -1, 1}[s.voters[i].vote] // the first voter with a vote votes for x
	}
	if less <= 0 {
		return false
	}
	s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	for i := range m.nodes {
		if v := &s.voters[i]; v.vote > 0 {
			v.vote = 3 - v.vote
		}
	}
	return true
}

// way is the first path to a state.
type way struct {
	s      state
	before int32
	step   step

	exchanged bool // the clients were exchanged afterwards
}

// Run explores everything that can happen within the limits, breadth first.
func Run(o Options) (*Report, error) {
	m, err := newModel(o)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	s := state{decided: first, crashes: uint8(o.Crashes)}
	for i := range m.nodes {
		s.voters[i].version = first
	}
	for c := range s.clients {
		s.clients[c].known = first
	}
	met := map[state]struct{}{s: {}}
	ways := []way{{s: s}}
	var todo []step
	for at, end := 0, 1; at < len(ways); at++ {
		if at == end {
			r.Depth++
			end = len(ways)
		}
		if o.MaxStates > 0 && len(ways) >= o.MaxStates {
			r.States = len(ways)
			return r, nil
		}
		todo = m.steps(&ways[at].s, todo[:0])
		for _, st := range todo {
			r.Transitions++
			after := ways[at].s
			m.apply(&after, st)
			exchanged := m.canonical(&after)
			if _, ok := met[after]; ok {
				continue
			}
			met[after] = struct{}{}
			ways = append(ways, way{after, int32(at), st, exchanged})
			held := 0
			for c := range clients {
				if m.holds(&after, c) {
					held++
					r.Held[after.clients[c].known]++
				}
			}
			if held == clients {
				r.States, r.Violation = len(ways), explain(ways)
				return r, nil
			}
		}
	}
	r.States, r.Exhausted = len(ways), true
	return r, nil
}

// explain returns the steps to the last visited state, with the clients' original names.
func explain(ways []way) *Violation {
	var all []way
	for at := len(ways) - 1; at > 0; at = int(ways[at].before) {
		all = append(all, ways[at])
	}
	slices.Reverse(all)
	v := &Violation{}
	exchanged := false
	for _, w := range all {
		st := w.step
		switch {
		case exchanged && st.what == 'a':
			st.b = 1 - st.b
		case exchanged && st.what == 'k':
			st.a = 1 - st.a
		}
		v.Steps = append(v.Steps, st.String())
		exchanged = exchanged != w.exchanged
	}
	return v
}

func (st step) String() string {
	a, x := 'a'+rune(st.a), 'x'+rune(st.a)
	switch st.what {
	case 't':
		return "tick"
	case 'd':
		return fmt.Sprintf("electorate %d is decided", st.a)
	case 'v':
		return fmt.Sprintf("%c applies electorate %d", a, st.b)
	case 'a':
		return fmt.Sprintf("%c acknowledges %c", a, 'x'+rune(st.b))
	case 'c':
		return fmt.Sprintf("%c crashes", a)
	}
	return fmt.Sprintf("%c hears of electorate %d", x, st.b)
}
