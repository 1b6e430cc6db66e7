package quorum

import (
	"errors"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ErrBusy says that the node has as many requests under way as it may have. Try again when some have ended.
var ErrBusy = errors.New("too many requests are under way")

// EventKind says what has happened to a request.
type EventKind uint8

// What a requester tells its shell.
const (
	EventNone EventKind = iota
	// EventGranted : the request has won. Number, Token (the first of the lease's run), Group, Slot.
	EventGranted
	// EventFailed : the request can't be granted, and is gone. Number, Wait.
	EventFailed
	// EventLost : the lease's instant is about to pass. It is lost for ever, and the request is gone. Number.
	EventLost
	// EventReleased : the request was released and is gone. Number; Wait.Reason is WaitNone when a majority has confirmed it.
	EventReleased
	// EventMoved : the lease is now covered by another group of voters. Number, Group.
	EventMoved
	// EventCover : the leases of the group end at Until of the fast clock unless another EventCover comes. Group, Until.
	EventCover
	// EventWanted : somebody waits for the lease's key. Number. With Urge the holder is asked to give it back: Who, Text.
	EventWanted
	// EventNoted : a majority has the value. Number, Version.
	EventNoted
	// EventShown : a look is over. Nonce; Shown, or Wait if no majority has answered in time.
	EventShown
	// EventNews : something has happened to what is watched, as one voter saw it. Nonce, Place, Gap, Sights.
	EventNews
	// EventPassed : a revocation was passed on by a majority. Nonce, Count of holders; or Wait.
	EventPassed
	// EventAlarm : an operator should hear of it. Text.
	EventAlarm
	// EventDrift : a voter's clock and this node's differ in rate by more than exclusion may assume. Text. Not told again for a while
	// if it goes on.
	EventDrift
	// EventElectorate : this node goes by another electorate from now on. Electorate; Places says for each place where the voter has stood so far
	// where it stands now, negative if nowhere.
	EventElectorate
)

// GroupID names a set of voters that stands behind leases. All leases of a group end at one instant, so that extending a million
// of them costs as much as extending one.
type GroupID uint64

// Event is one thing that a requester tells its shell.
type Event struct {
	Kind   EventKind
	Number vote.Number
	Token  vote.Token
	Group  GroupID
	Until  vote.Instant
	Wait   Wait
	Text   string

	Slot    vote.Slot
	Who     vote.NodeID
	Urge    bool
	Gap     bool
	Version uint64
	Nonce   uint64
	Count   uint64
	Place   int
	Sights  []vote.Sight
	Shown   *Shown

	Electorate Electorate
	Places     []int
}

// WaitReason says what stands between a request and its grant.
type WaitReason uint8

const (
	// WaitNone : nothing.
	WaitNone WaitReason = iota
	// WaitHeld : enough voters count, so somebody else has the key or is before us.
	WaitHeld
	// WaitNoQuorum : too few voters answer or count, so nobody can know.
	WaitNoQuorum
	// WaitRefused : so many voters refuse this node that no majority is left.
	WaitRefused
	// WaitBusy : so many voters are full that no majority is left.
	WaitBusy
	// WaitUnfit : so many voters know the key with another number of permits that no majority is left.
	WaitUnfit
	// WaitClash : an older upgrade waits for what this one's lease keeps from it.
	WaitClash
)

// Wait tells what stands between a request and its grant, with the numbers.
type Wait struct {
	Reason WaitReason
	Text   string
}
