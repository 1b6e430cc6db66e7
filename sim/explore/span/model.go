package span

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	maxVoters = 5
	clients   = 2
	// length is the length in ticks of an acknowledgement, a startup quarantine and the drain.
	length = 2
)

// The versions of a change.
const (
	first = 1 + iota
	joint
	final
)

// Options are the space to explore.
type Options struct {
	From, To string // the voters before and after, as letters: "abc", "abcd"
	Crashes  int    // how many times a voter loses its memory
	Back     bool   // the joint electorate is ended by its old voters, rather than the new voters

	MaxStates int // stop after so many; 0: after all

	mutant string
}

// Spaces returns small spaces, which take seconds. From three voters to four without a crash takes
// half a minute and 2 GB.
func Spaces() []Options {
	return []Options{{From: "a", To: "abc"}, {From: "abc", To: "ab"}, {From: "a", To: "abc", Back: true}, {From: "abc", To: "ab", Back: true},
		{From: "a", To: "abc", Crashes: 1}, {From: "abc", To: "ab", Crashes: 1}, {From: "a", To: "abc", Crashes: 1, Back: true}}
}

type voter struct {
	version uint8 // the version applied and remembered by the voter
	vote    uint8 // for which client, from 1 on; 0: none
	left    uint8 // for how long the voter keeps the vote
	quiet   uint8 // for how long the voter's votes don't count
	seen    bool  // the voter was seen applying the joint electorate while counting
}

// client is a client, with the acknowledgements that back it.
type client struct {
	known          uint8
	newest, before [maxVoters]uint8
}

type state struct {
	voters  [maxVoters]voter
	clients [clients]client
	decided uint8
	drain   uint8 // since how long, plus one; 0: the drain hasn't begun
	crashes uint8
}

// Report is the result of a run.
type Report struct {
	States, Transitions, Depth int
	Exhausted                  bool
	// Held counts the states in which a client holds, by the newest version known to the client.
	Held      [final + 1]int
	Violation *Violation
}

func (r *Report) String() string {
	how := "exhausted"
	if !r.Exhausted {
		how = "not exhausted"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %s; held under the first electorate in %d, the joint one in %d, the final one in %d", r.States, r.Transitions, r.Depth, how,
		r.Held[first], r.Held[joint], r.Held[final])
}

// Violation is a state in which both clients hold, and the steps that led to the state.
type Violation struct{ Steps []string }

func (v *Violation) String() string {
	return "both clients hold\n  " + strings.Join(v.Steps, "\n  ")
}

type model struct {
	o      Options
	nodes  int
	halves [final + 1]vote.Electorate
	decide [final + 1]quorum.Electorate
}

func newModel(o Options) (*model, error) {
	m := &model{o: o}
	names := func(text string) (all []vote.Elector, err error) {
		for i, c := range []byte(text) {
			if c < 'a' || c >= 'a'+maxVoters || i > 0 && text[i-1] >= c {
				return nil, fmt.Errorf("voters %q: they must be letters from a to %c, in order", text, 'a'+maxVoters-1)
			}
			m.nodes = max(m.nodes, int(c-'a')+1)
			all = append(all, vote.Elector{Name: vote.NodeID(c), Dir: vote.Dir(c-'a') + 1})
		}
		if len(all) == 0 {
			return nil, errors.New("there must be voters, before and after")
		}
		return all, nil
	}
	from, err := names(o.From)
	if err != nil {
		return nil, err
	}
	to, err := names(o.To)
	if err != nil {
		return nil, err
	}
	if o.Crashes < 0 || o.Crashes > 50 {
		return nil, fmt.Errorf("%d crashes: it can be 0 to 50", o.Crashes)
	}
	m.halves = [...]vote.Electorate{
		first: {Version: first, Voters: from},
		joint: {Version: joint, Voters: to, Old: from},
		final: {Version: final, Voters: to},
	}
	if o.Back {
		m.halves[final].Voters = from
	}
	if o.mutant == noJoint {
		m.halves[joint].Old = nil
	}
	places := slices.Concat(from, to)
	slices.SortFunc(places, vote.Elector.Compare)
	places = slices.Compact(places)
	if len(places) != m.nodes {
		return nil, fmt.Errorf("voters %s and %s: no letter may be left out", o.From, o.To)
	}
	for v := first; v <= final; v++ {
		m.decide[v] = quorum.NewElectorate(&m.halves[v], places)
	}
	return m, nil
}

// counting reports whether a voter's votes count.
func (m *model) counting(s *state, i int) bool {
	v := &s.voters[i]
	return v.quiet == 0 && m.decide[v.version].All().Has(i)
}

// set returns the voters for which holds is true.
func (m *model) set(holds func(i int) bool) (all quorum.Set) {
	for i := range m.nodes {
		if holds(i) {
			all = all.With(i)
		}
	}
	return all
}

// holds reports whether a client is backed by a majority, under the newest electorate known to the
// client or the one before.
func (m *model) holds(s *state, c int) bool {
	k := &s.clients[c]
	return m.decide[k.known].Decides(m.set(func(i int) bool { return k.newest[i] > 0 })) ||
		k.known > first && m.decide[k.known-1].Decides(m.set(func(i int) bool { return k.before[i] > 0 }))
}

// acknowledge has a voter confirm its vote for a client, and the client count the acknowledgement.
func (m *model) acknowledge(s *state, i, c int) {
	v, k := &s.voters[i], &s.clients[c]
	v.vote, v.left = uint8(c+1), length
	switch {
	case v.version == k.known, m.o.mutant == anyVersion:
		k.newest[i] = length
	case v.version == k.known-1:
		k.before[i] = length
	}
}

// learn has a client learn of an electorate; see quorum.Requester.Reconfigure.
func (m *model) learn(s *state, c int, version uint8) {
	k := &s.clients[c]
	was := k.newest
	if m.o.mutant == keepsNewest {
		was = [maxVoters]uint8{}
	} else {
		k.newest = [maxVoters]uint8{}
	}
	k.before = [maxVoters]uint8{}
	if version == k.known+1 || m.o.mutant == keepsOlder {
		k.before = was
	}
	k.known = version
}

// looks records the voters seen by the node waiting to end the joint electorate; see
// electorate.Machine.conclude.
func (m *model) looks(s *state) {
	for i := range m.nodes {
		v := &s.voters[i]
		v.seen = v.seen || v.version == joint && (m.counting(s, i) || m.o.mutant == seesQuiet)
	}
	seen := m.set(func(i int) bool { return s.voters[i].seen })
	e := &m.decide[joint]
	switch m.o.mutant {
	case oldHalf:
		e = &m.decide[first]
	case newHalf:
		e = &m.decide[final]
	}
	if s.drain == 0 && s.decided == joint && e.Decides(seen) {
		s.drain = 1
	}
}

// drained reports whether the final electorate may be decided. The old voters may be restored at
// any time: every lease has a majority of the old voters.
func (m *model) drained(s *state) bool {
	if s.decided != joint {
		return false
	}
	if m.o.Back {
		return true
	}
	if m.o.mutant == noDrain || m.o.mutant == noJoint {
		return m.o.mutant == noDrain
	}
	e := &m.decide[joint]
	switch m.o.mutant {
	case oldHalf:
		e = &m.decide[first]
	case newHalf:
		e = &m.decide[final]
	}
	return s.drain > length && (m.o.mutant == asksNobody || e.Decides(m.set(func(i int) bool { return s.voters[i].version == joint && m.counting(s, i) })))
}

// The rules broken by the mutants.
const (
	noJoint     = "one version leads to the next without a joint one"
	noDrain     = "no drain"
	oldHalf     = "a drain of the old half only"
	newHalf     = "a drain of the new half only"
	seesQuiet   = "a drain that takes quiet voters for ones that remember"
	asksNobody  = "no voter is asked at the end of the drain"
	anyVersion  = "acknowledgements count under any version"
	keepsNewest = "a lease backed under version n − 1 counts under version n"
	keepsOlder  = "a lease backed under version n − 2 counts under version n − 1"
	forgets     = "a voter forgets by which version it went"
	noQuiet     = "no quiet time"
)
