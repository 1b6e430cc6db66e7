package quorum

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// silence is how long a voter may leave refreshes unanswered before its stream is closed and opened anew: two refreshes in a
// row are lost, and half the cover is left for another try.
func silence(ttl time.Duration) time.Duration { return ttl / 2 }

// aheadMax is how many acknowledgements may wait for what they speak of. It is more than fit into the silence that a voter may keep.
const aheadMax = 2 * vote.RefreshesPerTTL

// quietPoll bounds how often a quiet voter is asked out of turn whether it counts by now.
const quietPoll = 50 * time.Millisecond

type linkState uint8

const (
	linkConnecting linkState = iota // being dialed, for all we know
	linkUnreachable
	linkUp
)

// peer is the requester's session at one voter.
type peer struct {
	place int
	name  vote.NodeID
	dir   vote.Dir // of the voter, where the electorate follows the living

	link     linkState
	conn     vote.Conn
	text     string      // why it isn't reachable
	refused  vote.Reason // why it turns us away; until an answer comes
	life     vote.Life   // the voter's, as the handshake told
	stream   vote.Stream
	answered bool   // the statement of this stream was answered, so words count
	goes     uint64 // the version of the electorate that it last said it goes by
	notYet   bool   // it doesn't know that it is a voter, so it has heard no statement
	slow     bool   // it has left a request unanswered for as long as voters are spared, and has said nothing since

	gen      vote.Generation
	covered  cover        // until when the votes of this life and generation stand
	counting bool         // the voter isn't quiet
	quiet    vote.Instant // until when it said it is quiet, at least

	said, heard uint64 // ordered messages of this stream, after the statement and its answer
	book        book
	ahead       []vote.Message // acknowledgements that overtook what they speak of, in order
	listing     []vote.Entry   // the answer, as far as it has come
	stated      vote.Instant   // when the statement was sent
	refreshed   vote.Instant   // when the newest refresh was sent
	lastWord    vote.Instant   // when the voter last answered
	refreshAt   vote.Instant   // when the next refresh is due, if before the node's

	rtt     time.Duration // smoothed; zero when unknown
	offset  vote.Micros   // of the voter's wall clock from ours
	clocked bool          // offset is known
	drift   drift
}

// up reports whether a message can be sent to the voter on the current stream: the statement has been said.
func (p *peer) up() bool { return p.link == linkUp }

// reachable reports whether the voter answers us.
func (p *peer) reachable() bool { return p.up() && p.answered && p.refused == vote.ReasonNone }

// counts reports whether the voter answers us and its votes count.
func (p *peer) counts() bool { return p.reachable() && p.counting }

// behind reports whether the voter goes by an electorate under which nothing counts here any more. It has been told of a newer one; if it stays
// behind, its state directory can't be written. What it says under the one before counts for a TTL.
func (q *Requester) behind(p *peer) bool {
	return q.cfg.Following && p.goes < q.newest.version && !(q.before.Known() && p.goes == q.before.version)
}

// hopeless reports whether the voter is known to give no vote for now.
func (p *peer) hopeless() bool {
	return p.refused != vote.ReasonNone || p.link == linkUnreachable || p.reachable() && !p.counting
}

// State is how a voter looks from this node.
type State uint8

const (
	// Connecting : nothing is known yet, or the connection has just broken.
	Connecting State = iota
	// Reachable : the voter answers and its votes count.
	Reachable
	// Quiet : the voter answers, but its votes don't count yet.
	Quiet
	// Unreachable : the voter can't be reached.
	Unreachable
	// Refused : the voter turns this node away.
	Refused
	// Behind : the voter answers, but goes by an electorate that is over.
	Behind
)

func (s State) String() string {
	return [...]string{"connecting", "reachable", "quiet", "unreachable", "refused", "behind"}[s]
}

// VoterState is one voter as it looks from this node.
type VoterState struct {
	Name  vote.NodeID
	State State
	Quiet time.Duration // for how much longer it is quiet, at least
	Life  vote.Life     // zero while unknown
	Text  string        // why it is unreachable or refuses
	Drift string        // how its clock was seen to gain on this node's by more than may be; empty as a rule
}

func (p *peer) state(now vote.Now) VoterState {
	s := VoterState{Name: p.name, Life: p.life}
	s.Drift = p.drift.text
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
		if p.notYet {
			s.Text = "it isn't a voter, as far as it knows: it has yet to store the electorate, or has another state directory"
		}
	case !p.counting:
		s.State, s.Quiet = Quiet, max(p.quiet.Sub(now.Fast), 0)
	default:
		s.State = Reachable
	}
	return s
}

// String tells a voter's state in a few words.
func (s VoterState) String() string {
	switch s.State {
	case Quiet:
		if s.Quiet <= time.Millisecond { // its time is over, but too few of the others have answered it
			return fmt.Sprintf("%s quiet until it has heard from others how high tokens stand", s.Name)
		}
		return fmt.Sprintf("%s quiet for %.1fs", s.Name, s.Quiet.Seconds())
	case Refused:
		return fmt.Sprintf("%s refuses (%s)", s.Name, s.Text)
	case Behind:
		return fmt.Sprintf("%s behind (%s)", s.Name, s.Text)
	case Unreachable, Connecting:
		if s.Text != "" {
			return fmt.Sprintf("%s %s (%s)", s.Name, s.State, s.Text)
		}
	}
	return fmt.Sprintf("%s %s", s.Name, s.State)
}

// clock learns from an echo how far the voter is and how its wall clock stands to ours. An echo that took too long, since this
// process was stopped before it read it, tells neither.
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
