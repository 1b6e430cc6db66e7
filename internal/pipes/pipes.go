// Package pipes has a listener of connections in memory, within one process. The command serves its
// own node over it, and tests serve over it in simulated time, in which no socket works.
package pipes

import (
	"context"
	"net"
	"sync"
)

// Listener accepts connections in memory. A connection has no buffer: a write waits for its reader.
type Listener struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

// New returns a listener without connections.
func New() *Listener { return &Listener{conns: make(chan net.Conn), ended: make(chan struct{})} }

// Accept waits for the next connection; it fails with [net.ErrClosed] after Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept, Dial and Offer; connections stay.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr returns an address that names no place.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial connects to the server, once it accepts. It fails with [net.ErrClosed] after Close, and with
// the cause of the context's end.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	if err := l.Offer(ctx, there); err != nil {
		return nil, err
	}
	return here, nil
}

// Offer hands the server its end of a connection, once it accepts; it fails as Dial does.
func (l *Listener) Offer(ctx context.Context, conn net.Conn) error {
	select {
	case l.conns <- conn:
		return nil
	case <-l.ended:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
