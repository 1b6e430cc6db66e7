package transport

import (
	"crypto/tls"
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
	// lingering is how long words may wait for others to travel with that can: those that say what nobody waits for. It is far above the time that a
	// short critical section takes, and the next words then carry them; and far below what a node that is turned away by them would notice.
	lingering = 500 * time.Microsecond
	// flushBatches is how many batches in a row a goroutine writes that has other things to do.
	flushBatches = 4
	// writeTimeout is how long one batch may take to be written. A peer that reads nothing for so long has outlasted the default
	// MaxTTL; the core will have given up on it earlier.
	writeTimeout = 15 * time.Second
	// flushTime is how long a connection that we close may go on writing what was queued before.
	flushTime = time.Second
)

// link is one connection with a peer after the handshake. It has two goroutines: the reader, which also sees to the link's end, and the
// writer, which writes what others couldn't write without waiting.
type link struct {
	port   *Port
	id     vote.Conn
	peer   vote.SessionID
	dialed bool

	socket  *net.TCPConn
	direct  *direct
	secured *tls.Conn  // over early; nil for plain text
	early   *earlyConn // holds what TLS wants written
	frames  *frameReader
	out     *sendQueue
	version uint8
	linger  *time.Timer // writes what may wait for a while
	lingers atomic.Bool // it runs

	// What follows is that of whoever writes.
	batch []byte // taken from out
	wire  []byte // what goes on the wire for it: batch, or that encrypted
	left  []byte // of wire, what couldn't be written yet

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
		socket: s.socket, early: s.early, frames: s.frames, out: newSendQueue(s.version), version: s.version,
	}
	if l.secured, _ = s.stream.(*tls.Conn); l.secured != nil {
		s.early.hold()
	}
	l.direct = newDirect(s.socket)
	l.linger = time.AfterFunc(lingering, func() {
		l.lingers.Store(false)
		l.flush()
	})
	l.linger.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return nil, ErrClosed
	}
	p.lastConn++
	l.id = p.lastConn
	p.setLink(l.id, l)
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
	p.setLink(l.id, nil)
}

// read hands over messages until there are no more.
func (l *link) read() {
	for {
		b := NewBatch()
		err := l.receive(b)
		if l.closing.Load() {
			b.Free()
			return // the writer ends the link when it is done, and the reader with it
		}
		if len(b.Messages) > 0 {
			l.port.handler.Received(l.id, l.peer, b)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// receive waits for a message, and adds it to the batch with all others that have come by then. With an error there may be some, too.
func (l *link) receive(b *Batch) error {
	for more := true; more && len(b.Messages) < batchMessages; more = l.frames.ready() {
		version, payload, err := l.frames.next(maxFrame)
		if err != nil {
			return err
		}
		if version != l.version {
			return fmt.Errorf("%w: a frame of wire version %d on a link of version %d", ErrMalformed, version, l.version)
		}
		if err := Decode(payload, b.Add()); err != nil {
			b.Messages = b.Messages[:len(b.Messages)-1]
			return err
		}
		l.port.count.receivedMessages.Add(1)
		l.port.count.receivedBytes.Add(uint64(frameHeader + len(payload)))
	}
	return nil
}

// flush writes what is queued, as far as that goes without waiting; the writer does the rest. Anyone may call it.
func (l *link) flush() {
	if !l.out.claim() {
		return // nothing waits, or whoever writes will find it
	}
	for range flushBatches {
		if !l.prepare() {
			return
		}
		n, err := l.direct.write(l.wire)
		if err != nil {
			l.fail(err)
			break
		}
		l.port.count.sentBytes.Add(uint64(len(l.batch)))
		if l.left = l.wire[n:]; len(l.left) > 0 {
			break
		}
	}
	l.out.handOver()
}

// flushLater has what is queued written a little later, unless it is written before.
func (l *link) flushLater() {
	if !l.lingers.Swap(true) {
		l.linger.Reset(lingering)
	}
}

// prepare takes the next batch and makes of it what goes on the wire. False means that there is none, and that the caller writes no longer.
func (l *link) prepare() bool {
	batch, _ := l.out.take(l.batch[:0])
	if len(batch) == 0 {
		return false // and whatever is l's may be another's already
	}
	l.batch = batch
	if l.secured == nil {
		l.wire = l.batch
		return true
	}
	if _, err := l.secured.Write(l.batch); err != nil {
		l.fail(err)
	}
	l.wire = l.early.release(l.wire[:0])
	return true
}

// write writes what others have left, until the queue has ended. It is the writer's goroutine.
func (l *link) write() {
	for {
		<-l.out.wake
		if !l.out.takeOver() {
			continue
		}
		for l.writeLeft() && l.prepare() {
			l.left = l.wire
			l.port.count.sentBytes.Add(uint64(len(l.batch)))
		}
		if l.out.over() {
			l.fail(ErrClosed)
			return
		}
	}
}

// writeLeft writes what couldn't be written yet, and waits as long as that takes. False means that it couldn't be, and that the queue has ended for that.
func (l *link) writeLeft() bool {
	if len(l.left) == 0 {
		return true
	}
	l.arm(l.port.build.writeTimeout)
	_, err := l.socket.Write(l.left)
	l.left = nil
	if err == nil {
		l.arm(0)
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: a write took longer than %v", ErrStalled, l.port.build.writeTimeout)
	}
	l.fail(err)
	l.out.drop()
	return false
}

// arm sets how long writes may take from now on; zero for as long as they like.
func (l *link) arm(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushBy.IsZero() {
		var until time.Time
		if d > 0 {
			until = time.Now().Add(d)
		}
		_ = l.socket.SetWriteDeadline(until)
	} // else it is set, and earlier: the link is being closed
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
	l.linger.Stop()
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
