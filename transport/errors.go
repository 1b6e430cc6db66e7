package transport

import (
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

var (
	// ErrClosed means that the port or the connection was closed from this side. Don't retry on a
	// closed port or connection.
	ErrClosed = errors.New("transport closed")
	// ErrSelf means that the address leads back to this very process. Leave the address out.
	ErrSelf = errors.New("the address is our own")
	// ErrQueueFull means that the peer takes messages more slowly than they are queued, and the
	// bound is reached. The connection is broken, since an ordered stream can't skip a message;
	// dial again.
	ErrQueueFull = errors.New("the send queue is full")
	// errReplaced: the peer process has opened more connections to this node than needed, and this
	// connection was the least recently used.
	errReplaced = errors.New("the peer has opened too many connections")
	// errIdle: the connection received nothing for so long that the peer process can't be using
	// it: a process that uses a connection sends refreshes.
	errIdle = errors.New("the peer has sent nothing for too long")
	// errStalled: the peer has stopped reading, so that a write didn't finish within writeTimeout.
	// The connection is broken.
	errStalled = errors.New("the peer has stopped reading")
	// ErrNoAnswer means that a connection could be opened, which takes small packets only, but no
	// answer came back in time. Most likely the path silently drops longer packets (see
	// maxSegment), or the process there is stopped, or the address belongs to another kind of
	// server.
	ErrNoAnswer = errors.New("connected, but the handshake has no answer: packet size?")
	// errNotLockmesh: the peer at the address uses another protocol. Correct the address.
	errNotLockmesh = errors.New("the peer doesn't speak the protocol of lockmesh")
)

// RefusedError says why the two sides of a handshake can't work together. Retrying helps only after
// one side is reconfigured.
type RefusedError struct {
	// the peer's claimed name; unproved when Reason is ReasonSecret; "" if unknown
	Peer   vote.NodeID
	Reason vote.Reason
	Text   string // names the values of both sides
	// Foreign says that the peer is of another mesh, or doesn't tell a mesh.
	Foreign bool
}

func (e *RefusedError) Error() string {
	who := "the peer"
	if e.Peer != "" {
		who = string(e.Peer)
	}
	return fmt.Sprintf("no link with %s: %v: %s", who, e.Reason, e.Text)
}

// WrongNodeError says that a node other than the wanted one answered at an address. The address is
// then out of date.
type WrongNodeError struct {
	Want, Got vote.NodeID
}

func (e *WrongNodeError) Error() string {
	return fmt.Sprintf("the address belongs to %s, not to %s", e.Got, e.Want)
}
