package vote

import (
	"cmp"
	"fmt"
	"time"
)

// NodeID is the unique name of a node in its mesh.
type NodeID string

// Incarnation identifies one start of a node. An Incarnation is drawn at random when the process
// starts, so two starts of a node never have equal Incarnations. Incarnations have no order.
type Incarnation uint64

// Key is the name of a lock.
type Key string

// Number counts the requests of an incarnation, from 1.
type Number uint64

// Serial counts the promises of a voter's incarnation, from 1. A later promise has a larger serial,
// for any key.
type Serial uint64

// Generation distinguishes a session from earlier sessions of the same incarnation at the same
// voter. The voter assigns the generation when it creates the session.
type Generation uint64

// Token is the fencing number of a lease. Zero means none.
type Token uint64

// MaxToken is the largest token: 63 bits, to fit a signed 64-bit column of a database.
const MaxToken Token = 1<<63 - 1

// Stream numbers the streams from a requester's incarnation to a voter, from 1. Messages of an
// earlier stream are void.
type Stream uint64

// Conn identifies a connection of a node, in that node only. Zero is the node's link to itself.
type Conn uint64

// LocalConn is the connection between a node's requester and the same node's voter.
const LocalConn Conn = 0

// Instant is a reading of a clock of a node, in nanoseconds. Instants of different nodes or of
// different clocks can't be compared, so an instant crosses the wire only as an echo for its
// sender, or for the differences between readings of the same clock (Message.Clock).
type Instant int64

// Never is later than every instant shown by a clock.
const Never Instant = 1<<63 - 1

// Add returns the instant d after i, and Never instead of an overflow.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	if d > 0 && sum < i {
		return Never
	}
	return sum
}

// Sub returns how long after j the instant i is.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Micros is a wall-clock time in microseconds of the Unix epoch. Wall clocks are hints: only the
// order of the queue (within [Skew]) and the last resort for tokens rest on wall clocks.
type Micros int64

// Now is a reading of a node's clocks.
//
// A lease must never outlast its votes. So a lease is measured with the holder's fastest clock, and
// a promise with the voter's slowest clock; on a machine with a single clock both are the same.
type Now struct {
	Fast Instant // for holders: advances while the machine is suspended
	Slow Instant // for voters: may stop while the machine is suspended
	Wall Micros  // the wall clock, which may be wrong and may jump
}

// SessionID identifies a session by the incarnation of a node. Each voter keeps at most one session
// per SessionID.
type SessionID struct {
	Node        NodeID
	Incarnation Incarnation
}

func (s SessionID) String() string {
	return fmt.Sprintf("%s/%x", string(s.Node), uint64(s.Incarnation))
}

// Stamp is a request's place in every queue: the older stamp goes first. Stamps are totally
// ordered, and a request keeps its stamp.
type Stamp struct {
	Time   Micros
	Owner  SessionID
	Number Number
}

// Compare orders stamps: negative if s is older than t, positive if s is younger, zero only for the
// same request.
func (s Stamp) Compare(t Stamp) int {
	if c := cmp.Compare(s.Time, t.Time); c != 0 {
		return c
	}
	if c := cmp.Compare(s.Owner.Node, t.Owner.Node); c != 0 {
		return c
	}
	if c := cmp.Compare(s.Number, t.Number); c != 0 {
		return c
	}
	return cmp.Compare(s.Owner.Incarnation, t.Owner.Incarnation)
}

// Mode is how a request shares its key.
type Mode uint8

// The modes. Requests of different modes never have votes of a voter at the same time, except an
// upgrade and the shared request that the upgrade replaces.
const (
	// Exclusive means that the request shares its key with no other request.
	Exclusive Mode = 1
	// Shared means that the request shares its key with any number of requests of this mode.
	Shared Mode = 2
	// Permit means that the request takes one of the key's slots, as many as the key has permits.
	Permit Mode = 3
)

// Valid reports whether this version knows the mode.
func (m Mode) Valid() bool { return m >= Exclusive && m <= Permit }

func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	case Permit:
		return "permit"
	}
	return "unknown mode"
}

// MaxPermits is how many permits a key may have. A voter examines all votes of the key at each
// promise.
const MaxPermits = 1024

// Slot is one of a key's permits, from 1. Zero means none, or any.
//
// Permits are counted by slots because counting votes isn't enough: three voters with two votes
// each could elect three holders. A slot is an exclusive lock of its own: two majorities for a slot
// share a voter, and the shared voter gives the slot to only one of the two requests.
type Slot uint16

// Spec is the specification of a request.
type Spec struct {
	Key     Key
	Mode    Mode
	Permits uint16 // of the key, the same for all its users; with mode Permit only
	Try     bool   // the request doesn't wait behind others
	// An upgrade: the session's shared request beside which this exclusive request may have its
	// votes
	Beside Number

	// Length is how long a vote lasts without a message from its owner, if not as long as the
	// session: at most the maximum TTL.
	Length time.Duration
	// Delay (lock-delay) is how long the key stays blocked after the lease has ended without being
	// given back.
	Delay time.Duration
	// MinHold is how long after the grant the key stays blocked for other requests, even if the
	// lease is given back.
	MinHold time.Duration
	// EndsAfter is how long after the grant the lease ends by itself or, of a lease that a voter
	// hears of after the grant, how much longer the lease lasts; zero if the lease lasts until the
	// unlock. Voters only show EndsAfter: no vote depends on it.
	EndsAfter time.Duration
}

// BlockSize is the size of a token block: the tokens that belong to a lease, namely the token of
// the grant and the tokens before. The node that holds the lease may hand the key off among its own
// callers, and each caller has a token of its own. All tokens of the block are above every token of
// an earlier lease, since voters propose a token larger by Run than the largest token known to
// them.
//
// Run bounds how often a key is handed off before requests of other nodes get their turn, at the
// cost of a round trip; in the time of a round trip, a node hands a key off some ten times. Run
// isn't larger because tokens are microseconds, and each lease granted by the voters uses up a
// block: a key locked more often than once in Run microseconds gets ahead of the clocks, which are
// the last resort when all voters forget at once. With a Run of 32, outrunning the clocks takes
// 31,000 locks of a key per second, each with a round trip.
const BlockSize = 32

// First returns the smallest token of the block that ends at t.
func (t Token) First() Token { return t - min(t, BlockSize-1) }

// Above returns the last token of the lowest block above t; MaxToken if there is none.
func (t Token) Above() Token {
	if t >= MaxToken-BlockSize {
		return MaxToken
	}
	return t + BlockSize
}

// Next returns the smallest token above t, or MaxToken at MaxToken, which no clock reaches for
// 292,000 years.
func (t Token) Next() Token {
	if t >= MaxToken {
		return MaxToken
	}
	return t + 1
}
