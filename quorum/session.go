package quorum

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// silence is how long a voter may leave refreshes unanswered before its stream is closed and
// reopened: two refreshes in a row are lost, and half the validity is left for another attempt.
func silence(ttl time.Duration) time.Duration { return ttl / 2 }

// maxEarlyAcks is how many acknowledgements may wait for the messages that they overtook. Fewer
// regular refreshes fit into the longest silence of a voter.
const maxEarlyAcks = 2 * vote.RefreshesPerTTL

// quietPoll is the least time between extra refreshes by which a quiet voter is asked whether its
// votes count by now.
const quietPoll = 50 * time.Millisecond

type linkState uint8

const (
	linkConnecting linkState = iota // the node is dialing, as far as known
	linkUnreachable
	linkUp
)

// peer is the requester's session at one voter.
type peer struct {
	place int
	name  vote.NodeID
	dir   vote.Dir // the voter's directory, with dynamic membership

	link        linkState
	conn        vote.Conn
	text        string           // the reason why the voter isn't reachable
	refused     vote.Reason      // the reason why the voter refuses this node, until an answer comes
	nameAlarmed bool             // an alarm has said that the name is taken, until an answer comes
	incarnation vote.Incarnation // the voter's incarnation, from the handshake
	stream      vote.Stream
	reborn      bool   // the sync of the incarnation's first stream isn't complete
	answered    bool   // the sync of this stream was answered, so messages count
	ackEpoch    uint64 // the config epoch that the voter reported last
	notVoterYet bool   // the voter doesn't know of its own membership, so it has seen no sync
	slow        bool   // no message since a request went unanswered for the deferral time

	gen      vote.Generation
	validity validity     // until when the votes of this incarnation and generation hold
	counting bool         // the voter isn't quiet
	quiet    vote.Instant // until when the voter is quiet, at least, by its own report

	sent, received uint64 // ordered messages of this stream, after the sync and its answer
	digest         expectedDigest
	earlyAcks      []vote.Message // acknowledgements that overtook the messages they count, in order
	syncBuilder    *syncBuilder   // the task of making the sync; nil if there is none
	// The requests that the sync lists out of order; nil once the answer is complete.
	ahead        map[vote.Number]struct{}
	syncAnswer   listing       // the answer to the sync, as far as received
	answerReader *answerReader // the task of taking in the answer; nil if there is none
	syncSent     vote.Instant  // when the sync was sent
	refreshed    vote.Instant  // when the newest refresh was sent
	ackMark      ackMark
	// Messages sent on this stream before then were processed, and their answers are here.
	acked        vote.Instant
	lastReceived vote.Instant // when the voter last answered
	receipts     receipts
	refreshAt    vote.Instant // when the next refresh is due, if before the node's

	rtt     time.Duration // smoothed; zero while unknown
	offset  vote.Micros   // of the voter's wall clock from this node's
	clocked bool          // offset is known
	drift   drift
	rate    rate
	suspect suspectTokens
}

// up reports whether a message can be sent to the voter on the current stream: the sync was sent.
func (p *peer) up() bool { return p.link == linkUp }

// reachable reports whether the voter answers this node.
func (p *peer) reachable() bool { return p.up() && p.answered && p.refused == vote.ReasonNone }

// counts reports whether the voter answers this node and its votes count.
func (p *peer) counts() bool { return p.reachable() && p.counting }

// hopeless reports whether the voter is known to give no vote for now.
func (p *peer) hopeless() bool {
	return p.refused != vote.ReasonNone || p.link == linkUnreachable || p.reachable() && !p.counting
}

// State is the state of a voter as seen from this node.
type State uint8

const (
	// Connecting means that nothing is known yet, or the connection has just broken.
	Connecting State = iota
	// Reachable means that the voter answers and its votes count.
	Reachable
	// Quiet means that the voter answers, but its votes don't count yet.
	Quiet
	// Unreachable means that the voter can't be reached.
	Unreachable
	// Refused means that the voter refuses this node.
	Refused
	// Behind means that the voter answers, but under an electorate that is over.
	Behind
	// Silent means that the voter seems connected, and has left a refresh unanswered.
	Silent
)

func (s State) String() string {
	return [...]string{"connecting", "reachable", "quiet", "unreachable", "refused", "behind", "silent"}[s]
}

// VoterState describes one voter as seen from this node.
type VoterState struct {
	Name        vote.NodeID
	State       State
	Quiet       time.Duration    // how much longer the voter is quiet, at least
	Incarnation vote.Incarnation // zero while unknown
	Text        string           // why the voter is unreachable or refuses this node
	Implausible string           // implausible tokens named by the voter; usually empty
	Drift       string           // how the voter's clock gained too much on this node's; usually empty
	RoundTrip   time.Duration    // to the voter and back, smoothed; zero while unknown
	ClockOffset time.Duration    // of the voter's wall clock from this node's; zero while unknown
	ClockRate   int64            // how much faster the voter's clock runs, in parts per million; zero while unknown
}

func (p *peer) state(now vote.Now, byCount bool) VoterState {
	s := VoterState{Name: p.name, Incarnation: p.incarnation, RoundTrip: p.rtt, ClockOffset: time.Duration(p.offset) * time.Microsecond}
	s.Drift, s.ClockRate = p.drift.text, p.rate.ppm
	if p.suspect.alarmedAt != 0 && now.Fast.Sub(p.suspect.alarmedAt) < tokenAlarmEvery {
		s.Implausible = p.suspect.text
	}
	switch {
	case p.refused != vote.ReasonNone:
		s.State, s.Text = Refused, p.text
		if s.Text == "" {
			s.Text = p.refused.String()
		}
	case p.link == linkUnreachable:
		s.State, s.Text = Unreachable, p.text
	case !p.reachable():
		s.State = Connecting
		if p.notVoterYet {
			s.Text = "it doesn't know that it is a voter: it has yet to store the electorate, or has another state directory"
			if byCount {
				s.Text = "it doesn't know that it is a voter: it has yet to hear of the electorate, is another process of its name, or can't use the register"
			}
		}
	case !p.counting:
		s.State, s.Quiet = Quiet, max(p.quiet.Sub(now.Fast), 0)
	default:
		s.State = Reachable
	}
	return s
}

// String describes a voter's state in a few words.
func (s VoterState) String() string {
	switch s.State {
	case Quiet:
		// The quiet time is over, but too few other voters have answered the question for tokens.
		if s.Quiet <= time.Millisecond {
			return fmt.Sprintf("%s quiet until other voters have reported the highest token",
				s.Name)
		}
		return fmt.Sprintf("%s quiet for %.1fs", s.Name, s.Quiet.Seconds())
	case Refused:
		return fmt.Sprintf("%s refuses (%s)", s.Name, s.Text)
	case Behind, Silent:
		return fmt.Sprintf("%s %s (%s)", s.Name, s.State, s.Text)
	case Unreachable, Connecting:
		if s.Text != "" {
			return fmt.Sprintf("%s %s (%s)", s.Name, s.State, s.Text)
		}
	}
	if s.Implausible != "" {
		return fmt.Sprintf("%s %s (%s)", s.Name, s.State, s.Implausible)
	}
	return fmt.Sprintf("%s %s", s.Name, s.State)
}

// clock learns the round trip to the voter, and the offset of its wall clock, from an echo. An echo
// that took too long, since this process was stopped before reading it, tells neither.
func (p *peer) clock(now vote.Now, sent vote.Instant, wall vote.Micros, ttl time.Duration) {
	trip := max(now.Fast.Sub(sent), 1)
	if trip > silence(ttl) {
		return
	}
	if p.rtt == 0 {
		p.rtt = trip
	} else {
		p.rtt += (trip - p.rtt) / 8 // smoothed as TCP does it (Jacobson 1988)
	}
	p.offset, p.clocked = wall+vote.Micros(trip.Microseconds()/2)-now.Wall, true
}

// isBehind reports whether the voter's config epoch is so old that nothing counts under it here any
// more. The voter was told of a newer electorate; if the voter stays behind, its state directory
// can't be written. Messages under the previous electorate count for a TTL.
func (l *sessionLayer) isBehind(p *peer) bool {
	return l.cfg.Dynamic && p.ackEpoch < l.newest.version && !(l.before.Known() && p.ackEpoch == l.before.version)
}
