package transport

import (
	"sync"
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// maxOrdered bounds the bytes of ordered messages queued on one connection. A sync is queued at
	// once and may be long: 64 MB hold a sync of a million requests with short keys, or of a
	// hundred thousand with the longest.
	maxOrdered = 64 << 20
	// maxQueued bounds the bytes of ordered messages queued on all connections of a port together:
	// four full connections. Beyond maxQueued the connection with the most queued bytes is broken,
	// regardless of the connection for which a message is being queued. The refresh lanes aren't
	// counted: each has its own small bound, so unread data of one peer never holds up the
	// refreshes of others.
	maxQueued = 4 * maxOrdered
	// maxUrgent bounds the bytes of the refresh lane. Its messages are small and few, several per
	// TTL; a thousand queued messages mean that the peer has ceased to read.
	maxUrgent = 64 << 10
	// batchBytes is the approximate size of the ordered part of one write. An urgent message may
	// have to wait for one batch on this side; the size also makes the cost of a write negligible.
	batchBytes = 64 << 10
)

// sendQueue holds encoded messages to be written to one connection, in two lanes. Any number of
// senders push; at most one goroutine at a time writes, and only the writing goroutine takes.
// Neither side waits for the other longer than the copying of a batch takes.
//
// The goroutine that finds data queued and no other goroutine writing becomes the writing
// goroutine. As a rule that is the goroutine that has just pushed: waking another goroutine would
// take longer than the write. A writing goroutine that finds the connection full leaves the rest to
// the connection's own writer, which may block.
type sendQueue struct {
	version uint8

	mu     sync.Mutex
	urgent []byte
	// chunks of whole frames, each about a batch; so a cut never splits a frame
	ordered [][]byte
	spare   []byte        // a chunk for reuse
	waiting int           // bytes in ordered
	total   *atomic.Int64 // bytes in ordered of all queues of the port
	ended   bool          // no more messages are accepted
	writing bool          // a goroutine is writing
	handed  bool          // the connection's writer is to continue; writing is true

	wake chan struct{} // holds a token while there may be work for the writer
}

func newSendQueue(version uint8) *sendQueue {
	return &sendQueue{version: version, wake: make(chan struct{}, 1), total: new(atomic.Int64)}
}

// push encodes m into its lane; the caller must see to the write. The error is ErrQueueFull, or
// says why m can't be encoded; either error means the end of the stream, because m is lost. After
// end, push does nothing.
func (q *sendQueue) push(m *vote.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return nil
	}
	if m.Kind.Urgent() {
		return q.pushUrgent(m)
	}
	return q.pushOrdered(m)
}

func (q *sendQueue) pushUrgent(m *vote.Message) error {
	b, err := appendMessage(q.urgent, q.version, m)
	if err == nil && len(b) > maxUrgent {
		b, err = b[:len(q.urgent)], ErrQueueFull
	}
	q.urgent = b
	return err
}

func (q *sendQueue) pushOrdered(m *vote.Message) error {
	last := len(q.ordered) - 1
	if last < 0 || len(q.ordered[last]) >= batchBytes {
		q.ordered = append(q.ordered, q.spare[:0])
		q.spare = nil
		last++
	}
	before := len(q.ordered[last])
	b, err := appendMessage(q.ordered[last], q.version, m)
	if err == nil && q.waiting+len(b)-before > maxOrdered {
		b, err = b[:before], ErrQueueFull
	}
	q.ordered[last] = b
	q.wait(len(b) - before)
	return err
}

// claim reports whether the caller becomes the writing goroutine: data is queued, and no other
// goroutine is writing. The caller then takes until take returns an empty batch, or hands over.
func (q *sendQueue) claim() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing || len(q.urgent) == 0 && len(q.ordered) == 0 {
		return false
	}
	q.writing = true
	return true
}

// handOver passes the writing to the connection's writer.
func (q *sendQueue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handed = true
	q.ring()
}

// takeOver reports whether its caller, the connection's writer, is to write: either data was handed
// over, or the queue has ended and no other goroutine is writing.
func (q *sendQueue) takeOver() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.handed && (!q.ended || q.writing) {
		return false
	}
	q.handed, q.writing = false, true
	return true
}

// take appends the next batch to dst: all urgent messages, then a chunk of the ordered lane. With
// an empty batch the caller has ceased to be the writing goroutine; more is false once the queue
// has ended as well.
func (q *sendQueue) take(dst []byte) (batch []byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst = append(dst, q.urgent...)
	q.urgent = q.urgent[:0]
	if len(q.ordered) > 0 {
		chunk := q.ordered[0]
		dst = append(dst, chunk...)
		q.wait(-len(chunk))
		q.spare = chunk
		if len(q.ordered) == 1 {
			q.keepRoom()
		} else {
			q.ordered[0] = nil
			q.ordered = q.ordered[1:]
		}
	}
	if len(dst) == 0 {
		q.writing = false
		if q.ended {
			q.ring() // the connection's writer cleans up
		}
	}
	return dst, len(dst) > 0 || !q.ended
}

// keepRoom empties the ordered lane, and releases the lane's array if it had grown.
func (q *sendQueue) keepRoom() {
	if cap(q.ordered) > 4 {
		q.ordered = nil
		return
	}
	q.ordered[0] = nil
	q.ordered = q.ordered[:0]
}

// drop discards the queued messages after the connection has broken. The caller has then ceased to
// be the writing goroutine.
func (q *sendQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.discard()
	q.writing = false
}

// discard discards the queued messages; q.mu is held.
func (q *sendQueue) discard() {
	q.wait(-q.waiting)
	q.urgent, q.ordered, q.spare = nil, nil, nil
}

// abandon ends the queue and frees its memory at once, even while a goroutine is writing.
func (q *sendQueue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.discard()
	q.ring()
}

// wait adds n, which may be negative, to the count of bytes in the ordered lane; q.mu is held.
func (q *sendQueue) wait(n int) {
	q.waiting += n
	q.total.Add(int64(n))
}

// size returns how many bytes are in the ordered lane.
func (q *sendQueue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// over reports whether the queue has ended, is empty, and has no goroutine writing.
func (q *sendQueue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended && !q.writing && len(q.urgent) == 0 && len(q.ordered) == 0
}

// end makes the queue accept no more messages. The queued messages can still be taken.
func (q *sendQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.ring()
}

// ring leaves a token for the writer, unless there is one.
func (q *sendQueue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
