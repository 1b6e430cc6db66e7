// Package check is an implementation package of lockmesh, without a compatibility promise. It
// judges what the users of a mesh observe, and what its voters promise.
//
// Each file has one check that can be read alone: an observer that is fed with the leases of a key,
// with the writes to a resource, with the messages of a voter, or with the calls of all users, and
// that reports each broken rule. A check knows neither the simulator nor the protocol; it has no
// clock and no randomness. Package sim feeds the checks with the events of a world, and has those
// further checks that compare a world with its nodes' own records.
package check

import (
	"math"
	"time"
)

// Moment is a point in world time, in nanoseconds since the world began. Nodes can't observe world
// time.
type Moment int64

// Never is later than every moment of a run.
const Never Moment = math.MaxInt64

// Add returns the moment after d.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Report takes the name of a broken rule, and a text that says what has happened.
type Report func(rule, format string, args ...any)

// The rules that the checks of this package demand.
const (
	RuleExclusion = "exclusion" // no two users believe in leases that exclude each other
	RuleRest      = "rest"      // after its end a lease keeps the key for as long as agreed
	RuleTokens    = "tokens"    // tokens rise
	RuleLength    = "length"    // no lease lasts longer than agreed
	// RuleResource means that a resource that checks tokens accepts no write out of order and
	// refuses no rightful holder.
	RuleResource = "resource"
	RuleHistory  = "history" // a single fenced lock explains all observations of users
	// RulePromises means that before the session's deadline only a message from the owner moves a
	// vote.
	RulePromises = "promises"
	RuleSerial   = "serials" // an incarnation of a voter uses each serial once
	RuleIdle     = "idle"    // a free key is granted to a waiting request
	RuleOrder    = "order"   // requests are served in the order of their arrival
)
