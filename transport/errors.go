package transport

import (
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

var (
	// ErrClosed : the port or the connection was closed from this side. Nothing is to be retried on it.
	ErrClosed = errors.New("transport closed")
	// ErrSelf : the address leads back to this very process. Leave the address out.
	ErrSelf = errors.New("the address is our own")
	// ErrQueueFull : the peer takes messages more slowly than they are queued for it, and the bound is reached. The connection is
	// broken, since an ordered stream can't leave one out; dial again.
	ErrQueueFull = errors.New("the send queue is full")
	// ErrStalled : the peer has stopped reading, so that nothing could be written to it for writeTimeout. The connection is broken.
	ErrStalled = errors.New("the peer has stopped reading")
	// ErrNotLockmesh : whatever answers at the address speaks something else. Correct the address.
	ErrNotLockmesh = errors.New("the peer doesn't speak the protocol of lockmesh")
)

// RefusedError says that the two sides of a handshake can't work together, and why. Trying again helps only after one of them
// was configured anew.
type RefusedError struct {
	Peer   vote.NodeID // what the peer calls itself; unproved when Reason is ReasonSecret; "" if unknown
	Reason vote.Reason
	Text   string // names the values of both sides
}

func (e *RefusedError) Error() string {
	who := "the peer"
	if e.Peer != "" {
		who = string(e.Peer)
	}
	return fmt.Sprintf("no link with %s: %v: %s", who, e.Reason, e.Text)
}

// WrongNodeError says that another node than the wanted one answered at an address, which is then out of date.
type WrongNodeError struct {
	Want, Got vote.NodeID
}

func (e *WrongNodeError) Error() string {
	return fmt.Sprintf("the address belongs to %s, not to %s", e.Got, e.Want)
}
