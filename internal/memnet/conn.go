package memnet

import (
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

// queueMax bounds the bytes queued at one end of a connection, as a port's queue is bounded:
// exceeding the bound breaks the connection.
const queueMax = 64 << 20

// end is one side's half of a connection.
type end struct {
	id    vote.Conn
	port  *port
	other *end
	peer  vote.SessionID
	// the secret that the dialer sent; nil without one
	secret []byte

	wake chan struct{} // capacity 1: there is something to read
	gone chan struct{} // closed when this side has ended the connection, or nothing more can come

	// Guarded by port.net.mu.
	in    []packet // packets under way to this side
	size  int      // the bytes of in
	cause error    // why gone is closed
}

// packet is a message under way; without a frame, the end of the connection.
type packet struct {
	frame []byte
	due   time.Time
}

// newEnd makes one half of a connection; the caller must start its reader. net.mu is held.
func (p *port) newEnd(peer vote.SessionID, secret []byte) *end {
	p.net.lastConn++
	e := &end{id: p.net.lastConn, port: p, peer: peer, secret: secret, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	p.ends[e.id] = e
	p.readers.Add(1) // before Close can wait for the readers
	return e
}

// send sends a message to the other side; net.mu is held.
func (e *end) send(m *vote.Message) {
	e.port.net.messages.Add(1)
	frame, err := transport.Append(nil, m)
	if err != nil {
		panic(fmt.Sprintf("%s says what can't be encoded, which is a fault of lockmesh: %v", e.port.name(), err))
	}
	if e.other.size+len(frame) > e.port.net.queueMax {
		e.fail(transport.ErrQueueFull)
		e.other.put(packet{})
		return
	}
	e.other.put(packet{frame: frame})
}

// close ends this side's half, and notifies the other; net.mu is held.
func (e *end) close() {
	if e.fail(transport.ErrClosed) {
		e.other.put(packet{})
	}
}

// hangUp ends this side's half as if the network had ended the connection; net.mu is held.
func (e *end) hangUp() { e.fail(io.EOF) }

func (e *end) fail(cause error) bool {
	if e.cause != nil {
		return false
	}
	e.cause = cause
	delete(e.port.ends, e.id)
	close(e.gone)
	return true
}

// put adds a packet to the packets under way to this side; net.mu is held.
func (e *end) put(p packet) {
	if e.cause != nil {
		return
	}
	p.due = time.Now().Add(e.port.net.latency)
	e.in = append(e.in, p)
	e.size += len(p.frame)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// read hands incoming messages to the handler, until the connection has ended.
func (e *end) read() {
	defer e.port.readers.Done()
	h, n := e.port.cfg.Handler, e.port.net
	for {
		p, ok := e.next()
		if !ok {
			break
		}
		if p.frame == nil {
			n.mu.Lock()
			e.fail(io.EOF)
			n.mu.Unlock()
			break
		}
		b := transport.NewBatch()
		if err := transport.Decode(p.frame, b.Add()); err != nil {
			panic(fmt.Sprintf("%s has said what can't be decoded, which is a fault of lockmesh: %v", e.peer.Node, err))
		}
		h.Received(e.id, e.peer, b)
	}
	n.mu.Lock()
	cause := e.cause
	n.mu.Unlock()
	h.Closed(e.id, e.peer, cause)
}

// next waits until the next packet has arrived; false means that this side's half has ended.
func (e *end) next() (packet, bool) {
	n := e.port.net
	for {
		n.mu.Lock()
		empty := len(e.in) == 0
		n.mu.Unlock()
		if !empty {
			break
		}
		select {
		case <-e.wake:
		case <-e.gone:
			return packet{}, false
		}
	}
	n.mu.Lock()
	p := e.in[0] // there is no other reader
	n.mu.Unlock()
	if !sleep(e.gone, time.Until(p.due)) {
		return packet{}, false
	}
	open := func() bool { return !e.port.process.paused && !n.areCut(e.other.port, e.port) }
	if !n.await(e.gone, open) {
		return packet{}, false
	}
	defer n.mu.Unlock()
	if e.cause != nil {
		return packet{}, false
	}
	e.in = e.in[1:]
	e.size -= len(p.frame)
	return p, true
}
