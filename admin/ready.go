package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/lockmesh/lockmesh"
)

// MaxReadyWait is the longest wait of a request for GET /v1/ready or /v1/settled. A longer wait is
// several requests: each answer tells the client why the condition doesn't hold yet, and a server
// whose client over TCP has vanished, or whose proxy has given up, is soon rid of the request.
const MaxReadyWait = time.Minute

// ready waits until this node's locks can be granted: by the mesh, and not while the node drains.
func (x *exchange) ready() error {
	return x.await(func(ctx context.Context) error {
		if err := x.h.mesh.Ready(ctx); err != nil {
			return err
		}
		if x.h.mesh.Draining() {
			return failure(lockmesh.ErrClosed, "the node is draining, and takes no more locks")
		}
		return nil
	})
}

func (x *exchange) settled() error { return x.await(x.h.mesh.Settled) }

// await answers when a condition of the node holds, or at the end of the request's wait.
func (x *exchange) await(condition func(context.Context) error) error {
	wait, err := x.duration("wait", 0, MaxReadyWait)
	if err != nil {
		return err
	}
	give, err := x.h.streams.take(x.known)
	if err != nil {
		return err
	}
	defer give()
	ctx, cancel := context.WithTimeout(x.ctx, wait) // a true condition wins over an ended context
	defer cancel()
	switch err := condition(ctx); {
	case isStopping(x.ctx):
		return ErrStopping
	case err != nil:
		return err
	}
	s := x.h.mesh.Stats()
	if s.Closed {
		return failure(lockmesh.ErrClosed, "the node has ended, and knows no electorate")
	}
	return x.answer(http.StatusOK, electorateOf(&s.Electorate))
}
