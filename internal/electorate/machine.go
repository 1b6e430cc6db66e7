// Package electorate decides who votes, where the electorate follows the living.
//
// Gossip proposes and the electorate decides. Each version is the value of a Paxos instance among the voters of the version before (Lamport, "The
// part-time parliament", 1998); a change goes through a joint version, in which every decision needs a majority of the old voters and one
// of the new ones (Ongaro and Ousterhout, "In search of an understandable consensus algorithm", 2014), and is final only after a drain of one
// maximum TTL. What an answer rests on is in the node's state directory, synced, before the answer is sent.
//
// A Machine is a deterministic state machine. It starts no goroutine, reads no clock and does no I/O: each call is told the time and
// appends what is to be sent and stored. Its owner (package internal/node) calls it from one goroutine at a time.
package electorate

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Config is what a machine must know. All nodes of a mesh agree on Founders and MaxTTL.
type Config struct {
	Self      vote.SessionID
	Founders  []vote.NodeID // who founds version 1
	Found     bool          // this node is to found it with the others, if its directory is empty
	MaxVoters int           // how large the electorate may grow
	MaxTTL    time.Duration
}

// MaxVoters is how large the electorate grows where nothing else is said. Seven voters survive the loss of three; more make each lock slower.
const MaxVoters = 7

// Standing is the state of a machine's own voter, which the owner tells.
type Standing struct {
	Top      vote.Token // the largest token that it knows of
	Counting bool       // its votes count, so it remembers
}

// Machine is one node's part in deciding who votes. Its zero value is not usable; see New.
type Machine struct {
	cfg     Config
	now     vote.Now
	own     Standing
	out     []vote.Outbound
	saves   []vote.State
	alarms  []string
	started vote.Instant

	state      vote.State // as it is to be
	stored     vote.State // as it is in the directory
	pending    bool       // state has something that no save has had yet
	saving     vote.State // the save under way
	savingNow  bool
	everStored bool   // in this life
	stuck      string // why nothing can be stored; empty while all is well
	retryAt    vote.Instant
	held       []held

	conns  map[vote.Conn]*line
	others map[vote.NodeID]*other
	nonce  uint64
	pollAt vote.Instant

	distrusted string // why this node's directory isn't to be trusted
	leaving    bool
	away       vote.Instant // since when too few of the voters who decide are there; zero while enough are
	drain      drain
	adopted    vote.Instant // when the newest electorate was learned of; or when this life began
	race       *race
	number     uint64       // the largest of any attempt that was heard of
	raceAt     vote.Instant // no attempt is made before
	needed     string       // the change that is wanted
	neededAt   vote.Instant // since when
	split      bool         // it was told that there are two electorates of one version
}

// line is what is known of one connection.
type line struct {
	told uint64 // the newest version that was sent over it
}

// held is an answer that waits until what it rests on is stored.
type held struct {
	writes uint64 // of the save that it waits for
	conn   vote.Conn
	m      vote.Message
}

// heldMax bounds how many answers wait for a slow disk. Whoever isn't answered asks again.
const heldMax = 256

// New returns the machine of a node that begins a new life with what its directory holds. A state without an electorate is that of a new peer.
func New(cfg Config, state vote.State, now vote.Now) *Machine {
	cfg.Founders = slices.Sorted(slices.Values(cfg.Founders))
	if cfg.MaxVoters == 0 {
		cfg.MaxVoters = MaxVoters
	}
	m := &Machine{
		cfg: cfg, now: now, started: now.Slow, adopted: now.Slow, state: state, stored: state,
		conns: make(map[vote.Conn]*line), others: make(map[vote.NodeID]*other),
		pending: true, // each start is stored, so that one from an old copy is noticed
		pollAt:  now.Slow,
	}
	m.number = state.Promised.Number
	m.finish()
	return m
}

// Known returns the newest electorate that is known to be decided; its version is zero when none is. The caller must not change it.
func (m *Machine) Known() *vote.Electorate { return &m.state.Electorate }

// Stored returns the newest electorate that is in the directory: the one that this node's voter goes by.
func (m *Machine) Stored() *vote.Electorate { return &m.stored.Electorate }

// Trusted reports whether this node's directory is as it was left, as far as anybody has told.
func (m *Machine) Trusted() bool { return m.distrusted == "" }

// Elector returns the voter that this node is.
func (m *Machine) Elector() vote.Elector {
	return vote.Elector{Name: m.cfg.Self.Node, Dir: m.state.Dir}
}

// member reports whether this node takes part in the next decision.
func (m *Machine) member() bool { return m.Trusted() && m.state.Electorate.Has(m.Elector()) }

// Stand tells how this node's own voter stands.
func (m *Machine) Stand(s Standing) { m.own = s }

// Drain appends what is to be sent, and forgets it.
func (m *Machine) Drain(out []vote.Outbound) []vote.Outbound {
	out = append(out, m.out...)
	clear(m.out)
	m.out = m.out[:0]
	return out
}

// Saves returns what is to be stored now, and forgets it: nothing, or one state. Saved must follow.
func (m *Machine) Saves() []vote.State {
	s := m.saves
	m.saves = nil
	return s
}

// Alarms returns what an operator must hear of, and forgets it.
func (m *Machine) Alarms() []string {
	a := m.alarms
	m.alarms = nil
	return a
}

func (m *Machine) begin(now vote.Now) {
	now.Slow = max(now.Slow, m.now.Slow) // a clock never goes back
	m.now = now
}

func (m *Machine) send(conn vote.Conn, msg vote.Message) {
	m.out = append(m.out, vote.Outbound{Conn: conn, Message: msg})
}

// after sends an answer as soon as all that the state has now is stored.
func (m *Machine) after(conn vote.Conn, msg vote.Message) {
	switch {
	case m.pending && len(m.held) < heldMax:
		m.held = append(m.held, held{m.state.Writes + 1, conn, msg})
	case m.pending:
	case m.savingNow && len(m.held) < heldMax:
		m.held = append(m.held, held{m.state.Writes, conn, msg})
	case m.savingNow:
	default:
		m.send(conn, msg)
	}
}

// finish has what has changed stored, one save at a time.
func (m *Machine) finish() {
	if m.pending && !m.savingNow && m.now.Slow >= m.retryAt {
		m.state.Writes++
		m.pending, m.savingNow, m.saving = false, true, m.state
		m.saves = append(m.saves, m.state)
	}
}

// saveAgain is how long after a failed save the next is tried: long enough not to fill a log, short enough for a disk that was cleared.
const saveAgain = time.Second

// Saved says what has become of a save. An empty text means that it is in the directory, synced.
func (m *Machine) Saved(now vote.Now, writes uint64, failed string) {
	m.begin(now)
	if !m.savingNow || writes != m.saving.Writes {
		return
	}
	m.savingNow = false
	if failed != "" {
		if m.stuck == "" {
			m.alarms = append(m.alarms, "the state directory can't be written, so this node takes no part in changes of the electorate; it goes on voting on locks: "+failed)
		}
		m.stuck, m.pending, m.retryAt = failed, true, m.now.Slow.Add(saveAgain)
		m.held = nil // what they rest on isn't stored; whoever waits asks again
		return
	}
	m.stuck, m.everStored = "", true
	was := m.stored.Electorate.Version
	m.stored = m.saving
	waiting := m.held
	m.held = nil
	for _, h := range waiting {
		if h.writes <= writes {
			m.send(h.conn, h.m)
		} else {
			m.held = append(m.held, h)
		}
	}
	if m.stored.Electorate.Version != was {
		// Whoever counts what this node's voter acknowledges must know the version before the first acknowledgement under it.
		for _, c := range m.lines() {
			m.tell(c)
		}
	}
	m.move()
	m.finish()
}

// lines returns the connections, in order.
func (m *Machine) lines() []vote.Conn {
	conns := make([]vote.Conn, 0, len(m.conns))
	for c := range m.conns {
		conns = append(conns, c)
	}
	slices.Sort(conns)
	return conns
}

// tell sends the newest electorate over a connection.
func (m *Machine) tell(conn vote.Conn) {
	if l := m.conns[conn]; l != nil && m.state.Electorate.Version > 0 {
		l.told = m.state.Electorate.Version
		m.send(conn, vote.Message{Kind: vote.KindElectorate, Elected: m.stored.Electorate.Version, Electing: &vote.Electing{Electorate: m.state.Electorate}})
	}
}

// Heard notes which version whoever speaks over a connection goes by. Whoever is behind is sent the newest.
func (m *Machine) Heard(now vote.Now, conn vote.Conn, elected uint64) {
	if conn == vote.LocalConn {
		return
	}
	m.begin(now)
	l := m.conns[conn]
	if l == nil {
		l = &line{}
		m.conns[conn] = l
	}
	if elected < m.state.Electorate.Version && l.told < m.state.Electorate.Version {
		m.tell(conn)
	}
}

// adopt goes by a newer electorate, which is known to be decided.
func (m *Machine) adopt(e *vote.Electorate) {
	m.state.Electorate = *e
	// The election of the next version begins anew: nothing is promised in it yet.
	m.state.Promised, m.state.Accepted, m.state.Value, m.state.Pledge = vote.Attempt{}, vote.Attempt{}, vote.Electorate{}, nil
	m.pending = true
	m.race, m.raceAt, m.needed, m.drain, m.adopted = nil, 0, "", drain{}, m.now.Slow
	m.pollAt = m.now.Slow
}

// learn takes in an electorate that somebody says is decided.
func (m *Machine) learn(e *vote.Electorate) {
	ours := &m.state.Electorate
	switch {
	case ours.Version == 0 || e.Lineage == ours.Lineage && e.Version > ours.Version:
		m.adopt(e)
	case e.Lineage != ours.Lineage || e.Version == ours.Version && !e.Equal(ours):
		if !m.split {
			m.split = true
			m.alarms = append(m.alarms, "there are two electorates that don't stem from each other: the mesh was founded twice, or a state directory was put "+
				"back from an old copy. Stop one half of the mesh, remove its state directories, and start it again: it is voted in anew")
		}
	}
}
