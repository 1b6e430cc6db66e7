// Package vote holds the words of the protocol as types: who speaks, about what, and the messages themselves.
//
// It decides nothing. Everything that decides (packages lease, quorum and internal/node) speaks in these types, so that a name
// cannot be passed where a key is meant, and an instant of one clock cannot be mistaken for a duration on the wire.
package vote

import (
	"cmp"
	"fmt"
	"time"
)

// NodeID is the unique name of a node in its mesh.
type NodeID string

// Life tells one start of a node from another. It is drawn at random when the process starts, so two lives of one name
// are never equal; lives have no order.
type Life uint64

// Key is the name of a lock.
type Key string

// Number counts the requests of one life, from 1.
type Number uint64

// Serial counts the promises of one voter's life, from 1. A later promise has a larger serial, whatever key it is for.
type Serial uint64

// Generation tells a session from an earlier one of the same life at the same voter. A voter gives it out when it creates the session.
type Generation uint64

// Token is the fencing number of a lease. Zero means none.
type Token uint64

// MaxToken is the largest token there is: 63 bits, so that it fits a signed 64-bit column of a database.
const MaxToken Token = 1<<63 - 1

// Stream numbers the streams from one requester's life to one voter, from 1. Words of an earlier stream are void.
type Stream uint64

// Conn names one connection of a node, in that node only. Zero is the node's link to itself.
type Conn uint64

// LocalConn is the connection over which a node's requester speaks to the same node's voter.
const LocalConn Conn = 0

// Instant is a reading of one clock of one node, in nanoseconds. Instants of different nodes or of different clocks have
// nothing to do with each other, so none crosses the wire except as an echo, which only its sender interprets.
type Instant int64

// Never is later than every instant that a clock shows.
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

// Micros is a wall-clock time in microseconds of the Unix epoch. Wall clocks are hints: nothing but the order of the queue
// (within [Skew]) and the last resort for tokens rests on them.
type Micros int64

// Now is one reading of a node's clocks.
//
// A lease must never outlast its votes. So what a holder is allowed is measured with the fastest clock at hand and what a voter
// has promised with the slowest; where a machine has a single clock both are the same.
type Now struct {
	Fast Instant // holders measure with it: it goes on while the machine is suspended
	Slow Instant // voters measure with it: it may stop while the machine is suspended
	Wall Micros  // the wall clock, which may be wrong and may jump
}

// SessionID names a session: one life of one node. Each voter keeps at most one session for it.
type SessionID struct {
	Node NodeID
	Life Life
}

func (s SessionID) String() string { return fmt.Sprintf("%s/%x", string(s.Node), uint64(s.Life)) }

// Stamp is a request's place in every queue: older goes first. Stamps are totally ordered, and a request keeps its own.
type Stamp struct {
	Time   Micros
	Owner  SessionID
	Number Number
}

// Compare orders stamps: negative when s is older than t, positive when it is younger, zero only for the same request.
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
	return cmp.Compare(s.Owner.Life, t.Owner.Life)
}

// Mode says how a request shares its key.
type Mode uint8

// The modes. Requests of different modes never have votes of one voter at the same time, but for an upgrade and what it replaces.
const (
	// Exclusive : it shares its key with nobody.
	Exclusive Mode = 1
	// Shared : it shares its key with any number of others of this mode.
	Shared Mode = 2
	// Permit : it takes one of the key's slots, of which there are as many as permits.
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

// MaxPermits is how many permits a key may have. A voter looks at all of them at each promise.
const MaxPermits = 1024

// Slot is one of a key's permits, from 1. Zero is none, or any.
//
// Permits are counted by slots since counting votes isn't enough: three voters that give two votes each elect three holders. A slot
// is an exclusive lock of its own: two majorities for it share a voter, and that gives it to one of them.
type Slot uint16

// Wish is what a request asks for.
type Wish struct {
	Key     Key
	Mode    Mode
	Permits uint16 // of the key, that all its users must agree on; with mode Permit only
	Try     bool   // it is not to wait behind others
	Beside  Number // an upgrade: the session's shared request beside which this exclusive one may have its votes

	// Length is how long a vote lasts without its owner's word, if not as long as its session: at most the maximum TTL.
	Length time.Duration
	// Delay is for how long nobody gets the key after the lease has ended without being given back.
	Delay time.Duration
	// MinHold is how long after it was won nobody else gets the key, even if it was given back.
	MinHold time.Duration
}

// Run is how many tokens belong to one lease: the one it was granted with and those before it. The node that holds the lease may pass the key on
// among its own callers, and each of them has a token of its own. All of them are above every token of an earlier lease, since voters propose
// that much more than they know of. It bounds how often a key is passed on before others are asked again: each time is a round trip, in which a node passes a
// key on some ten times. It isn't larger since tokens are microseconds, and each lease that the voters grant uses up a run: a key that is locked more often than once in as many
// microseconds as a run has tokens leaves the clocks behind, which are the last resort when all voters forget at once. With 32 that takes 31,000 locks of
// one key a second, each of them a round trip.
const Run = 32

// First returns the smallest token of the run that ends at t.
func (t Token) First() Token { return t - min(t, Run-1) }

// Above returns the smallest token whose run is above t.
func (t Token) Above() Token {
	if t >= MaxToken-Run {
		return MaxToken
	}
	return t + Run
}

// Next returns the smallest token above t. At MaxToken, which no clock reaches for 292,000 years, it stays there.
func (t Token) Next() Token {
	if t >= MaxToken {
		return MaxToken
	}
	return t + 1
}

// TokenAt is the token that stands for a wall-clock time. Times before 1970 have none.
func TokenAt(w Micros) Token {
	if w < 0 {
		return 0
	}
	return Token(w)
}
