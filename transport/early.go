package transport

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// earlyBytes is how much we read from a peer that has proved nothing yet. A handshake of TLS 1.3 with client certificates,
	// and a hello with the largest electorate, take less than half of it.
	earlyBytes = 64 << 10

	// lingerTime is how long we wait for a refused peer to hang up after it was told why. Closing at once while bytes of its own are
	// still unread would reset the connection, and could take our answer away from it.
	lingerTime = time.Second
)

// errTooMuch : a peer sent more than a handshake needs.
var errTooMuch = errors.New("too many bytes before the end of the handshake")

// earlyConn is a connection whose peer isn't known yet: what may be read from it is bounded until trust is called. It can give
// back bytes that were looked at to find out what is spoken.
type earlyConn struct {
	net.Conn
	seen []byte       // bytes looked at, to be read again
	left atomic.Int64 // bytes that may still be read; negative: as many as come

	mu   sync.Mutex
	held bool
	out  []byte // what was written since
}

func newEarlyConn(c net.Conn) *earlyConn {
	e := &earlyConn{Conn: c}
	e.left.Store(earlyBytes)
	return e
}

// trust lifts the bound. It is called when the handshake has succeeded.
func (e *earlyConn) trust() { e.left.Store(-1) }

// hold keeps back what is written from now on, until it is released: TLS writes into memory then, and never waits.
func (e *earlyConn) hold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = true
}

// release appends to dst what was held back.
func (e *earlyConn) release(dst []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	dst = append(dst, e.out...)
	e.out = e.out[:0]
	return dst
}

// Write implements io.Writer.
func (e *earlyConn) Write(b []byte) (int, error) {
	e.mu.Lock()
	if !e.held {
		e.mu.Unlock()
		return e.Conn.Write(b)
	}
	defer e.mu.Unlock()
	e.out = append(e.out, b...)
	return len(b), nil
}

// look reads n bytes and leaves them to be read again. It is called before any Read.
func (e *earlyConn) look(n int) ([]byte, error) {
	for len(e.seen) < n {
		more := make([]byte, n-len(e.seen))
		k, err := e.Conn.Read(more)
		e.seen = append(e.seen, more[:k]...)
		if err != nil && len(e.seen) < n {
			if err == io.EOF && len(e.seen) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return e.seen, err
		}
	}
	return e.seen[:n], nil
}

// Read implements io.Reader.
func (e *earlyConn) Read(b []byte) (int, error) {
	if len(e.seen) > 0 {
		n := copy(b, e.seen)
		e.seen = e.seen[n:]
		return n, nil
	}
	left := e.left.Load()
	if left < 0 {
		return e.Conn.Read(b)
	}
	if left == 0 {
		return 0, errTooMuch
	}
	n, err := e.Conn.Read(b[:min(int64(len(b)), left)])
	e.left.CompareAndSwap(left, left-int64(n))
	return n, err
}

// hangUp closes a connection after what was written to it has arrived, as far as a bounded wait can tell.
func hangUp(c *net.TCPConn) {
	if c.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c, earlyBytes)
	}
	_ = c.Close()
}
