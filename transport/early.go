package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// earlyBytes bounds how much is read from a peer that has proved nothing yet. A TLS 1.3
	// handshake with client certificates, and a hello with the largest electorate, take less than
	// half of the bound.
	earlyBytes = 64 << 10

	// maxClientHello is how much of a ClientHello to wait for before the first message counts as
	// received. Go's ClientHello has 1,600 bytes.
	maxClientHello = 4 << 10

	// hangUpTimeout is how long to wait for a refused peer to hang up after the refusal was sent.
	// Closing at once, with bytes of the peer still unread, would reset the connection and could
	// destroy our answer before the peer reads it.
	hangUpTimeout = time.Second
)

// errTooMuch: a peer sent more than a handshake needs.
var errTooMuch = errors.New("too many bytes before the end of the handshake")

// earlyConn is a connection with an unauthenticated peer: the bytes read are bounded until trust is
// called. An earlyConn can return bytes again that were peeked at to identify the protocol.
type earlyConn struct {
	net.Conn
	seen []byte       // bytes peeked at, to be read again
	left atomic.Int64 // bytes that may still be read; negative: unlimited

	proofs chan struct{} // the semaphore from which compute took a token; nil if none is held

	mu   sync.Mutex
	held bool
	out  []byte // written since hold, and not released yet
}

func newEarlyConn(c net.Conn) *earlyConn {
	e := &earlyConn{Conn: c}
	e.left.Store(earlyBytes)
	return e
}

// untouched reports whether no byte has been read.
func (e *earlyConn) untouched() bool { return e.left.Load() == earlyBytes && len(e.seen) == 0 }

// trust lifts the bound, after a successful handshake.
func (e *earlyConn) trust() { e.left.Store(-1) }

// hold retains all further writes until release: TLS then writes into memory, and never blocks.
func (e *earlyConn) hold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = true
}

// release appends the retained bytes to dst.
func (e *earlyConn) release(dst []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	dst = append(dst, e.out...)
	e.out = e.out[:0]
	return dst
}

// compute takes a token of proofs, until the next write.
func (e *earlyConn) compute(ctx context.Context, proofs chan struct{}) error {
	select {
	case proofs <- struct{}{}:
		e.proofs = proofs
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// computed returns the token.
func (e *earlyConn) computed() {
	if e.proofs != nil {
		<-e.proofs
		e.proofs = nil
	}
}

// peekFirstMessage peeks at the message that identifies the connection's protocol: for TLS the
// whole record of the ClientHello, otherwise the magic bytes. With an error, peekFirstMessage
// returns the bytes received so far.
func (e *earlyConn) peekFirstMessage(secured bool) ([]byte, error) {
	word, err := e.look(1)
	switch {
	case err != nil:
		return word, err
	case word[0] != tlsHandshakeRecord:
		return e.look(magicBytes)
	case !secured:
		return word, nil
	}
	if word, err = e.look(tlsRecordHeader); err != nil {
		return word, err
	}
	return e.look(tlsRecordHeader + min(int(binary.BigEndian.Uint16(word[3:])), maxClientHello))
}

// Write implements io.Writer.
func (e *earlyConn) Write(b []byte) (int, error) {
	e.computed()
	e.mu.Lock()
	if !e.held {
		e.mu.Unlock()
		return writeCut(e.Conn, b, segmentsClamped)
	}
	defer e.mu.Unlock()
	e.out = append(e.out, b...)
	return len(b), nil
}

// writeCut writes b; where the system can't clamp segments, in pieces of at most maxSegment. Go
// sends each write at once, so each of the few pieces of a handshake becomes one segment.
func writeCut(to io.Writer, b []byte, clamped bool) (n int, err error) {
	if clamped {
		return to.Write(b)
	}
	for err == nil && n < len(b) {
		var k int
		k, err = to.Write(b[n:min(n+maxSegment, len(b))])
		n += k
	}
	return n, err
}

// look peeks at n bytes, which stay readable. look must not be called after Read.
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

// hangUp closes a connection after the written data has arrived, as far as a bounded wait can tell.
func hangUp(c *net.TCPConn) {
	if c.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(hangUpTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, c, earlyBytes)
	}
	_ = c.Close()
}
