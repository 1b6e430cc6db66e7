package electorate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Hear takes in a message about electorates that came over a connection.
func (m *Machine) Hear(now vote.Now, conn vote.Conn, from vote.SessionID, msg *vote.Message) {
	m.begin(now)
	if msg.Kind != vote.KindPoll && (msg.Electing == nil || !sane(msg.Electing)) {
		return
	}
	switch msg.Kind {
	case vote.KindElectorate:
		if e := &msg.Electing.Electorate; e.Version > 0 {
			m.learn(e)
		}
	case vote.KindPoll:
		m.report(conn, msg)
	case vote.KindReport:
		if o := m.others[from.Node]; o != nil && o.up && o.conn == conn {
			m.reported(o, msg)
		}
	case vote.KindPrepare:
		m.prepare(conn, msg)
	case vote.KindAccept:
		m.accept(conn, msg)
	case vote.KindPrepared:
		m.prepared(from.Node, msg)
	case vote.KindAccepted:
		m.accepted(from.Node, msg)
	}
	m.move()
	m.finish()
}

// sane reports whether attempts are some. One without a life can't be stored; and one with the largest number would have the next one that is made here
// begin at zero, below what was promised: it would be refused and made anew for ever.
func sane(e *vote.Electing) bool {
	return e.Attempt.Check() == nil && e.Promised.Check() == nil
}

// votesOn reports whether this node has a vote in the election of a version, and that election isn't over as far as it knows. Whoever
// speaks of one that is over is told how it ended.
func (m *Machine) votesOn(conn vote.Conn, version uint64) bool {
	if version <= m.state.Electorate.Version {
		m.tell(conn)
		return false
	}
	return version == m.state.Electorate.Version+1 && m.Trusted() && slices.Contains(m.state.Electorate.Deciding(), m.Elector())
}

// prepare promises to accept no earlier attempt, and tells what was accepted before.
func (m *Machine) prepare(conn vote.Conn, msg *vote.Message) {
	a := msg.Electing.Attempt
	m.number = max(m.number, a.Number)
	if !m.votesOn(conn, msg.Version) {
		return
	}
	answer := vote.Message{Kind: vote.KindPrepared, Version: msg.Version, Electing: &vote.Electing{Attempt: a, Promised: m.state.Promised, Dir: m.state.Dir}}
	if a.Compare(m.state.Promised) < 0 {
		m.send(conn, answer)
		return
	}
	if a != m.state.Promised {
		m.state.Promised, m.pending = a, true
	}
	m.yieldTo(a)
	answer.Electing.Promised, answer.Electing.Accepted, answer.Electing.Electorate = a, m.state.Accepted, m.state.Value
	m.after(conn, answer)
}

// yieldTo lets somebody else's attempt come to its end before we make one of our own.
func (m *Machine) yieldTo(a vote.Attempt) {
	if a.By == m.cfg.Self.Life {
		return
	}
	if m.race != nil && m.race.attempt.Compare(a) < 0 {
		m.race = nil
	}
	m.raceAt = max(m.raceAt, m.now.Slow.Add(m.raceTime()+m.turn()))
}

// accept accepts what an attempt proposes, unless a later one was promised.
func (m *Machine) accept(conn vote.Conn, msg *vote.Message) {
	a, e := msg.Electing.Attempt, &msg.Electing.Electorate
	m.number = max(m.number, a.Number)
	if !m.votesOn(conn, msg.Version) || e.Version != msg.Version || Follows(&m.state.Electorate, e) != nil {
		return
	}
	answer := vote.Message{Kind: vote.KindAccepted, Version: msg.Version, Electing: &vote.Electing{Attempt: a, Promised: m.state.Promised, Dir: m.state.Dir}}
	if a.Compare(m.state.Promised) < 0 {
		m.send(conn, answer)
		return
	}
	if a != m.state.Accepted {
		m.state.Promised, m.state.Accepted, m.state.Value, m.pending = a, a, *e, true
	}
	m.yieldTo(a)
	answer.Electing.Promised = a
	m.after(conn, answer)
}

// Follows complains about an electorate that can't be decided by another: after one that isn't joint comes a joint one with the same voters as
// old ones, and after a joint one its new voters alone, or again the old ones.
func Follows(e, next *vote.Electorate) error {
	if err := next.Check(); err != nil {
		return err
	}
	switch {
	case next.Version != e.Version+1:
		return fmt.Errorf("electorate %d can't follow upon %d", next.Version, e.Version)
	case next.Lineage != e.Lineage:
		return fmt.Errorf("electorate %d stems from another founding", next.Version)
	case next.Floor < e.Floor:
		return fmt.Errorf("the floor of electorate %d is below that of the one before", next.Version)
	case e.Joint() && (next.Joint() || !slices.Equal(next.Voters, e.Voters) && !slices.Equal(next.Voters, e.Old)):
		return fmt.Errorf("electorate %d isn't what the joint one before leads to", next.Version)
	case !e.Joint() && !slices.Equal(next.Old, e.Voters):
		return fmt.Errorf("electorate %d isn't joint with the one before: nobody would stand in both", next.Version)
	}
	return nil
}

// race is an attempt to have an electorate decided.
type race struct {
	attempt   vote.Attempt
	value     vote.Electorate // what is wanted, or what an earlier attempt may have had decided already
	best      vote.Attempt    // the attempt from which that is; zero when it is our own
	accepting bool
	with      []vote.Elector // who has answered in this phase
	until     vote.Instant   // when it is given up
}

// majority reports whether some are a majority of the voters.
func majority(voters []vote.Elector, some func(vote.Elector) bool) bool {
	n := 0
	for _, v := range voters {
		if some(v) {
			n++
		}
	}
	return n >= len(voters)/2+1
}

// decides reports whether some voters decide about locks in an electorate: a majority, and of both halves if it is joint.
func decides(e *vote.Electorate, some func(vote.Elector) bool) bool {
	return majority(e.Voters, some) && (!e.Joint() || majority(e.Old, some))
}

// run begins an attempt to have an electorate decided.
func (m *Machine) run(value vote.Electorate) {
	m.number++
	m.race = &race{attempt: vote.Attempt{Number: m.number, By: m.cfg.Self.Life}, value: value, until: m.now.Slow.Add(m.raceTime())}
	m.ask(vote.KindPrepare, vote.Electing{Attempt: m.race.attempt})
}

// ask puts a question to all voters that decide, ourselves included.
func (m *Machine) ask(kind vote.Kind, e vote.Electing) {
	for _, v := range m.state.Electorate.Deciding() {
		msg := vote.Message{Kind: kind, Version: m.state.Electorate.Version + 1, Electing: &e}
		if v == m.Elector() {
			m.send(vote.LocalConn, msg)
		} else if o := m.others[v.Name]; o != nil && o.up {
			m.send(o.conn, msg)
		}
	}
}

// answers notes an answer to the question of the race's present phase, and reports whether a majority has answered.
func (m *Machine) answers(from vote.NodeID, msg *vote.Message) bool {
	r, e := m.race, msg.Electing
	m.number = max(m.number, e.Promised.Number)
	if r == nil || msg.Version != m.state.Electorate.Version+1 || e.Attempt != r.attempt || r.accepting != (msg.Kind == vote.KindAccepted) {
		return false
	}
	if e.Promised.Compare(r.attempt) > 0 {
		// Somebody else is at it. Whoever comes first in the order of the voters goes on first.
		m.race = nil
		m.raceAt = m.now.Slow.Add(m.turn())
		return false
	}
	v := vote.Elector{Name: from, Dir: e.Dir}
	if !slices.Contains(r.with, v) {
		r.with = append(r.with, v)
	}
	if msg.Kind == vote.KindPrepared && e.Accepted.Compare(r.best) > 0 && Follows(&m.state.Electorate, &e.Electorate) == nil {
		r.best, r.value = e.Accepted, e.Electorate
	}
	return majority(m.state.Electorate.Deciding(), func(v vote.Elector) bool { return slices.Contains(r.with, v) })
}

// prepared takes in a promise. With those of a majority, no earlier attempt can be decided any more than it is.
func (m *Machine) prepared(from vote.NodeID, msg *vote.Message) {
	if m.answers(from, msg) {
		m.race.accepting, m.race.with = true, nil
		m.ask(vote.KindAccept, vote.Electing{Attempt: m.race.attempt, Electorate: m.race.value})
	}
}

// accepted takes in an acceptance. With those of a majority the electorate is decided.
func (m *Machine) accepted(from vote.NodeID, msg *vote.Message) {
	if !m.answers(from, msg) {
		return
	}
	value := m.race.value
	m.adopt(&value)
	for _, c := range m.lines() {
		m.tell(c) // it is decided, whether or not it can be stored here
	}
}
