package mismatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// learnWithin is how long the shell takes to refresh the state of a node met before.
	learnWithin = time.Second

	// settleLeast is the least time for which one list must have outnumbered another before its
	// voters count. Both sides must have learned the same facts by then, so settleLeast is a few
	// times learnWithin.
	settleLeast = 3 * learnWithin

	// graceFor is how long after its start a node may still be finding its own voters. Until then
	// its calls are not refused.
	graceFor = 2 * learnWithin

	// shownFor is how long after the last meeting a node with another configuration is listed, if
	// no decision depends on the node.
	shownFor = 10 * time.Second
)

// Phase is the state of this node's voter.
type Phase uint8

const (
	// PhaseFree means that no other configuration stands in the way. The voter counts once its
	// startup quarantine is over.
	PhaseFree Phase = iota
	// PhaseWaiting means that another configuration may have a majority. The voter doesn't count.
	PhaseWaiting
	// PhaseSettling means that the other configuration has no majority left, or is outnumbered; the
	// voter counts once this has lasted long enough.
	PhaseSettling
	// PhaseCounting means that the voter counts, or has counted in this incarnation.
	PhaseCounting
	// PhaseWithdrawn means that the voter counted, met another configuration that counted too, and
	// lost.
	PhaseWithdrawn
	// PhaseDuplicate means that an older live process has this node's name. A voter that counted
	// doesn't count again in this incarnation.
	PhaseDuplicate
	// PhaseLeaving means that the process is about to end. The voter no longer counts.
	PhaseLeaving
)

var phaseNames = [...]string{"free", "waiting", "settling", "counting", "withdrew", "duplicate",
	"leaving"}

func (p Phase) String() string { return phaseNames[p] }

// Holds reports whether the voter must not count.
func (p Phase) Holds() bool { return p != PhaseFree && p != PhaseCounting }

// Own is this node's view of the other voters of its own configuration.
type Own struct {
	Alive    int  // voters that answer
	Counting int  // voters that answer and count
	Decides  bool // the counting voters are a majority
}

// peer is the state about a name: its newest process.
type peer struct {
	sighting vote.Sighting
	key      string       // of its terms
	start    vote.Instant // of the newest process, by our clock
	at       vote.Instant // when the process was met last
}

// Machine is the state of the decision. The zero value is not usable; see New.
type Machine struct {
	self    vote.SessionID
	terms   vote.Terms
	key     string
	started vote.Instant
	phase   Phase
	own     Own
	peers   map[vote.NodeID]*peer
	others  map[string]*vote.Terms // the configurations under which a voter was met; see forgetIdle
	// longest is the largest MaxTTL that others doesn't have: that of a forgotten configuration, or
	// one that the voters of another configuration had decided, and not configured.
	longest time.Duration
	lost    lost // the forgotten voters of other configurations
	// since is since when votes have counted under our terms, as far as is known; Never if none
	// have.
	since  vote.Instant
	pause  pause
	reason string // PhaseWaiting, PhaseWithdrawn, PhaseDuplicate: the text for the user
	dup    duplicate
	aged   bool // the grace period is over
	alarms []string
	// notices are warnings for the operator that are no alarms.
	notices []string
}

// pause is the time for which nodes with another configuration may still hold leases, though that
// configuration has no majority any more, or never had one.
type pause struct {
	// votersEnd is the end of what voters of other configurations may have promised. Zero: no end
	// is known, since a configuration was met for the first time.
	votersEnd vote.Instant
	// leasesEnd is the end of the leases that nodes without a vote may hold under a longer MaxTTL
	// than ours: earlier processes of our own voters may have granted them.
	leasesEnd vote.Instant
	longest   time.Duration // the longest such MaxTTL; zero if no such node was met
	by        *peer         // a copy of what was known of the node with the longest
	warned    bool          // the operator knows of the wait for the leases
}

// New returns the machine of a voter that starts now.
func New(self vote.SessionID, terms vote.Terms, now vote.Now) *Machine {
	return &Machine{
		self: self, terms: terms, key: terms.String(), started: now.Slow, since: vote.Never,
		peers: make(map[vote.NodeID]*peer), others: make(map[string]*vote.Terms),
	}
}

// Phase returns the phase of the voter.
func (m *Machine) Phase() Phase { return m.phase }

// Inactive reports whether this node takes no part in the mesh, since its voter must not count.
func (m *Machine) Inactive() bool {
	switch m.phase {
	case PhaseWaiting, PhaseWithdrawn:
		return true
	case PhaseDuplicate:
		return m.dup.counted
	}
	return false
}

// Concerned reports whether the state of our own voters matters.
func (m *Machine) Concerned() bool { return len(m.others) > 0 || m.pause.longest > 0 }

// Alarms returns and clears the alarms for the operator.
func (m *Machine) Alarms() []string {
	a := m.alarms
	m.alarms = nil
	return a
}

// Account returns this node's report about itself.
func (m *Machine) Account(now vote.Now) vote.Account {
	a := vote.Account{Standing: vote.StandingQuiet, Up: now.Slow.Sub(m.started)}
	switch m.phase {
	case PhaseCounting:
		a.Standing = vote.StandingCounting
	case PhaseLeaving:
		a.Standing = vote.StandingLeaving
	}
	if m.since != vote.Never {
		a.Counted = max(now.Slow.Sub(m.since), 0)
	}
	return a
}

// Counts reports to the machine that the voter has begun to count.
func (m *Machine) Counts(now vote.Now) {
	if m.phase != PhaseFree {
		return
	}
	m.phase = PhaseCounting
	if m.own.Counting == 0 || now.Slow < m.since {
		m.since = now.Slow // no other voter counts, so earlier counting is over
	}
}

// IdentityRenewed reports to the machine that the voter has ended, and that another begins in its
// place in this process.
func (m *Machine) IdentityRenewed(now vote.Now) {
	if m.phase == PhaseCounting || m.phase == PhaseWithdrawn {
		m.phase, m.pause.votersEnd, m.since = PhaseFree, 0, vote.Never
	}
	m.judge(now)
}

// Leave reports to the machine that the process is about to end.
func (m *Machine) Leave() { m.phase = PhaseLeaving }

// Own takes in the state of the node's own voters.
func (m *Machine) Own(now vote.Now, own Own) {
	if m.own == own {
		return
	}
	m.own = own
	m.judge(now)
}

// Tick lets time pass.
func (m *Machine) Tick(now vote.Now) {
	m.aged = m.aged || now.Slow >= m.started.Add(m.grace())
	m.judge(now)
}

// grace is the time after the start during which nothing is refused.
func (m *Machine) grace() time.Duration { return min(graceFor, m.terms.MaxTTL) }

// Next returns the instant of the slow clock before which Tick has nothing to do.
func (m *Machine) Next() vote.Instant {
	switch {
	case m.phase == PhaseSettling && !m.aged:
		return min(m.pauseEnds(), m.started.Add(m.grace())) // the operator is told then
	case m.phase == PhaseSettling:
		return m.pauseEnds()
	case m.phase == PhaseDuplicate && !m.dup.counted:
		return m.dup.until
	case m.phase == PhaseWaiting && !m.aged:
		return m.started.Add(m.grace()) // calls are refused from then on
	}
	return vote.Never
}

// See takes in a meeting with a node. Nodes of our own configuration matter, too: their names don't
// vote under any other configuration.
func (m *Machine) See(now vote.Now, s *vote.Sighting) {
	if s.Peer == m.self {
		return
	}
	if s.Peer.Node == m.self.Node {
		// With dynamic membership the electorate decides which of two directories is a voter.
		if !m.terms.Dynamic {
			m.seeDuplicate(now, s)
		}
		return
	}
	p := m.peers[s.Peer.Node]
	start := now.Slow - vote.Instant(s.Up)
	if p != nil && p.sighting.Peer.Incarnation != s.Peer.Incarnation && start < p.start {
		return // a late report of an earlier process with this name
	}
	isNew := p == nil
	if isNew {
		p = &peer{}
	}
	if p.sighting.Peer.Incarnation != s.Peer.Incarnation {
		p.start = start
	}
	if p.sighting.Standing == vote.StandingLeaving && p.sighting.Peer.Incarnation == s.Peer.Incarnation {
		s.Standing = vote.StandingLeaving // a goodbye isn't taken back
	}
	p.sighting, p.key, p.at = *s, s.Terms.String(), now.Slow
	if isNew {
		m.remember(p)
	}
	if p.key == m.key {
		if s.Standing == vote.StandingCounting {
			m.since = min(m.since, now.Slow-vote.Instant(s.Counted))
		}
	} else if p.votes() {
		if m.others[p.key] == nil {
			terms := s.Terms
			m.others[p.key] = &terms
			m.pause.votersEnd = 0 // the promises under the new configuration aren't known yet
			m.forgetIdle()
		}
		if longest := grantable(s.LongestTTL); longest > max(m.longest, m.terms.MaxTTL, s.Terms.MaxTTL) {
			// Never forgotten, since a shorter value may come from a voter that knows less.
			m.longest, m.pause.votersEnd = longest, 0
		}
		if m.phase == PhaseCounting && p.counts() {
			m.clash(now, p)
		}
	} else if ttl := grantable(max(s.Terms.MaxTTL, s.LongestTTL)); ttl > max(m.terms.MaxTTL, m.pause.longest) {
		by := *p // p may be forgotten during the wait
		m.pause.longest, m.pause.leasesEnd, m.pause.by, m.pause.warned = ttl, now.Slow.Add(ttl), &by, false
	}
	m.judge(now)
}

// grantable returns a node's maximum TTL, bounded by the longest that any voter grants: what a
// handshake tells has no bound.
func grantable(ttl time.Duration) time.Duration { return min(ttl, vote.LongestTTL) }

// byTerms returns, by configuration and name, the voters met under other configurations that have
// neither said goodbye nor been met under another configuration since.
func (m *Machine) byTerms() map[string][]*peer {
	seen := make(map[string][]*peer, len(m.others))
	for _, p := range m.peers {
		if m.isOpposed(p) {
			seen[p.key] = append(seen[p.key], p)
		}
	}
	for _, all := range seen {
		slices.SortFunc(all, func(a, b *peer) int {
			return cmp.Compare(a.sighting.Peer.Node, b.sighting.Peer.Node)
		})
	}
	return seen
}

// isOpposed reports whether a node may vote under another configuration now, as far as is known.
func (m *Machine) isOpposed(p *peer) bool {
	return p.key != m.key && p.votes() && p.sighting.Standing != vote.StandingLeaving
}

// votes reports whether the node is a voter of its own configuration, or may become one. A node
// with dynamic membership may be voted in at any time, so its report decides: the node has no vote
// only if it reports so and isn't a founder.
func (p *peer) votes() bool {
	if p.sighting.Terms.Dynamic {
		return p.sighting.Standing != vote.StandingNone
	}
	return p.sighting.Terms.Has(p.sighting.Peer.Node)
}

// counts reports whether the node's votes count, as far as is known.
func (p *peer) counts() bool {
	return p.votes() && (p.sighting.Standing == vote.StandingCounting || p.sighting.Standing == vote.StandingUnknown)
}

// tally is the state of another configuration.
type tally struct {
	terms *vote.Terms
	// seen lists its voters met under the configuration that have neither said goodbye nor been met
	// under another configuration since.
	seen     []*peer
	counting int // how many of seen count
	left     int // how many of its voters may apply the configuration, met or not
}

// tally counts the voters of a configuration. A sighting remains valid until there is evidence
// against it: a cut is none.
func (m *Machine) tally(key string, terms *vote.Terms, seen []*peer) tally {
	t := tally{terms: terms, seen: seen}
	for _, p := range seen {
		if p.counts() {
			t.counting++
		}
	}
	if terms.Dynamic {
		t.left = len(t.seen) // the voters aren't known, so the nodes met may be a majority
		return t
	}
	for _, v := range terms.Voters {
		p := m.peers[v]
		switch {
		case v == m.self.Node:
		case p == nil, p.key == key && p.sighting.Standing != vote.StandingLeaving:
			t.left++
		}
	}
	return t
}

// mayDecide reports whether the configuration may have a majority of voters that apply it.
func (t *tally) mayDecide() bool {
	switch {
	case len(t.seen) == 0:
		return false
	case t.terms.Dynamic:
		return true
	}
	return t.left >= len(t.terms.Voters)/2+1
}

// oursMayDecide reports whether a majority of our own voters may apply our configuration, given the
// nodes met under other configurations.
func (m *Machine) oursMayDecide() bool {
	if m.terms.Dynamic {
		return true
	}
	left := 0
	for _, v := range m.terms.Voters {
		if p := m.peers[v]; v == m.self.Node || p == nil || p.key == m.key {
			left++
		}
	}
	return left >= len(m.terms.Voters)/2+1
}

// verdict is the effect of one other configuration on a voter that doesn't count.
type verdict uint8

const (
	harmless  verdict = iota // the configuration has no majority left
	overruled                // the configuration waits itself, while ours decides already
	// outnumbered: the configuration waits itself, and has fewer reachable voters than ours.
	outnumbered
	stronger // the configuration counts, or isn't outnumbered
)

func (m *Machine) verdictOn(t *tally) verdict {
	if !t.mayDecide() {
		return harmless
	}
	return m.verdict(len(t.seen), t.counting)
}

// verdict returns the effect of a configuration that may have a majority, by how many of its voters
// were met, and by how many of these count.
func (m *Machine) verdict(met, counting int) verdict {
	switch {
	case counting > 0:
		return stronger
	case m.own.Decides:
		return overruled
	case m.own.Alive+1 > met:
		return outnumbered
	}
	return stronger
}

// judge updates the phase of a voter that doesn't count.
func (m *Machine) judge(now vote.Now) {
	m.endDuplicate(now)
	switch m.phase {
	case PhaseCounting, PhaseDuplicate, PhaseLeaving:
		return
	}
	if len(m.others) > 0 {
		worst, against, longest := m.weigh()
		switch worst {
		case stronger:
			if m.phase != PhaseWithdrawn {
				m.phase = PhaseWaiting
			}
			m.reason = m.explain(against)
			return
		case overruled:
			m.phase, m.pause.votersEnd = PhaseFree, now.Slow
			return
		case outnumbered:
			longest = max(longest, settleLeast)
		}
		// A configuration that is met for the first time may be that of an earlier process of one
		// of its voters, with promises that are still valid.
		if m.phase == PhaseWaiting || m.phase == PhaseWithdrawn || m.pause.votersEnd == 0 {
			m.pause.votersEnd = now.Slow.Add(longest)
		}
	}
	m.phase = PhaseFree
	if now.Slow < m.pauseEnds() {
		m.phase = PhaseSettling
	}
	m.warnOfLeases(now)
}

// weigh returns the worst effect that another configuration has on this voter, the configuration
// with that effect, and the longest MaxTTL of all configurations, ours included.
func (m *Machine) weigh() (worst verdict, against *tally, longest time.Duration) {
	longest = max(m.terms.MaxTTL, m.longest)
	seen := m.byTerms()
	for _, key := range m.otherKeys() {
		t := m.tally(key, m.others[key], seen[key])
		longest = max(longest, grantable(t.terms.MaxTTL))
		if v := m.verdictOn(&t); v > worst {
			worst, against = v, &t
		}
	}
	if v := m.verdictOnLost(); v > worst {
		worst, against = v, &tally{terms: &m.lost.shown.sighting.Terms, seen: []*peer{m.lost.shown}}
	}
	return worst, against, longest
}

// pauseEnds returns when no lease can be held any more under another configuration. Leases of nodes
// without a vote don't matter once most of our voters count: these have waited for such leases, or
// have counted all the time. So a single node with a mistaken MaxTTL delays no rolling restart.
func (m *Machine) pauseEnds() vote.Instant {
	if m.own.Decides {
		return m.pause.votersEnd
	}
	return max(m.pause.votersEnd, m.pause.leasesEnd)
}

func (m *Machine) otherKeys() []string {
	keys := make([]string, 0, len(m.others))
	for key := range m.others {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// strength returns how many voters a configuration has at first, as far as its terms say: those of
// its list, or Expect. A mesh of a single process (Expect 1) is weaker than a list of one, since a
// mesh with dynamic membership that one voter has founded may have grown.
func strength(t *vote.Terms) int {
	if t.Birth.Alone() {
		return 0
	}
	return max(len(t.Voters), t.Birth.Expect)
}

// clash decides which of two counting configurations goes on: the stronger configuration; of two as
// strong, the configuration that has counted for longer; of two equally old, the configuration with
// the lesser text. Both sides know all three criteria.
func (m *Machine) clash(now vote.Now, p *peer) {
	t := m.tally(p.key, m.others[p.key], m.byTerms()[p.key])
	if !t.mayDecide() {
		// Their configuration has no majority left; its voter gives way when it meets one of ours.
		return
	}
	theirs := vote.Never
	for _, q := range t.seen {
		if q.counts() {
			theirs = min(theirs, q.at-vote.Instant(q.sighting.Counted))
		}
	}
	less := cmp.Compare(strength(&m.terms), strength(t.terms))
	if less == 0 {
		less = byAge(m.since, theirs)
	}
	if less == 0 {
		less = cmp.Compare(p.key, m.key)
	}
	both := m.oursMayDecide()
	if both && less > 0 {
		return
	}
	m.phase = PhaseWithdrawn
	m.reason = m.explain(&t)
	text := "most of this node's voters run with another configuration now"
	if both {
		text = fmt.Sprintf("two configurations of one mesh counted at once for up to %v, and locks that were granted in that time may have had two holders",
			now.Slow.Sub(max(m.since, theirs)).Round(time.Millisecond))
	}
	m.alarms = append(m.alarms, fmt.Sprintf("%s: the voter of %s (%s) withdraws in favor of that "+
		"of %s (%s), and the leases that rest on the former are lost; %s",
		text, m.self.Node, m.key, p.sighting.Peer.Node, p.key, remedy))
}

// ageSlack is the least difference in age that decides: more than a round trip, since an account
// ages by a round trip on its way.
const ageSlack = 50 * time.Millisecond

// byAge is negative if the event at a is younger than the event at b.
func byAge(a, b vote.Instant) int {
	d := b.Sub(a)
	if a == vote.Never || b == vote.Never {
		return cmp.Compare(b, a)
	}
	switch {
	case d > ageSlack:
		return 1
	case d < -ageSlack:
		return -1
	}
	return 0
}
