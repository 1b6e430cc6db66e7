package electorate

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Config is the configuration of a machine. All nodes of a mesh agree on Founders.
type Config struct {
	Self     vote.SessionID
	Founders []vote.NodeID // the voters of version 1
	MayFound bool          // this node takes part in the founding, if its directory is empty
	// Expect is the number of founders of a mesh that is born by count, without names and
	// directories: see birth.go. Zero: the mesh is founded by Founders.
	Expect    int
	MinVoters int // of a mesh born by count: no electorate has a smaller majority than so many voters; zero: vote.MinVoters
	// RegisterTerm is set if the mesh is born by count with a register: the term of its record, if
	// this process founds the mesh. See register.go.
	RegisterTerm time.Duration
	MaxVoters    int // the largest size of the electorate
	// Frozen: this node is being converted from a fixed list of voters. A frozen node learns of
	// electorates, and takes no part in their decisions: see from_fixed.go.
	Frozen bool
	// MaxTTL is this node's configured maximum TTL. The electorate's own value counts, once the
	// voters have decided a value: see max_ttl.go.
	MaxTTL time.Duration
}

// MaxVoters is the default limit on the size of the electorate. Seven voters survive the loss of
// three; more voters make each lock slower.
const MaxVoters = 7

// OwnVoter is the state of a machine's own voter, as reported by the owner.
type OwnVoter struct {
	Top      vote.Token // the largest token known to the voter
	Limit    vote.Token // the largest token accepted by the voter from others; zero if unknown
	Counting bool       // the voter's votes count, so the voter remembers its promises
}

// Machine is one node's part in deciding who votes. The zero value is not usable; see New.
type Machine struct {
	contactLayer
	// The birth by count; see birth.go.
	candidates      []vote.Elector // the founders, if nothing changes
	candidatesSince vote.Instant   // since when candidates is the same
	pledgedAt       vote.Instant
	births          uint64       // how many identities this process had before
	pledgesKnown    vote.Instant // since when the pledges of all founders are known; zero if they aren't
	mustRegister    bool         // this founder has to name the mesh in the register
	// The register of births; see register.go.
	register registration
	calls    []vote.RegisterCall
	// The election of the next version; see change.go and paxos.go.
	race     *race
	number   uint64       // the largest ballot number seen
	raceAt   vote.Instant // no ballot is started before this instant
	needed   string       // the wanted change
	neededAt vote.Instant // since when needed is wanted
}

// connState is the state of one connection.
type connState struct {
	versionSent uint64 // the newest version that needs no repetition over the connection
	// The version sent last, and when; see tellAgain.
	told   uint64
	toldAt vote.Instant
}

// tellAgain is the least time until a version is sent over a connection again, where the other node
// goes on under an older version. Without a pause two nodes would talk as fast as they can: a voter
// that may not vote refuses a session, the electorate behind the refusal makes the requester open
// the session anew, and the opening has the older version.
const tellAgain = 100 * time.Millisecond

// deferredAnswer is an answer that waits until the state behind the answer is stored.
type deferredAnswer struct {
	writes uint64 // the write count of the awaited save
	conn   vote.Conn
	m      vote.Message
}

// deferredMax bounds how many answers wait for a slow disk. A node without an answer asks again.
const deferredMax = 256

// New returns the machine of a node that begins a new incarnation with the contents of its
// directory. A state without an electorate belongs to a new peer.
func New(cfg Config, state vote.DiskState, now vote.Now) *Machine {
	cfg.Founders = slices.Sorted(slices.Values(cfg.Founders))
	if cfg.MaxVoters == 0 {
		cfg.MaxVoters = MaxVoters
	}
	if cfg.Expect > 0 && cfg.MinVoters == 0 {
		cfg.MinVoters = vote.MinVoters(cfg.Expect)
	}
	m := &Machine{contactLayer: contactLayer{
		stateLayer: stateLayer{
			cfg: cfg, now: now, started: now.Slow, state: state, stored: state,
			pending: true, // each start is stored, so that a start from an old copy is noticed
		},
		conns: make(map[vote.Conn]*connState), others: make(map[vote.NodeID]*other), ties: make(map[vote.Elector]*tie),
		adopted: now.Slow, pollAt: now.Slow,
	}}
	m.number = state.Promised.Counter
	m.tieAll()
	m.finish()
	return m
}

// Known returns the newest electorate known to be decided; the version is zero when none is known.
// The caller must not change the electorate.
func (m *stateLayer) Known() *vote.Electorate { return &m.state.Electorate }

// Stored returns the newest electorate in the directory: the electorate that this node's voter
// applies.
func (m *stateLayer) Stored() *vote.Electorate { return &m.stored.Electorate }

// Trusted reports whether this node's directory is as the node left the directory, as far as other
// nodes have reported.
func (m *contactLayer) Trusted() bool { return m.distrusted == "" }

// Elector returns this node as a voter: its name and its directory.
func (m *stateLayer) Elector() vote.Elector {
	return vote.Elector{Name: m.cfg.Self.Node, Dir: m.state.Dir}
}

// member reports whether this node takes part in the next decision.
func (m *contactLayer) member() bool {
	return !m.cfg.Frozen && m.Trusted() && m.state.Electorate.Has(m.Elector())
}

// SetOwnVoter sets the state of this node's own voter.
func (m *stateLayer) SetOwnVoter(v OwnVoter) { m.own = v }

// Drain appends the messages to be sent to out, and clears the queue of messages.
func (m *stateLayer) Drain(out []vote.Outbound) []vote.Outbound {
	out = append(out, m.out...)
	clear(m.out)
	m.out = m.out[:0]
	return out
}

// Saves returns and clears the states to store now: none or one. A call of Saved must follow.
func (m *stateLayer) Saves() []vote.DiskState {
	s := m.saves
	m.saves = nil
	return s
}

// Alarms returns and clears the alarms for the operator.
func (m *stateLayer) Alarms() []string {
	a := m.alarms
	m.alarms = nil
	return a
}

func (m *contactLayer) begin(now vote.Now) {
	now.Slow = max(now.Slow, m.now.Slow) // a clock never goes back
	m.now = now
	m.longest.pass(now.Slow)
}

func (m *stateLayer) send(conn vote.Conn, msg vote.Message) {
	m.out = append(m.out, vote.Outbound{Conn: conn, Message: msg})
}

// after sends an answer as soon as the present state is stored.
func (m *stateLayer) after(conn vote.Conn, msg vote.Message) {
	switch {
	case m.pending && len(m.deferred) < deferredMax:
		m.deferred = append(m.deferred, deferredAnswer{m.state.Writes + 1, conn, msg})
	case m.pending:
	case m.savingNow && len(m.deferred) < deferredMax:
		m.deferred = append(m.deferred, deferredAnswer{m.state.Writes, conn, msg})
	case m.savingNow:
	default:
		m.send(conn, msg)
	}
}

// finish has the pending changes stored, one save at a time.
func (m *Machine) finish() {
	if m.byCount() {
		m.remember()
		m.callRegister()
		return
	}
	if m.pending && !m.savingNow && m.now.Slow >= m.retryAt {
		m.state.Writes++
		m.pending, m.savingNow, m.saving, m.savingFrom = false, true, m.state, m.now.Slow
		m.saves = append(m.saves, m.state)
	}
}

// remember takes the pending changes for stored: a process without a directory never comes back, so
// its memory is as good.
func (m *Machine) remember() {
	for m.pending {
		m.state.Writes++
		m.pending, m.everStored = false, true
		m.keep(m.state)
		m.move()
	}
}

// keep notes that a state is stored, and sends the answers waiting for the state.
func (m *contactLayer) keep(state vote.DiskState) {
	was := m.stored.Electorate.Version
	m.stored = state
	answers := m.deferred
	m.deferred = nil
	for _, a := range answers {
		if a.writes <= state.Writes {
			m.send(a.conn, a.m)
		} else {
			m.deferred = append(m.deferred, a)
		}
	}
	if m.stored.Electorate.Version != was {
		// A requester that counts this voter's acknowledgements must know the version before the
		// first acknowledgement under this version.
		for _, c := range m.connections() {
			m.sendElectorate(c)
		}
	}
}

// saveAgain is the delay between a failed save and the next try: long enough not to fill a log,
// short enough to notice soon when an operator has freed space on the disk.
const saveAgain = time.Second

// Saved reports the result of a save. An empty text means that the state is in the directory,
// synced.
func (m *Machine) Saved(now vote.Now, writes uint64, failed string) {
	m.begin(now)
	if !m.savingNow || writes != m.saving.Writes {
		return
	}
	m.savingNow, m.overdue = false, false
	if failed != "" {
		if m.stuck == "" {
			m.alarms = append(m.alarms, "the state directory can't be written, so this node takes no part in changes of the electorate; it goes on voting on locks: "+failed)
		}
		m.stuck, m.pending, m.retryAt = failed, true, m.now.Slow.Add(saveAgain)
		m.deferred = nil // the state behind the answers isn't stored; the waiting nodes ask again
		return
	}
	m.stuck, m.everStored = "", true
	m.keep(m.saving)
	m.move()
	m.finish()
}

// connections returns the connections, in order.
func (m *contactLayer) connections() []vote.Conn {
	conns := make([]vote.Conn, 0, len(m.conns))
	for c := range m.conns {
		conns = append(conns, c)
	}
	slices.Sort(conns)
	return conns
}

// sendElectorate sends the newest electorate over a connection.
func (m *contactLayer) sendElectorate(conn vote.Conn) {
	if l := m.conns[conn]; l != nil && m.state.Electorate.Version > 0 {
		e := &vote.Consensus{Electorate: m.state.Electorate, MaxTTL: m.cfg.MaxTTL}
		if m.byCount() {
			e.Contacts = m.contacts()
		}
		// A fresh process that doesn't adopt the electorate hears of the electorate again: without
		// a majority, or while the process believes that the register names another mesh.
		if !m.byCount() || reaches(e) && m.cfg.RegisterTerm == 0 {
			l.versionSent = m.state.Electorate.Version
		}
		l.told, l.toldAt = m.state.Electorate.Version, m.now.Slow
		m.send(conn, vote.Message{Kind: vote.KindElectorate, Epoch: m.stored.Electorate.Version, Consensus: e})
	}
}

// NoteVersion notes the version that the sender on a connection applies. A sender with an older
// version is sent the newest electorate.
func (m *contactLayer) NoteVersion(now vote.Now, conn vote.Conn, epoch uint64) {
	if conn == vote.LocalConn {
		return
	}
	m.begin(now)
	l := m.conns[conn]
	if l == nil {
		l = &connState{}
		m.conns[conn] = l
	}
	newest := m.state.Electorate.Version
	if epoch < newest && l.versionSent < newest && (l.told < newest || m.now.Slow >= l.toldAt.Add(tellAgain)) {
		m.sendElectorate(conn)
	}
}

// adopt applies a newer electorate, known to be decided.
func (m *Machine) adopt(e *vote.Electorate) {
	if m.state.Electorate.Version == 0 {
		m.noMajoritySince = 0 // an earlier absence doesn't matter
	}
	m.state.Electorate = *e
	m.longest.note(m.now.Slow, e.Version, e.QuietTime(m.cfg.MaxTTL))
	// The election of the next version begins anew: this node has promised nothing in that
	// election.
	m.state.Promised, m.state.Accepted, m.state.Value, m.state.Pledge, m.state.PledgeMaxVoters, m.state.PledgeMaxTTL = vote.Ballot{}, vote.Ballot{}, vote.Electorate{}, nil, 0, 0
	m.pending = true
	m.race, m.raceAt, m.needed, m.drain, m.adopted = nil, 0, "", drain{}, m.now.Slow
	m.pledgesKnown, m.mustRegister = 0, false
	m.pollAt = m.now.Slow
	m.tieAll()
}

// learn takes in an electorate that another node reports as decided.
func (m *Machine) learn(e *vote.Electorate) {
	ours := &m.state.Electorate
	switch {
	case ours.Version == 0 || e.Lineage == ours.Lineage && e.Version > ours.Version:
		m.adopt(e)
	case e.Lineage != ours.Lineage || e.Version == ours.Version && !e.Equal(ours):
		if !m.split {
			m.split = true
			m.alarms = append(m.alarms, "there are two conflicting electorates: the mesh was "+
				"bootstrapped twice, or a state directory was restored from an old copy. Stop one "+
				"half of the mesh, remove its state directories, and start it again: its nodes "+
				"are voted in anew")
		}
	}
}
