package member

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Member is one node of the mesh, according to gossip.
type Member struct {
	Name vote.NodeID
	// Incarnation is the incarnation of the newest process of that name that gossip has accepted;
	// zero when the process sent none.
	Incarnation vote.Incarnation
	// the identity of that process's state directory; zero when the process sent none
	Dir   vote.Dir
	Addr  string // host:port of the single port for gossip and locks
	State vote.Presence
}

// EventKind is the kind of a change to a member.
type EventKind uint8

const (
	// Joined means that the member is alive, and wasn't before.
	Joined EventKind = iota + 1
	// Updated means that the member is alive as before, with a new incarnation, state directory or
	// address: it restarted faster than gossip noticed.
	Updated
	// MemberFailed means that the member stopped answering.
	MemberFailed
	// MemberLeft means that the member announced its departure.
	MemberLeft
	// NameConflict means that another live process has this node's name. Member is the other
	// process. The event is repeated every minute while the conflict lasts.
	NameConflict
	// Stopped means that gossip has ended without a call of Leave or Close. Members keep their last
	// known state. Member is this node.
	Stopped
)

var eventNames = [...]string{
	Joined: "joined", Updated: "updated", MemberFailed: "failed", MemberLeft: "left", NameConflict: "name conflict", Stopped: "stopped",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return "unknown"
}

// Event is a change to one member. Changes faster than their handling are combined into one event.
type Event struct {
	Member Member
	Kind   EventKind
}

// The errors of Group.Ping.
var (
	// ErrUnknown means that no other live member has the name.
	ErrUnknown = errors.New("no other live member has the name")
	// ErrNoAnswer means that the member answers no packet.
	ErrNoAnswer = errors.New("the member answers no packet")
)

// Group is a view of the mesh's members. Its methods may be called from many goroutines, and again
// after the end.
type Group interface {
	// Members returns all known members, including this node, sorted by name. The caller owns the
	// slice.
	Members() []Member
	// Keys returns which live members use which of gossip's keys.
	Keys() []KeyUse
	// SetKeys changes gossip's keys: all of them decrypt, and the first encrypts. A group without
	// keys can't get any. SetKeys may wait for a few seconds until the other members know.
	SetKeys(keys [][]byte) error
	// SetDir tells the other members that this node votes with another identity: Member.Dir
	// changes. SetDir may wait for a few seconds until the other members know.
	SetDir(dir vote.Dir)
	// Ping sends a packet to another live member, up to three times, and returns the time until the
	// answer: packets pass in both directions. Each packet is waited for as a probe is. Errors:
	// ErrUnknown, ErrNoAnswer, or ctx's.
	Ping(ctx context.Context, name vote.NodeID) (time.Duration, error)
	// Leave announces the departure as far as ctx allows, and then closes the group. An error means
	// that the other members may not have received the announcement.
	Leave(ctx context.Context) error
	// Close ends the group at once, without an announcement: other members see a failure. All
	// goroutines have ended when Close returns.
	Close() error
}
