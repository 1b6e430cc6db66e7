package lease

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Limits of what a voter keeps. They bound the voter's memory against a runaway application.
// Requests beyond MaxRequests are answered "busy"; the connection of a session beyond maxSessions
// is closed.
const (
	// maxSessions is how many sessions a voter keeps: one for each incarnation of each node, an
	// order of magnitude above a large mesh.
	maxSessions = 4096
	// MaxRequests is how many requests a voter keeps per session, waiting and granted together. A
	// million held leases must work.
	MaxRequests = 2 << 20
)

// minProposalTimeout is the shortest proposal timeout: how long a tentative promise stands at least
// before the voter inquires of it for its age alone. Four round trips on a single machine take
// microseconds, less than a busy scheduler needs to run the requester once.
const minProposalTimeout = 20 * time.Millisecond

// proposalTrips is the proposal timeout in round trips of the requester: one to collect votes, one
// to confirm their token, and as much again for a slow voter.
const proposalTrips = 4

// Config is the configuration of a voter.
type Config struct {
	Self vote.SessionID
	// The voter's state directory under dynamic membership; zero if the electorate is fixed
	Dir        vote.Dir
	Electorate vote.Electorate // the first to apply; may be empty, or lack this voter
	// The longest session, and how long a new voter is quiet, as configured. The electorate's own
	// value counts, if the voters have decided one.
	MaxTTL time.Duration
	// The state directory is new, so no earlier incarnation has promised anything: the voter
	// doesn't wait for the maximum TTL at its start
	Fresh bool
	// Born: the voter is a founder of a mesh that is born by count. It waits for the maximum TTL,
	// since an earlier mesh may have granted leases up to the birth; and no other voter knows more
	// of the tokens of that mesh than the wall clock shows.
	Born bool
}

// Voter grants votes. Its zero value is not usable; see New.
//
// A Voter routes messages and timers to its parts. The embedded parts serve all the others: each
// part reads the time, sends messages and counts its work.
type Voter struct {
	voteLayer
	queries queries
}

// Counters count the actions of a voter's incarnation, for statistics and for tests that check
// whether a rare path was reached.
type Counters struct {
	Promises, Inquiries, Yields, ProposalTimeouts, Confirms, Expired, Restated, Refused, Superseded, LastResort, Distrusted uint64
	// Voided counts extensions, and Unreceived counts votes, not received by their owners.
	Voided, Unreceived uint64
}

// New returns a voter that starts its incarnation now, in startup quarantine.
func New(cfg Config, now vote.Now) *Voter {
	v := &Voter{
		voteLayer: voteLayer{
			sessionLayer: sessionLayer{cfg: cfg, clock: clock{now: now}, sessions: newSessionTable()},
			votes:        voteTable{residuals: make(residualVotes), lapsedAt: now.Slow},
		},
	}
	v.quiet.counts, v.quiet.registered = vote.Never, true
	if !cfg.Fresh {
		v.quiet.until = now.Slow.Add(cfg.Electorate.QuietTime(cfg.MaxTTL))
	}
	v.due = v.quiet.until
	if f := cfg.Electorate.MinToken; f <= vote.MaxFrom(vote.LastClock) {
		// The minimum token is from this node's own directory: an earlier incarnation checked it
		// before storing it
		v.tokens.trust.vouched = f
	}
	v.setElectorate(cfg.Electorate)
	return v
}

// Step processes a message from a requester, received over conn, and appends the messages to send
// to out. The message may contain anything; nonsense is ignored, or answered with an error of the
// protocol.
func (v *Voter) Step(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	switch m.Kind {
	case vote.KindOpen:
		if !v.electorate.member || !v.quiet.registered || !vote.SameBirth(m.Epoch, v.electorate.Version) {
			v.refuse(conn, m.Stream, vote.ReasonNotVoter)
			break
		}
		if v.quiet.suspension == suspendedWithdrew {
			v.refuse(conn, m.Stream, vote.ReasonDeposed)
			break
		}
		v.open(conn, from, m)
	case vote.KindTokenQuery:
		t := v.send(conn, vote.KindTokenAnswer)
		t.Nonce, t.Token, t.Counting = m.Nonce, v.tokens.top, v.counting()
	case vote.KindQuery:
		v.query(conn, from.Node, m)
	case vote.KindWatch:
		v.watch(conn, from.Node, m)
	case vote.KindRevoke:
		v.revoke(conn, from, m)
	default:
		s := v.sessions.on(conn, from)
		if s == nil || s.stream != m.Stream || s.conn != conn || !s.isLinked() {
			v.unknown(conn, m.Stream)
			break
		}
		v.receive(s, m)
	}
	return v.end()
}

// receive processes a message on a session's current stream.
func (v *Voter) receive(s *session, m *vote.Message) {
	switch m.Kind {
	case vote.KindSync:
		v.sync(s, m)
		return
	case vote.KindRefresh:
		v.refresh(s, m)
		return
	case vote.KindProbeReply:
		v.alive(s)
		return
	}
	switch s.phase {
	case streamReady:
		v.obey(s, m)
	case streamApplying:
		s.applying.keep(v, m)
	case streamWaiting:
		s.moveTo(streamMissed) // the node resyncs once the session needn't wait any more
	case streamMissed:
	default:
		// A requester sends other messages only after the end mark of its sync, so the message
		// can't be valid on this stream. The node must resync.
		v.unknown(s.conn, m.Stream)
	}
}

// obey processes a message from a session's owner about a request.
func (v *Voter) obey(s *session, m *vote.Message) {
	s.processed++
	switch m.Kind {
	case vote.KindRequest:
		v.request(s, m)
	case vote.KindConfirm:
		v.confirm(s, m)
	case vote.KindYield:
		v.yield(s, m)
	case vote.KindRelease:
		v.release(s, m)
	case vote.KindExtend:
		v.extend(s, m)
	case vote.KindDowngrade:
		v.share(s, m)
	case vote.KindSetValue:
		v.set(s, m)
	case vote.KindRevokeForRequest:
		v.revokeForRequest(s, m)
	}
}

// Tick lets time pass: sessions, proposal timeouts and the startup quarantine end.
func (v *Voter) Tick(now vote.Now, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.runTasks()
	if v.isDue() && v.work.leftForTimers() {
		v.advance() // many timers were due, or a task has made some due
	}
	return v.end()
}

// Unlink reports that a connection is closed. The session and its votes live on until the session's
// deadline, but the session gets no new vote, since its owner wouldn't receive the promise.
func (v *Voter) Unlink(now vote.Now, conn vote.Conn, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.unlinkWatches(conn)
	v.queries.unlink(conn)
	for _, s := range slices.Clone(v.sessions.listed) {
		if s.isLinked() && s.conn == conn {
			v.unlink(s)
		}
	}
	return v.end()
}

// Next returns the instant of the slow clock before which Tick has nothing to do.
func (l *sessionLayer) Next() vote.Instant {
	if l.Busy() {
		return l.now.Slow
	}
	return l.due
}

// Alarms returns the alarms for the operator, and forgets them.
func (l *sessionLayer) Alarms() []string { return l.takeAlarms() }

// Counters returns the counters of this incarnation.
func (l *sessionLayer) Counters() Counters { return l.count }

func (v *Voter) begin(now vote.Now, out []vote.Outbound) {
	v.moveTo(now)
	v.collect(out)
	v.work.begin()
	v.endTerm() // before anything is promised or answered
	if v.isDue() {
		v.advance()
	}
}

// advance runs all timers that are due, and records when the next timer is due.
func (v *Voter) advance() {
	v.due = vote.Never
	v.advanceSessions()
	v.advanceQuiet()
	v.advanceTrust()
	v.advanceReminders()
	v.advanceIdle()
	v.advanceQueries()
	v.advanceCatalog()
}

// violated reports a broken invariant of this voter. The voter then withdraws: it makes and extends
// no more promises, so that its earlier promises end by themselves, and the application goes on.
func (l *sessionLayer) violated(format string, args ...any) {
	if !l.quiet.broken {
		l.quiet.broken = true
		l.alarm("broken invariant, this voter withdraws: "+format, args...)
	}
}
