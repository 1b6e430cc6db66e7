package quorum

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// requestState is how far a request is: statePending, then perhaps stateWon, then stateEnding.
type requestState uint8

const (
	statePending requestState = iota
	stateWon
	stateEnding // released, lost, failed or abandoned; only confirmations are missing
)

// become changes the request's state. A change backwards would count the votes of a request that
// has ended.
func (r *request) become(next requestState) {
	if next <= r.state {
		panic(fmt.Sprintf("quorum: the state of a request changes from %d to %d", r.state, next))
	}
	r.state = next
}

// localPlace is a request's place in the local queue of its key.
type localPlace uint8

const (
	localNone   localPlace = iota
	localFront             // later requests of this node queue behind the request
	localQueued            // the request waits behind the front; no voter knows of the request
)

// moveTo changes the request's place in the local queue. The front doesn't go back, since voters
// know of its request.
func (r *request) moveTo(next localPlace) {
	if next == r.local || r.local == localFront && next != localNone {
		panic(fmt.Sprintf("quorum: the place of a request in the local queue changes from %d to %d", r.local, next))
	}
	r.local = next
}

// request is a request of this node for a key. Its 152 bytes leave 8 of the allocator's size class;
// the fields needed by few requests are in tally.cold.
type request struct {
	tally
	prev, next *request // in requestTable.ordered
	key        vote.Key
	number     vote.Number
	// The number of the caller: the same as number, unless the lease was handed off.
	caller vote.Number
	// This node's newest request when this request was sent to the voters.
	newestAtSend vote.Number
	time         vote.Micros  // of the stamp
	sentAt       vote.Instant // when the request was last sent to a voter
	// When the request was made; after its end, when it was released, until a majority has
	// confirmed the release.
	since            vote.Instant
	tokenHint        vote.Token
	token            vote.Token // of the lease: the last of its token block
	group            *group     // the lease group with the validity of the lease
	at               uint32     // the index in the group's members, or in requestTable.pending
	slot             vote.Slot  // of the lease
	mode             vote.Mode
	try              bool
	state            requestState
	local            localPlace
	contended        bool // another node waits for the key, or may have had the key meanwhile
	hedging          bool // deferred to some voters; see hedge
	awaitingValidity bool // in leaseGroups.awaitingValidity
	confirmed        bool // a confirmation round was needed
	reportEnd        bool // EventReleased is to report the end
}

// RequestOptions specifies a request: the part for the voters, and the options for the requester
// alone.
type RequestOptions struct {
	vote.Spec
	// A request with a length of its own isn't extended: the lease ends by its time.
	Fixed  bool
	Value  []byte // shown to other nodes; the caller must not change the bytes any more
	Revoke bool   // ask the holder to give the key back
	Reason string // the reason to give to the holder

	Patience time.Duration // how long the caller waits; zero if unknown or without limit
}

// Exclusive returns the spec of a request for exclusive use of a key.
func Exclusive(key vote.Key, try bool) RequestOptions {
	return RequestOptions{Spec: vote.Spec{Key: key, Mode: vote.Exclusive, Try: try}}
}
