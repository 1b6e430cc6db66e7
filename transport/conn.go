package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// writeTimeout is how long one batch may take to be written. A peer that reads nothing for so long has outlasted the default
	// MaxTTL; the core will have given up on it earlier.
	writeTimeout = 15 * time.Second
	// flushTime is how long a connection that we close may go on writing what was queued before.
	flushTime = time.Second
)

// link is one connection with a peer after the handshake. It has two goroutines: the reader, which also sees to the link's end, and the
// writer.
type link struct {
	port   *Port
	id     vote.Conn
	peer   vote.SessionID
	dialed bool

	socket  *net.TCPConn
	stream  net.Conn // socket, or TLS over it
	frames  *frameReader
	out     *sendQueue
	version uint8

	closing atomic.Bool // by our side, with what is queued still to be written

	mu      sync.Mutex
	flushBy time.Time // no write may last beyond it, once it is set
	cause   error     // why the link has failed, nil while it hasn't
}

// newLink takes a session over and makes it known; an error means that the port is closed. The caller then tells the handler and
// runs the link.
func (p *Port) newLink(s *session, dialed bool) (*link, error) {
	l := &link{
		port: p, peer: s.peer.self, dialed: dialed,
		socket: s.socket, stream: s.stream, frames: s.frames, out: newSendQueue(s.version), version: s.version,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return nil, ErrClosed
	}
	p.lastConn++
	l.id = p.lastConn
	p.links[l.id] = l
	p.running.Add(1)
	return l, nil
}

// run reads until the link ends, and then ends the rest of it.
func (l *link) run() {
	defer l.port.running.Done()
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write()
	}()
	l.read()
	<-written
	l.port.remove(l)
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	l.port.handler.Closed(l.id, l.peer, cause)
}

func (p *Port) remove(l *link) {
	p.forget(l.socket)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l.id)
}

// read hands over messages until there are no more.
func (l *link) read() {
	for {
		m, err := l.receive()
		if l.closing.Load() {
			return // the writer ends the link when it is done, and the reader with it
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.port.handler.Received(l.id, l.peer, m)
	}
}

func (l *link) receive() (*vote.Message, error) {
	version, payload, err := l.frames.next(maxFrame)
	if err != nil {
		return nil, err
	}
	if version != l.version {
		return nil, fmt.Errorf("%w: a frame of wire version %d on a link of version %d", ErrMalformed, version, l.version)
	}
	m := new(vote.Message)
	if err := Decode(payload, m); err != nil {
		return nil, err
	}
	l.port.count.receivedMessages.Add(1)
	l.port.count.receivedBytes.Add(uint64(frameHeader + len(payload)))
	return m, nil
}

// write writes what is queued, one batch with each call of the system, until the queue has ended.
func (l *link) write() {
	var buf []byte
	for {
		batch, more := l.out.take(buf[:0])
		buf = batch
		if !more {
			l.fail(ErrClosed)
			return
		}
		if len(batch) == 0 {
			<-l.out.wake
			continue
		}
		l.arm()
		if _, err := l.stream.Write(batch); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = fmt.Errorf("%w: a write took longer than %v", ErrStalled, l.port.build.writeTimeout)
			}
			l.fail(err)
			return
		}
		l.port.count.sentBytes.Add(uint64(len(batch)))
	}
}

// arm sets the deadline of the next write.
func (l *link) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := time.Now().Add(l.port.build.writeTimeout)
	if !l.flushBy.IsZero() && l.flushBy.Before(until) {
		until = l.flushBy
	}
	_ = l.socket.SetWriteDeadline(until)
}

// close ends the link from our side once what is queued is written, or flushTime has passed.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Swap(true) {
		return
	}
	l.flushBy = time.Now().Add(l.port.build.flushTime)
	_ = l.socket.SetWriteDeadline(l.flushBy)
	l.out.end()
}

// fail ends the link now. The first cause is the one that counts.
func (l *link) fail(err error) {
	l.mu.Lock()
	first := l.cause == nil
	if first {
		if l.closing.Load() {
			err = ErrClosed // whatever befell the last words
		}
		l.cause = err
	}
	l.mu.Unlock()
	if !first {
		return
	}
	l.port.note(l, err) // before the end can be seen
	l.out.end()
	_ = l.socket.Close() // not TLS's Close, which would wait for a peer that doesn't read
}

// note counts and logs a failure that was the peer's doing.
func (p *Port) note(l *link, err error) {
	switch {
	case errors.Is(err, ErrQueueFull):
		p.count.queueFull.Add(1)
	case errors.Is(err, ErrStalled):
		p.count.stalled.Add(1)
	case errors.Is(err, ErrMalformed):
		p.count.malformed.Add(1)
	case errors.Is(err, ErrClosed), errors.Is(err, io.EOF):
		return
	default:
		p.logger.Debug("a link broke", "peer", l.peer.Node, "addr", l.socket.RemoteAddr(), "error", err)
		return
	}
	p.log.warn(topicBroken, "broke a link", "peer", l.peer.Node, "addr", l.socket.RemoteAddr(), "error", err)
}
