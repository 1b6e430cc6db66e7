package adaptertest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Pipes is a listener in memory for tests of servers, since a bubble of simulated time has no
// sockets. A connection has no buffer: a write waits for its reader.
type Pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept waits for the next connection.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial; connections stay.
func (p *Pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

// Addr returns an address that names no place.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Offer hands the server its end of a connection, once it accepts.
func (p *Pipes) Offer(conn net.Conn) { p.conns <- conn }

// Dial connects to the server, once it accepts.
func (p *Pipes) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, errors.New("the server has stopped")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
