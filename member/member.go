// Package member tells who is in the mesh, under which life and at which address.
//
// What it says is a hint. It may propose whom to dial, and no lock, vote or deadline rests on it: gossip is late, and in a
// partition each side sees the other one dead.
package member

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// State is what gossip last heard of a member.
type State uint8

const (
	// Alive : the member answers probes, or somebody vouches for it.
	Alive State = iota + 1
	// Failed : the member stopped answering, without a word.
	Failed
	// Left : the member said goodbye.
	Left
)

var stateNames = [...]string{Alive: "alive", Failed: "failed", Left: "left"}

func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return "unknown"
}

// Member is one node of the mesh, as gossip sees it.
type Member struct {
	Name  vote.NodeID
	Life  vote.Life // of the newest process of that name that gossip has accepted; zero when it sent none
	Dir   vote.Dir  // the identity of that process's state directory; zero when it sent none
	Addr  string    // host:port of the one port that gossip and locks share
	State State
}

// EventKind says what has happened to a member.
type EventKind uint8

const (
	// Joined : the member is alive, and wasn't before.
	Joined EventKind = iota + 1
	// Updated : the member is alive as before, with a new life, state directory or address: it restarted faster than gossip noticed.
	Updated
	// MemberFailed : the member stopped answering.
	MemberFailed
	// MemberLeft : the member said goodbye.
	MemberLeft
	// NameConflict : another live process goes by the name of this one. Member is that other process. It is told again every
	// minute while it lasts.
	NameConflict
	// Stopped : gossip has ended without being asked to. Members stay as they were last seen. Member is this node.
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

// Event is a change to one member. Changes that follow each other faster than they are handled are told as one.
type Event struct {
	Member Member
	Kind   EventKind
}

// Group is who is there. Its methods may be called from many goroutines, and again after the end.
type Group interface {
	// Members returns all known members, this node among them, by name. The caller owns the slice.
	Members() []Member
	// Leave says goodbye as far as ctx allows, and then closes. The error says that the goodbye may not have been heard.
	Leave(ctx context.Context) error
	// Close ends at once, without a word: others see a failure. No goroutine is left when it returns.
	Close() error
}
