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
	// coalesceFor is how long a message may wait in the queue for another message to travel with,
	// if no node waits for its effect. Half a millisecond is far above the duration of a short
	// critical section, so the next messages then carry the waiting one along, and far below any
	// delay that a node turned away meanwhile would notice.
	coalesceFor = 500 * time.Microsecond
	// flushBatches is how many batches in a row a sender's goroutine writes before handing over to
	// the writer.
	flushBatches = 4
	// writeTimeout bounds the write of one batch. A peer that reads nothing for 15 seconds has
	// outlasted the default MaxTTL; the core has given up on the peer earlier.
	writeTimeout = 15 * time.Second
	// flushTime is how long a connection closed by this side may continue to write queued messages.
	flushTime = time.Second
)

// link is one connection with a peer after the handshake. A link has two goroutines: the reader,
// which also cleans up when the link ends, and the writer, which writes the data that senders
// couldn't write without blocking.
type link struct {
	port   *Port
	id     vote.Conn
	peer   vote.SessionID
	dialed bool
	key    *key // of the secret by which the link was made; nil for plain text

	socket         *net.TCPConn
	direct         *direct
	secured        *tls.Conn  // over early; nil for plain text
	early          *earlyConn // holds the records that TLS wants to write
	frames         *frameReader
	out            *sendQueue
	version        uint8
	flushTimer     *time.Timer // writes the queue after a deferred flush
	flushScheduled atomic.Bool // flushTimer is running

	// The following fields belong to the goroutine currently writing.
	batch []byte // taken from out
	wire  []byte // the wire form of batch: plain, or encrypted
	left  []byte // the part of wire still unwritten

	// replaced by newer connections of the peer, and ending; guarded by the port's mu
	replaced bool
	idle     time.Duration // for how long the peer may send nothing
	heard    atomic.Int64  // when the last message arrived, as time since the port was opened

	closing    atomic.Bool   // closed by this side, while queued messages may still be written
	awaitsPeer atomic.Bool   // once they are written, the peer closes first; set before closing
	ended      chan struct{} // closed when Closed has been called

	mu      sync.Mutex
	flushBy time.Time // no write may last beyond flushBy once set
	cause   error     // why the link failed; nil until then
}

// newLink turns a session into a link and registers the link; an error means that the port is
// closed. The caller then notifies the handler and runs the link.
func (p *Port) newLink(s *session, dialed bool) (*link, error) {
	l := &link{
		port: p, peer: s.peer.self, dialed: dialed, key: s.key,
		socket: s.socket, early: s.early, frames: s.frames, out: newSendQueue(s.version), version: s.version,
		idle: p.idleLimit(s.peer.terms.MaxTTL), ended: make(chan struct{}),
	}
	if l.secured, _ = s.stream.(*tls.Conn); l.secured != nil {
		s.early.hold()
	}
	l.out.total = &p.queued
	l.hear()
	l.direct = newDirect(s.socket)
	l.flushTimer = time.AfterFunc(coalesceFor, func() {
		l.flushScheduled.Store(false)
		l.flush()
	})
	l.flushTimer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed || p.isFinishing {
		return nil, ErrClosed
	}
	if old := p.oneTooMany(l); old != nil {
		p.running.Go(func() { old.fail(errReplaced) }) // not here, since mu is held
	}
	p.lastConn++
	l.id = p.lastConn
	p.setLink(l.id, l)
	if l.key != nil && !p.identity.accepts(l.key) {
		p.running.Go(func() { l.fail(errDropped) }) // the secrets have changed since the proof
	}
	p.running.Add(1)
	return l, nil
}

// run reads until the link ends, and then cleans up.
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
	close(l.ended)
}

func (p *Port) remove(l *link) {
	p.forget(l.socket)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLink(l.id, nil)
}

// read hands messages to the handler until the link ends.
func (l *link) read() {
	for {
		b := NewBatch()
		err := l.receive(b)
		if l.closing.Load() {
			b.Free()
			if !l.awaitsPeer.Load() {
				return // the writer ends the link when done, and run waits for the writer
			}
			if err != nil {
				l.fail(err)
				return
			}
			continue
		}
		if len(b.Messages) > 0 {
			l.hear()
			l.port.handler.Received(l.id, l.peer, b)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// receive waits for a message and adds to the batch all messages that have arrived by then, up to
// batchMessages. Messages received before an error are in the batch, too.
func (l *link) receive(b *Batch) error {
	for more := true; more && len(b.Messages) < batchMessages; more = l.frames.ready() {
		version, payload, err := l.frames.next(maxFrame)
		if err != nil {
			return err
		}
		if version != l.version {
			return fmt.Errorf("%w: a frame of wire version %d on a link of version %d", errMalformed, version, l.version)
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

// flush writes queued messages as far as possible without blocking; the writer does the rest. Any
// goroutine may call flush.
func (l *link) flush() {
	if !l.out.claim() {
		return // nothing is queued, or the writing goroutine will find it
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

// flushLater schedules a write of the queue after coalesceFor, unless an earlier write comes first.
func (l *link) flushLater() {
	if !l.flushScheduled.Swap(true) {
		l.flushTimer.Reset(coalesceFor)
	}
}

// prepare takes the next batch and produces its wire form. False means that the queue is empty and
// that the caller has ceased to be the writing goroutine.
func (l *link) prepare() bool {
	batch, _ := l.out.take(l.batch[:0])
	if len(batch) == 0 {
		return false // from here on another goroutine may own l's write fields
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

// write is the body of the writer goroutine: it writes the data left by other goroutines until the
// queue has ended.
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
			l.endWriting()
			return
		}
	}
}

// endWriting ends the link, all of whose messages are written. If the link awaits the end by its
// peer, the reader ends the link then.
func (l *link) endWriting() {
	l.mu.Lock()
	by := l.flushBy
	l.mu.Unlock()
	if !l.awaitsPeer.Load() || l.socket.SetReadDeadline(by) != nil || l.socket.CloseWrite() != nil {
		l.fail(ErrClosed)
	}
}

// writeLeft writes the unwritten remainder, blocking as long as necessary. False means that the
// write failed, which has ended the queue.
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
		err = fmt.Errorf("%w: a write took longer than %v", errStalled, l.port.build.writeTimeout)
	}
	l.fail(err)
	l.out.drop()
	return false
}

// arm sets the write deadline to d from now; zero removes the deadline.
func (l *link) arm(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushBy.IsZero() {
		var until time.Time
		if d > 0 {
			until = time.Now().Add(d)
		}
		_ = l.socket.SetWriteDeadline(until)
	} // otherwise the link is being closed, and an earlier deadline is set
}

// close ends the link from this side once the queued messages are written, or flushTime has passed.
// If awaitPeer is set, the link goes on until the peer has read them, and has closed the link, too.
func (l *link) close(awaitPeer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Load() {
		return
	}
	l.awaitsPeer.Store(awaitPeer)
	l.closing.Store(true)
	l.flushBy = time.Now().Add(l.port.build.flushTime)
	_ = l.socket.SetWriteDeadline(l.flushBy)
	l.out.end()
}

// fail ends the link now. Only the first cause counts.
func (l *link) fail(err error) {
	l.mu.Lock()
	first := l.cause == nil
	if first {
		if l.closing.Load() {
			err = ErrClosed // regardless of any error in writing the last messages
		}
		l.cause = err
	}
	l.mu.Unlock()
	if !first {
		return
	}
	l.port.note(l, err) // before the end becomes visible
	l.out.end()
	l.flushTimer.Stop()
	_ = l.socket.Close() // not TLS's Close, which would wait for a peer that doesn't read
}

// note counts and logs the failure of a link. A close by either side is not a failure.
func (p *Port) note(l *link, err error) {
	switch {
	case errors.Is(err, ErrQueueFull):
		p.count.queueFull.Add(1)
	case errors.Is(err, errStalled):
		p.count.stalled.Add(1)
	case errors.Is(err, errMalformed):
		p.count.malformed.Add(1)
	case errors.Is(err, ErrClosed), errors.Is(err, io.EOF):
		return
	default:
		p.logger.Debug("a link broke", "peer", l.peer.Node, "addr", l.socket.RemoteAddr(), "error", err)
		return
	}
	p.log.warn(topicBroken, "broke a link", "peer", l.peer.Node, "addr", l.socket.RemoteAddr(), "error", err)
}
