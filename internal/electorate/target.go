package electorate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// roll lists the candidates for the next electorate.
type roll struct {
	stay    []vote.Elector // reliable voters, and voters in doubt
	absent  []vote.Elector // unreliable voters, the likeliest to come back first
	parting []vote.Elector // voters giving up their seats
	in      []vote.Elector // nodes on standby
	reasons []string       // for each voter of the electorate, why the voter is absent or parts
}

// roll returns the candidates for the next electorate.
func (m *contactLayer) roll() roll {
	e := &m.state.Electorate
	r := roll{reasons: make([]string, len(e.Voters))}
	for i, v := range e.Voters {
		d, reason := m.decisionOn(v)
		r.reasons[i] = reason
		if reason == sameNameReason && len(e.Voters) < m.leastVoters() {
			d = absent // one after the other: its predecessor keeps the seat until then
		}
		switch d {
		case stays:
			r.stay = append(r.stay, v)
		case absent:
			r.absent = append(r.absent, v)
		case parts:
			r.parting = append(r.parting, v)
		}
	}
	slices.SortStableFunc(r.absent, func(v, w vote.Elector) int { return cmp.Compare(m.lastOf(w), m.lastOf(v)) })
	for _, o := range m.sorted() {
		named := func(v vote.Elector) bool { return v.Name == o.name }
		if m.standby(o) && !slices.ContainsFunc(e.Voters, named) {
			r.in = append(r.in, vote.Elector{Name: o.name, Dir: o.dir})
		}
	}
	return r
}

// lastOf returns when a voter was last heard. A voter with a lost directory is never heard again.
func (m *contactLayer) lastOf(v vote.Elector) vote.Instant {
	if o := m.others[v.Name]; o.report.dir == v.Dir && o.copied != v.Dir {
		return o.reportedAt
	}
	return 0
}

// target returns who should vote instead of the present voters, in order, and the reason; nil if no
// change is needed.
//
// An absent voter keeps its seat unless another node takes the seat, or the required majority
// becomes smaller without it. Three voters with one away go on as long as the two others agree. Two
// voters would need the same two, but of three voters the absent voter may come back and stand in
// for the next voter that fails. See [seats].
//
// When a voter of three leaves for good without a replacement, two voters are kept, since only an
// operator may choose a single voter. If a node has just started and is about to be on standby, the
// leaving voter votes until then: else a rolling restart by Leave could turn five voters into two.
// The remaining voters are a majority of the new voters, so newcomers crashing at once block
// nothing; only a single voter takes in two newcomers at a time.
func (m *Machine) target() (target []vote.Elector, reason string) {
	e := &m.state.Electorate
	r := m.roll()
	stay, in := r.stay, r.in
	// The two halves of a joint electorate together are bounded, too.
	in = in[:min(len(in), vote.MaxVoters-len(e.Voters))]
	// A limit of one or two doesn't shrink a larger electorate below three. Two voters tolerate no
	// failure. A target of a single voter would always be refused, and then no voter could be voted
	// out.
	most := max(m.mostVoters(), min(len(e.Voters), 3))
	if (len(e.Voters) > 2 || len(e.Voters) < m.leastVoters()) && !m.isEnough(len(stay), len(in)) {
		if m.awaitsStandbys() {
			return nil, ""
		}
		// Most of the voters leave at once. Leaving voters that vote until the others are gone
		// leave last. In a mesh born by count enough leaving voters stay for a single change to add
		// all nodes on standby, not one after the other: the leaving processes end soon.
		for _, v := range slices.Backward(r.parting) {
			if m.healthy(v) && (!m.isEnough(len(stay), len(in)) || !m.takesAll(len(stay), len(in), most)) {
				stay = append(stay, v)
			}
		}
		slices.SortFunc(stay, vote.Elector.Compare)
	}
	size, kept := seats(len(e.Voters), len(stay), len(in), len(r.absent), m.leastVoters(), most)
	if size == 0 || size+kept == 1 && len(e.Voters) > 1 || size+kept < m.leastVoters() {
		return m.withoutRestartedName(&r)
	}
	var reasons []string
	for i, v := range e.Voters {
		if reason := r.reasons[i]; reason != "" && !slices.Contains(stay, v) && !slices.Contains(r.absent[:kept], v) {
			reasons = append(reasons, fmt.Sprintf("%s out (%s)", v.Name, reason))
		}
	}
	for len(stay) > size {
		i := m.leastWanted(stay)
		reason := "an even number of voters tolerates no additional failure"
		if len(stay) > most {
			reason = fmt.Sprintf("the limit is %d voters", most)
		}
		reasons = append(reasons, fmt.Sprintf("%s is on standby (%s)", stay[i].Name, reason))
		stay = slices.Delete(stay, i, i+1)
	}
	for _, v := range in[:size-len(stay)] {
		stay = append(stay, v)
		reasons = append(reasons, string(v.Name)+" in")
	}
	stay = append(stay, r.absent[:kept]...)
	slices.SortFunc(stay, vote.Elector.Compare)
	if slices.Equal(stay, e.Voters) || !decides(&vote.Electorate{Voters: stay}, m.healthy) {
		// With a majority of the new voters away, the joint electorate could decide nothing, not
		// even its own end (found by a simulated world).
		return nil, ""
	}
	return stay, strings.Join(reasons, ", ")
}

// withoutRestartedName returns the voters without one that was restarted under its name, though
// they are fewer than the minimum then; nil if there is no such voter. Names are unique in a joint
// electorate, so the new process can be voted in only afterwards. The voter's earlier process is
// gone, and the other voters need as many votes as before.
func (m *contactLayer) withoutRestartedName(r *roll) (target []vote.Elector, reason string) {
	e := &m.state.Electorate
	if fewer := len(e.Voters) - 1; !m.byCount() || fewer < 2 || !m.isLargeEnough(fewer) {
		return nil, ""
	}
	for i, v := range e.Voters {
		if r.reasons[i] != sameNameReason || !slices.Contains(r.parting, v) {
			continue
		}
		target = slices.Delete(slices.Clone(e.Voters), i, i+1)
		if majority(target, m.healthy) {
			return target, fmt.Sprintf("%s out (%s)", v.Name, sameNameReason)
		}
	}
	return nil, ""
}

// leastVoters returns the least number of voters of the next electorate; zero without a minimum.
// After withoutRestartedName the next change brings the electorate back to the configured minimum.
func (m *stateLayer) leastVoters() int {
	if m.byCount() && m.cfg.MinVoters > 1 {
		return m.cfg.MinVoters
	}
	return min(m.minimum(), len(m.state.Electorate.Voters))
}

// isEnough reports whether so many staying voters, and nodes on standby, make an electorate without
// leaving voters. A mesh born by count has as many voters as its minimum, and most of the next
// voters have been voters before: see [seats].
func (m *contactLayer) isEnough(stay, in int) bool {
	if m.byCount() {
		return min(stay+in, 2*stay-1) >= m.leastVoters()
	}
	if stay+in == 2 && len(m.state.Electorate.Voters) > 2 {
		return !m.standbySoon()
	}
	return stay+in >= 2
}

// seats returns how many reliable nodes shall vote (size), and how many absent voters keep their
// seats besides (kept). voters is the number of present voters, of which stay can be counted on and
// absent are absent; in is the number of nodes on standby, and least and most are the limits.
//
// The next electorate has the least odd number of seats with room for all reliable nodes. Four
// voters tolerate no more failures than three, so an even number of reliable nodes leaves a spare
// seat. The spare seat is kept for an absent voter, if any, at no cost: five seats need three
// votes, and so do four. Otherwise the least wanted voter goes on standby. With five voters:
//
//	one is absent      five seats: four are reliable, three are needed, the fifth may come back
//	two are absent     three seats: with both gone two votes are enough, instead of all three
//	one of three more  three seats: two are reliable, and both are needed in any case
//
// Where an even number of seats is the least, it stays even, and an absent voter keeps the last of
// these seats.
func seats(voters, stay, in, absent, least, most int) (size, kept int) {
	size = min(stay+in, most)
	switch {
	case voters == 1 && size < 3: // a single voter hands over to a single voter
		size = min(size, 1)
	case voters > 1:
		size = min(size, max(2*stay-1, 2))
	}
	switch {
	case absent > 0 && voters <= least && size == least-1:
		return size, 1
	case size%2 == 1 || size == 0:
		return size, 0
	case absent > 0 && size < min(voters, most):
		return size, 1
	case size > max(2, least):
		return size - 1, 0
	}
	return size, 0
}

// leastWanted returns the index of the voter to put on standby: a voter without a recent report, or
// the last by name, but never this node.
func (m *contactLayer) leastWanted(voters []vote.Elector) int {
	last := len(voters) - 1
	for i := last; i >= 0; i-- {
		if o := m.others[voters[i].Name]; voters[i] != m.Elector() && (o == nil || !m.recent(o)) {
			return i
		}
	}
	if voters[last] == m.Elector() {
		last--
	}
	return last
}
