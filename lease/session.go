package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// session is an incarnation of a node at this voter. Deadlines are kept per session: every vote and
// every place in a queue lasts as long as its session, except for votes with an end of their own
// (coldFields.end).
type session struct {
	id              vote.SessionID
	gen             vote.Generation
	asked           time.Duration // the TTL that the node asks for
	ttl             time.Duration // the TTL that the voter grants: at most grantLimit
	deadline        vote.Instant  // on the slow clock; rounded up: counts from the refresh's arrival
	proposalTimeout time.Duration
	reaches         bool                     // the node reports that it reaches a majority
	demoted         map[vote.Number]struct{} // requests demoted to a later round since the last reset
	lapsed          map[vote.Number]struct{} // requests without a lease that have lapsed since the last refresh
	entries         shrinkingMap[vote.Number, *entry]
	all             []*entry // the entries, each at its index entry.at, to be processed in pieces
	digest          vote.Digest
	doubted         vote.Token // the smallest refused token of a lease that the node reports; zero if none

	// The current stream.
	conn         vote.Conn
	stream       vote.Stream
	phase        streamPhase
	listed       []vote.Entry
	applying     *applying    // the task that applies the sync in streamApplying; otherwise nil
	syncSent     vote.Instant // Sent of the open message, to be echoed
	sentCounting bool         // the node was last told that this voter's votes count
	extends      bool         // the answer extends the session

	processed, pushed, received uint64
	// awaitedPush is the push to be acknowledged soon, with all pushes before; zero if there is
	// none.
	awaitedPush  uint64
	awaitedSince vote.Instant // since when awaitedPush is set

	claim      nameClaim
	probeUntil vote.Instant // when the other incarnation is presumed dead, for a candidate

	receipts receipts
}

// probeFor returns how long the older incarnation of a name may take to answer a probe: many round
// trips, and at most a quarter of the TTL, so that the newer incarnation's sync is answered before
// the newer incarnation gives up.
func probeFor(ttl time.Duration) time.Duration { return min(ttl/4, time.Second) }

// unanswered returns how long pushes may go unacknowledged before the connection is closed: a
// one-way cut must not pin keys.
func unanswered(ttl time.Duration) time.Duration { return ttl / 2 }

// open begins a stream of a session, and creates the session if there is none.
func (v *Voter) open(conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.TTL < vote.MinTTL || m.TTL > v.mayAsk() {
		v.refuse(conn, m.Stream, vote.ReasonTTL)
		return
	}
	s := v.sessions.find(from)
	extends := true // a new session is extended by its first answer
	if s != nil && s.claim != claimSuperseded && m.Stream > s.stream {
		if extends = v.readReceipt(s, m, true); s.deadline <= v.now.Slow {
			v.expire(s)
			s, extends = nil, true
		}
	}
	switch {
	case s == nil:
		if v.sessions.full() {
			v.closeConn(conn)
			return
		}
		if m.Stream <= v.newestStream(from) {
			// The message is from an earlier stream of a session that has ended. Requests missing
			// in its sync may have been promised since.
			return
		}
		candidate, ok := v.admit(conn, from, m.Stream)
		if !ok {
			return
		}
		s = v.sessions.add(from)
		s.deadline = v.now.Slow.Add(min(m.TTL, v.grantLimit()))
		if candidate {
			s.claim = claimCandidate
			s.probeUntil = v.now.Slow.Add(probeFor(min(m.TTL, v.grantLimit())))
			v.at(s.probeUntil)
		}
	case s.claim == claimSuperseded:
		v.refuse(conn, m.Stream, vote.ReasonNameTaken)
		return
	case m.Stream <= s.stream:
		return // a message of an earlier stream
	case s.isLinked() && s.conn != conn:
		v.closeConn(s.conn)
	}
	s.asked, s.ttl = m.TTL, min(m.TTL, v.grantLimit())
	s.setProposalTimeout(m.RTT)
	s.reaches = m.RTT > 0
	if s.claim == claimProven && s.conn != conn {
		s.become(claimCandidate)
	}
	s.moveTo(streamListing)
	s.conn, s.stream, s.listed, s.syncSent = conn, m.Stream, nil, m.Sent
	s.extends, s.receipts.answerLost = extends, m.Void
	s.processed, s.pushed, s.received, s.awaitedPush = 0, 0, 0, 0
	v.sessions.rescan()
	if s.claim.isCandidate() || v.sessions.contested(s) {
		// A probe that named an earlier stream is void.
		v.send(conn, vote.KindProbe).Stream = s.stream
	}
	v.at(s.deadline)
}

// newestStream returns the newest stream of an incarnation that has left something behind after its
// session ended; zero if nothing is left.
func (l *voteLayer) newestStream(id vote.SessionID) vote.Stream {
	newest := l.votes.residuals.stream(id)
	if s := l.endingOf(id); s != nil {
		newest = max(newest, s.stream)
	}
	return newest
}

func (s *session) setProposalTimeout(rtt time.Duration) {
	if rtt > 0 {
		s.proposalTimeout = min(max(proposalTrips*min(rtt, s.ttl), minProposalTimeout), s.ttl)
	} else if s.proposalTimeout == 0 {
		s.proposalTimeout = max(s.ttl/RTTGuess, minProposalTimeout)
	}
}

// RTTGuess sets a session's first proposal timeout while the requester doesn't know its round-trip
// time yet: TTL/RTTGuess, at least minProposalTimeout.
const RTTGuess = 8

// refresh extends the session and acknowledges the refresh. The cost doesn't depend on the number
// of requests in the session.
func (v *Voter) refresh(s *session, m *vote.Message) {
	if !s.isSynced() || v.quiet.broken {
		return
	}
	if m.Received > s.pushed {
		v.unknown(s.conn, s.stream) // the node acknowledges messages that were never sent
		return
	}
	if s.due() <= v.sessions.due {
		v.sessions.rescan()
	}
	extends := v.readReceipt(s, m, m.Void)
	if extends {
		v.extendBy(s, m)
	}
	v.answerReceived(s)
	s.setProposalTimeout(m.RTT)
	if s.reaches = m.RTT > 0; s.reaches {
		v.resetRounds(s)
	}
	if len(s.lapsed) > 0 {
		v.startTask(&sessionTask{s, slices.Sorted(maps.Keys(s.lapsed)), reviveWaiting})
		s.lapsed = nil
	}
	s.received = max(s.received, m.Received)
	if s.awaitedPush != 0 && s.received >= s.awaitedPush {
		s.awaitedPush = 0
		v.expectReceipt(s)
	}
	a := v.send(s.conn, vote.KindAck)
	a.Stream, a.Sent, a.Incarnation, a.Generation = s.stream, m.Sent, v.cfg.Self.Incarnation, s.gen
	a.Processed, a.Pushed, a.Count, a.Hash = s.processed, s.pushed, s.digest.Count, s.digest.Hash
	a.Quiet, a.Wall, a.Clock, a.Epoch = v.Quiet(), v.now.Wall, v.now.Slow, v.electorate.Version
	s.sentCounting = a.Quiet == 0
	a.Void = !extends
}

// push sends an ordered message about a request to the session's requester, and returns the message
// as send does. A message that can't be received isn't sent: the answer to the next sync reports
// the state.
func (l *sessionLayer) push(s *session, kind vote.Kind, n vote.Number) *vote.Message {
	if !s.isReachable() {
		return l.sendNowhere()
	}
	s.pushed++
	l.expectReceipt(s)
	m := l.send(s.conn, kind)
	m.Stream, m.Number = s.stream, n
	return m
}

// expectReceipt starts the timeout for the acknowledgement of the messages pushed so far.
func (l *sessionLayer) expectReceipt(s *session) {
	if s.awaitedPush == 0 && s.pushed > s.received {
		s.awaitedPush, s.awaitedSince = s.pushed, l.now.Slow
		at := s.awaitedSince.Add(unanswered(s.ttl))
		l.sessions.dueBy(at)
		l.at(at)
	}
}

func (v *Voter) unlink(s *session) {
	s.moveTo(streamNone)
	v.sessions.rescan()
	if s.claim.isCandidate() {
		v.remove(s)
	}
}

// due returns when the session next needs attention, if no message arrives before.
func (s *session) due() vote.Instant {
	due := s.deadline
	if s.claim.isCandidate() {
		due = min(due, s.probeUntil)
	}
	if s.isLinked() && s.awaitedPush != 0 {
		due = min(due, s.awaitedSince.Add(unanswered(s.ttl)))
	}
	return due
}

// advanceSessions ends sessions after their deadlines.
func (v *Voter) advanceSessions() {
	if v.sessions.isDue(v.now.Slow) {
		v.endSessions()
	}
	v.at(v.sessions.due)
}

// expire ends a session after its deadline.
func (v *Voter) expire(s *session) {
	v.count.Expired++
	v.remove(s)
}

func (v *Voter) endSessions() {
	now := v.now.Slow
	for _, s := range slices.Clone(v.sessions.listed) {
		switch {
		case !v.sessions.has(s):
			continue // the session was removed in the meantime
		case now >= s.deadline:
			conn, stream, linked := s.conn, s.stream, s.isLinked()
			v.expire(s)
			if linked {
				v.unknown(conn, stream)
			}
			continue
		case s.claim.isCandidate() && now >= s.probeUntil:
			v.takeOver(s)
		case s.isLinked() && s.awaitedPush != 0 && now >= s.awaitedSince.Add(unanswered(s.ttl)):
			v.closeConn(s.conn)
			v.unlink(s)
		}
		v.sessions.dueBy(s.due())
	}
}

// sorted returns the session's entries for which wanted is true (nil: all entries), in order of
// their numbers.
func (s *session) sorted(wanted func(*entry) bool) []*entry {
	var all []*entry
	if wanted == nil {
		all = make([]*entry, 0, len(s.all))
	}
	for _, e := range s.all {
		if e != nil && (wanted == nil || wanted(e)) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	return all
}
