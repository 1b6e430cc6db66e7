package vote

import "time"

// What says what a voter sees of a request, or what has happened to it.
type What uint8

// What is seen, and what happens.
const (
	// Holding : the request has won. In news: it was granted.
	Holding What = iota + 1
	// Promised : the request has this voter's vote, and hasn't won yet as far as the voter knows. Not in news.
	Promised
	// Waiting : the request waits.
	Waiting
	// Resting : the lease is over, and the key is kept from others a little longer. Not in news.
	Resting
	// Freed : the lease was given back, or a request that waited was taken back. In news only.
	Freed
	// Ended : a lease, or what may have been one, ended without being given back. In news only.
	Ended
	// Changed : a lease's value or mode has changed. In news only.
	Changed

	whatEnd
)

// Valid reports whether this version knows it.
func (w What) Valid() bool { return w > 0 && w < whatEnd }

// Sight is what a voter sees of one request. It is hearsay: only a majority's word is more.
type Sight struct {
	What    What
	Key     Key
	Owner   SessionID
	Number  Number
	Mode    Mode
	Permits uint16
	Slot    Slot
	Try     bool
	Beside  Number // of an upgrade: the shared lease that it takes the place of
	Token   Token
	Time    Micros        // of the request's stamp
	For     time.Duration // how long it has been so, as far as the voter knows
	Left    time.Duration // how long the voter keeps to its promise unless it hears from the owner
	Version uint64        // of the value
	Value   []byte        // whoever has it must not change it
}
