package electorate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Receive takes in a message about electorates, received over a connection.
func (m *Machine) Receive(now vote.Now, conn vote.Conn, from vote.SessionID, msg *vote.Message) {
	m.begin(now)
	if msg.Kind != vote.KindPoll && (msg.Consensus == nil || !validBallots(msg.Consensus)) {
		return
	}
	switch msg.Kind {
	case vote.KindElectorate:
		switch e := &msg.Consensus.Electorate; {
		case e.Version == 0 || m.byCount() != vote.BornByCount(e.Version) || m.isForeignTTL(msg.Consensus):
		case m.byCount() && e.Lineage != m.state.Electorate.Lineage:
			m.learnOtherBirth(from.Node, msg.Consensus)
		default:
			m.learn(e)
		}
	case vote.KindPoll:
		m.report(conn, msg)
	case vote.KindReport:
		if o := m.others[from.Node]; o != nil && o.up && o.conn == conn {
			m.reported(o, msg)
		}
	case vote.KindPrepare:
		if from.Node == m.cfg.Self.Node || !m.ignoresBallots(from.Node) {
			m.prepare(conn, msg)
		}
	case vote.KindAccept:
		if m.plausibleMinToken(from.Node, &msg.Consensus.Electorate) {
			m.accept(conn, msg)
		} else {
			m.ignoreBallots(from.Node)
		}
	case vote.KindPrepared:
		m.prepared(from.Node, msg)
	case vote.KindAccepted:
		m.accepted(from.Node, msg)
	}
	m.move()
	m.finish()
}

// validBallots reports whether the ballot numbers in a message are valid. A ballot number without
// an incarnation can't be stored. After a ballot with the largest number, the next ballot started
// here would begin at zero, below the promise: the ballot would be refused and restarted without
// end.
func validBallots(e *vote.Consensus) bool {
	return e.Ballot.Check() == nil && e.Promised.Check() == nil
}

// votesOn reports whether this node has a vote in the election of a version, and knows of no end of
// that election. A node asking about a finished election is sent the result.
func (m *contactLayer) votesOn(conn vote.Conn, version uint64) bool {
	if version <= m.state.Electorate.Version {
		m.sendElectorate(conn)
		return false
	}
	return version == m.state.Electorate.Version+1 && !m.cfg.Frozen && m.Trusted() && slices.Contains(m.state.Electorate.Deciding(), m.Elector())
}

// prepare promises to accept no earlier ballot, and answers with the value accepted before.
func (m *Machine) prepare(conn vote.Conn, msg *vote.Message) {
	a := msg.Consensus.Ballot
	m.number = max(m.number, a.Counter)
	if !m.votesOn(conn, msg.Version) {
		return
	}
	answer := vote.Message{Kind: vote.KindPrepared, Version: msg.Version, Consensus: &vote.Consensus{Ballot: a, Promised: m.state.Promised, Dir: m.state.Dir}}
	if a.Compare(m.state.Promised) < 0 {
		m.send(conn, answer)
		return
	}
	if a != m.state.Promised {
		m.state.Promised, m.pending = a, true
	}
	m.yieldTo(a)
	answer.Consensus.Promised, answer.Consensus.Accepted, answer.Consensus.Electorate = a, m.state.Accepted, m.state.Value
	m.after(conn, answer)
}

// yieldTo lets another node's ballot finish before this node starts a ballot of its own.
func (m *Machine) yieldTo(a vote.Ballot) {
	if a.By == m.cfg.Self.Incarnation {
		return
	}
	if m.race != nil && m.race.ballot.Compare(a) < 0 {
		m.race = nil
	}
	m.raceAt = max(m.raceAt, m.now.Slow.Add(m.raceTime()+m.candidateDelay()))
}

// accept accepts the value of a ballot, unless this node has promised a later ballot.
func (m *Machine) accept(conn vote.Conn, msg *vote.Message) {
	a, e := msg.Consensus.Ballot, &msg.Consensus.Electorate
	m.number = max(m.number, a.Counter)
	if !m.votesOn(conn, msg.Version) || e.Version != msg.Version ||
		CheckSuccessor(&m.state.Electorate, e) != nil || !m.isLargeEnough(len(e.Voters)) {
		return
	}
	answer := vote.Message{Kind: vote.KindAccepted, Version: msg.Version, Consensus: &vote.Consensus{Ballot: a, Promised: m.state.Promised, Dir: m.state.Dir}}
	if a.Compare(m.state.Promised) < 0 {
		m.send(conn, answer)
		return
	}
	if a != m.state.Accepted {
		m.state.Promised, m.state.Accepted, m.state.Value, m.pending = a, a, *e, true
	}
	m.yieldTo(a)
	answer.Consensus.Promised = a
	m.after(conn, answer)
}

// CheckSuccessor returns an error if the voters of electorate e can't decide on next as its
// successor. A final electorate is followed by a joint electorate with the voters of e as old
// voters; a joint electorate is followed by its new voters alone, or by its old voters again.
func CheckSuccessor(e, next *vote.Electorate) error {
	if err := next.Check(); err != nil {
		return err
	}
	switch {
	case next.Version != e.Version+1:
		return fmt.Errorf("electorate %d can't follow upon %d", next.Version, e.Version)
	case next.Lineage != e.Lineage:
		return fmt.Errorf("electorate %d is of another mesh than electorate %d, which it follows: it stems from another bootstrap", next.Version, e.Version)
	case next.MinToken < e.MinToken:
		return fmt.Errorf("electorate %d has the minimum token %d, less than the %d of electorate %d before it", next.Version, next.MinToken, e.MinToken, e.Version)
	case e.Joint() && next.Most != e.Most:
		return fmt.Errorf("electorate %d may have %d voters; the joint electorate %d before it may have %d, and an electorate that concludes it as many", next.Version, next.Most, e.Version, e.Most)
	case e.Joint() && !isConclusion(e, next):
		return fmt.Errorf("electorate %d has other voters, or another MaxTTL, than the joint electorate %d before it leads to", next.Version, e.Version)
	case !e.Joint() && next.OldMaxTTL != e.MaxTTL:
		return fmt.Errorf("electorate %d says that electorate %d before it has the MaxTTL %v, and it has %v", next.Version, e.Version, next.OldMaxTTL, e.MaxTTL)
	case e.Most > 0 && next.Most == 0:
		return fmt.Errorf("electorate %d has no limit of its voters, and electorate %d before it has one", next.Version, e.Version)
	case !e.Joint() && !slices.Equal(next.Old, e.Voters):
		return fmt.Errorf("electorate %d isn't joint with electorate %d before it: its old voters "+
			"are not the voters of electorate %d", next.Version, e.Version, e.Version)
	}
	return nil
}

// isConclusion reports whether a joint electorate leads to next: to its new voters and their
// maximum TTL, or back to the old.
func isConclusion(e, next *vote.Electorate) bool {
	return !next.Joint() && (slices.Equal(next.Voters, e.Voters) && next.MaxTTL == e.MaxTTL || slices.Equal(next.Voters, e.Old) && next.MaxTTL == e.OldMaxTTL)
}

// race is this node's ballot to have an electorate decided.
type race struct {
	ballot vote.Ballot
	// value is the wanted electorate, or a value that an earlier ballot may have decided.
	value     vote.Electorate
	best      vote.Ballot // the ballot in which value was accepted; zero for our own value
	accepting bool
	with      []vote.Elector // the voters with an answer in this phase
	until     vote.Instant   // when the ballot is given up
}

// majority reports whether the voters for which some holds are a majority of voters.
func majority(voters []vote.Elector, some func(vote.Elector) bool) bool {
	n := 0
	for _, v := range voters {
		if some(v) {
			n++
		}
	}
	return n >= len(voters)/2+1
}

// decides reports whether the voters for which some holds can decide about locks in an electorate:
// a majority, and in a joint electorate a majority of both halves.
func decides(e *vote.Electorate, some func(vote.Elector) bool) bool {
	return majority(e.Voters, some) && (!e.Joint() || majority(e.Old, some))
}

// run starts a ballot to have an electorate decided.
func (m *Machine) run(value vote.Electorate) {
	m.number++
	m.race = &race{ballot: vote.Ballot{Counter: m.number, By: m.cfg.Self.Incarnation}, value: value, until: m.now.Slow.Add(m.raceTime())}
	m.ask(vote.KindPrepare, vote.Consensus{Ballot: m.race.ballot})
}

// ask sends a question to all deciding voters, this node included.
func (m *contactLayer) ask(kind vote.Kind, e vote.Consensus) {
	for _, v := range m.state.Electorate.Deciding() {
		msg := vote.Message{Kind: kind, Version: m.state.Electorate.Version + 1, Consensus: &e}
		if v == m.Elector() {
			m.send(vote.LocalConn, msg)
		} else if o := m.others[v.Name]; o != nil && o.up {
			m.send(o.conn, msg)
		}
	}
}

// answers notes an answer to the question of the ballot's present phase, and reports whether a
// majority has answered.
func (m *Machine) answers(from vote.NodeID, msg *vote.Message) bool {
	r, e := m.race, msg.Consensus
	m.number = max(m.number, e.Promised.Counter)
	if r == nil || msg.Version != m.state.Electorate.Version+1 || e.Ballot != r.ballot || r.accepting != (msg.Kind == vote.KindAccepted) {
		return false
	}
	if e.Promised.Compare(r.ballot) > 0 {
		// Another node has started a later ballot. The first node in the order of the voters goes
		// on first.
		m.race = nil
		m.raceAt = m.now.Slow.Add(m.candidateDelay())
		return false
	}
	if msg.Kind == vote.KindPrepared && e.Accepted.Counter > 0 && !m.plausibleMinToken(from, &e.Electorate) {
		// This counts as no answer: the voter's accepted value may not be taken, and must not be
		// passed over.
		return false
	}
	v := vote.Elector{Name: from, Dir: e.Dir}
	if !slices.Contains(r.with, v) {
		r.with = append(r.with, v)
	}
	if msg.Kind == vote.KindPrepared && e.Accepted.Compare(r.best) > 0 &&
		CheckSuccessor(&m.state.Electorate, &e.Electorate) == nil {
		r.best, r.value = e.Accepted, e.Electorate
	}
	return majority(m.state.Electorate.Deciding(), func(v vote.Elector) bool { return slices.Contains(r.with, v) })
}

// prepared takes in a promise. After the promises of a majority, no earlier ballot can be decided
// unless a majority has accepted it already.
func (m *Machine) prepared(from vote.NodeID, msg *vote.Message) {
	if m.answers(from, msg) {
		m.race.accepting, m.race.with = true, nil
		m.ask(vote.KindAccept, vote.Consensus{Ballot: m.race.ballot, Electorate: m.race.value})
	}
}

// accepted takes in an acceptance. With the acceptances of a majority the electorate is decided.
func (m *Machine) accepted(from vote.NodeID, msg *vote.Message) {
	if !m.answers(from, msg) {
		return
	}
	value := m.race.value
	m.adopt(&value)
	for _, c := range m.connections() {
		m.sendElectorate(c) // the electorate is decided, whether or not this node can store it
	}
}
