package vote

import "time"

// State is a request's state at a voter, or an event of a request.
type State uint8

// The states and the events.
const (
	// Holding means that the request has won. As an event: the request was granted, and has this
	// voter's vote.
	Holding State = iota + 1
	// Promised means that the request has this voter's vote, and hasn't won yet as far as the voter
	// knows. Not an event.
	Promised
	// Waiting means that the request waits.
	Waiting
	// Delayed means that the lease is over, and the key stays blocked a little longer. Not an
	// event.
	Delayed
	// Released means that the lease was released, or a waiting request was withdrawn. Only an
	// event.
	Released
	// Ended means that a lease, or a vote that may have belonged to a lease, ended without a
	// release. Only an event.
	Ended
	// Changed means that a lease's value or mode has changed. Only an event.
	Changed
	// GrantedElsewhere means that the request was granted by the votes of other voters; this voter
	// has no vote for the request. Only an event.
	GrantedElsewhere

	whatEnd
)

// Versions that aren't the version of a value: a node has ended a lease, and keeps the request up
// only so that the key rests for longer than voters can promise. They are above the version of any
// value, so they replace the value. To a voter they are versions like any other: the reader of a
// view entry takes the lease for over. See View.ReadState and View.ReadEvent.
const (
	// VersionEnded means that the lease ended without having been unlocked.
	VersionEnded uint64 = 1<<64 - 2
	// VersionReleased means that the lease was unlocked.
	VersionReleased uint64 = 1<<64 - 1
)

// A node hands an exclusive lease off among its own callers without a message to the voters, so the
// voters know the token of the first caller only. When a node asks who holds the key, the voters
// ask the owner (see AskHandOffs), and the owner answers with a version that encodes the number of
// hand-offs, and from then on doesn't hand the lease off. Such a version is
//
//	VersionCounted + BlockSize * (the version of the value, zero without one) + hand-offs
//
// and every later version of this lease has the same form. Voters treat such a version as any
// other.
const (
	// VersionCounted is the smallest version with a number of hand-offs.
	VersionCounted uint64 = 1 << 63
	// AskHandOffs is the Token of a KindContended that asks for the number of hand-offs. No block
	// of tokens begins with it.
	AskHandOffs = MaxToken
)

// CountHandOffs returns the version that says how often a lease was handed off, with the given
// version of its value.
func CountHandOffs(value uint64, handOffs Token) uint64 {
	return VersionCounted + BlockSize*value + uint64(handOffs)
}

// ReadVersion returns the version of the value, and how often the lease was handed off, which is
// zero if the owner wasn't asked. The version doesn't say that the lease is over.
func ReadVersion(version uint64) (value uint64, handOffs Token) {
	if version < VersionCounted {
		return version, 0
	}
	version -= VersionCounted
	return version / BlockSize, Token(version % BlockSize)
}

// Valid reports whether this version knows the value.
func (w State) Valid() bool { return w > 0 && w < whatEnd }

// View is a view entry: a voter's view of a request. A single view is hearsay; only the views of a
// majority are reliable.
type View struct {
	State   State
	Key     Key
	Owner   SessionID
	Number  Number
	Mode    Mode
	Permits uint16
	Slot    Slot
	Try     bool
	Beside  Number // of an upgrade: the shared lease to be replaced
	// Token, of a promise, is zero if the voter can't tell the token of the future lease.
	Token Token
	Time  Micros        // of the request's stamp
	For   time.Duration // how long in this state, as far as the voter knows
	// Left is how long the voter keeps its promise without a message from the owner. For a lease
	// that its node ends by itself (Spec.Ends), Left is the time until the end, as far as the voter
	// knows.
	Left    time.Duration
	Version uint64 // of the value
	Value   []byte // must not be changed
	// Unlocked is what ReadState finds: the owner has reported the end of the lease, and the key
	// rests. It isn't encoded.
	Unlocked bool
}

// IsOver reports whether the version says that the request's lease is over.
func (v *View) IsOver() bool { return v.Version >= VersionEnded }

// ReadState makes an entry of the answer to a query say what its version says: the lease is over,
// and the key rests.
func (v *View) ReadState() {
	if v.IsOver() {
		if v.State == Holding {
			v.State, v.Unlocked = Delayed, true
		}
		v.Version, v.Value = 0, nil
	}
}

// ReadEvent makes an event say what its version says: the lease was released, or has ended.
func (v *View) ReadEvent() {
	if !v.IsOver() {
		// The token stays that of the first caller in all events of a lease.
		v.Version, _ = ReadVersion(v.Version)
		return
	}
	switch v.State {
	case Holding, GrantedElsewhere, Changed:
		v.State = Released
		if v.Version == VersionEnded {
			v.State = Ended
		}
	}
	v.Version, v.Value = 0, nil
}
