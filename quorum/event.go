package quorum

import (
	"errors"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ErrBusy means that the node has as many requests under way as allowed. Try again when some have
// ended.
var ErrBusy = errors.New("too many requests are under way")

// EventKind is the kind of an event.
type EventKind uint8

// The events that a requester reports to its shell, with the fields set in each.
const (
	EventNone EventKind = iota
	// EventGranted means that the request has won. Number, Token (the first of the lease's token
	// block), Group, Slot.
	EventGranted
	// EventFailed means that the request can't be granted, and is gone. Number, Wait.
	EventFailed
	// EventLost means that the validity of the lease is about to end. The lease stays lost, and the
	// request is gone. Number.
	EventLost
	// EventReleased means that the request was released and is gone. Number; Wait.Reason is
	// WaitNone if a majority, or every voter that was sent the request, has confirmed the release,
	// or if the lease was handed off.
	EventReleased
	// EventMoved means that the lease now belongs to another lease group. Number, Group.
	EventMoved
	// EventValidity means that the leases of the group end at Until of the fast clock unless
	// another EventValidity comes. Group, Until.
	EventValidity
	// EventContended means that another request waits for the lease's key. Number. Revoke is set
	// for a revoke request to the holder: Who, Text.
	EventContended
	// EventEvicted means that another node demands the end of the lease. Number, Who, Text.
	EventEvicted
	// EventExtended means that a majority has confirmed extensions requested by Extend, up to the
	// one that Extend said would be confirmed until Until. Number, Until.
	EventExtended
	// EventValueSet means that a majority has the value. Number, Version.
	EventValueSet
	// EventQueryDone means that a query is over. Nonce; Result, or Wait if no majority has answered
	// in time.
	EventQueryDone
	// EventNews has news about the watched keys, as seen by one voter. Nonce, Place, Gap, Views,
	// AsOf.
	EventNews
	// EventRevokeForwarded means that a majority has passed on a revoke request. Nonce, Count of
	// holders; or Wait.
	EventRevokeForwarded
	// EventAlarm is an alarm for the operator. Text.
	EventAlarm
	// EventDrift means that the clocks of a voter and this node differ in rate by more than
	// exclusion may assume. Text. While the drift goes on, the event isn't repeated for a while.
	EventDrift
	// EventElectorate means that this node now uses another electorate, or none; see
	// Requester.Abandon. Electorate; Places maps the previous place of each voter to its present
	// place, negative if none.
	EventElectorate
	// EventRenewed means that a voter has acknowledged a refresh or an extension. Only with
	// Config.ReportRenewals. Who is the voter; Renewal.
	EventRenewed
	// EventNotice is a warning for the operator that is no alarm. Text.
	EventNotice
)

// GroupID names a lease group, the leases supported by the same set of voters. All leases of a
// group end at the same instant, so that extending a million of them costs as much as extending
// one.
type GroupID uint64

// Event is a report of a requester to its shell.
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
	Revoke  bool
	Gap     bool
	Version uint64
	Nonce   uint64
	Count   uint64
	Place   int
	Views   []vote.View
	Result  *QueryResult
	Renewal *Renewal

	Electorate Electorate
	Places     []int

	// AsOf, of EventNews: the voter has reported all its events from before this instant; zero if
	// that isn't known.
	AsOf vote.Instant
}

// WaitReason is the reason why a request isn't granted.
type WaitReason uint8

const (
	// WaitNone means that the request waits for nothing.
	WaitNone WaitReason = iota
	// WaitHeld means that enough voters count, so another request has the key or is queued ahead.
	WaitHeld
	// WaitNoQuorum means that too few voters answer or count, so the state of the key is unknown.
	WaitNoQuorum
	// WaitRefused means that so many voters refuse this node that no majority is left.
	WaitRefused
	// WaitBusy means that so many voters are full that no majority is left.
	WaitBusy
	// WaitUnfit means that so many voters know the key with another number of permits that no
	// majority is left.
	WaitUnfit
	// WaitClash means that an older upgrade of the key waits for the end of the shared lease that
	// this upgrade is to replace.
	WaitClash
)

// Wait is the reason why a request isn't granted, with a description in numbers.
type Wait struct {
	Reason WaitReason
	Text   string
}
