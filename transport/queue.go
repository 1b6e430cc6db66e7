package transport

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// maxOrdered bounds the bytes of ordered messages that wait on one connection. A statement is queued at once and may be long:
	// this holds one of a million requests with short keys, or of a hundred thousand with the longest.
	maxOrdered = 64 << 20
	// maxUrgent bounds the bytes of the refresh lane. Its messages are small and few, several per TTL; a thousand that wait mean
	// that the peer takes nothing any more.
	maxUrgent = 64 << 10
	// batchBytes is about how much of the ordered lane goes into one write. It is what an urgent message may have to wait for on
	// our side, and large enough for the cost of a write to vanish.
	batchBytes = 64 << 10
)

// sendQueue holds what waits to be written to one connection, encoded, in two lanes. Whoever sends pushes; one at a time writes, and is the only one to
// take. Neither waits for the other longer than it takes to copy a batch.
//
// Who writes is whoever finds nobody at it when there is something to write, so as a rule the goroutine that has just pushed: waking another one
// would take longer than the write. The one that finds the connection full leaves the rest to the connection's own writer, which may wait.
type sendQueue struct {
	version uint8

	mu      sync.Mutex
	urgent  []byte
	ordered [][]byte // chunks of whole frames, each of about a batch; so a cut never falls into a frame
	spare   []byte   // a chunk to use again
	waiting int      // bytes in ordered
	ended   bool     // nothing more is taken in
	writing bool     // somebody writes
	handed  bool     // it is the connection's writer who is to go on; writing is true

	wake chan struct{} // holds a token while there may be something for the writer to do
}

func newSendQueue(version uint8) *sendQueue {
	return &sendQueue{version: version, wake: make(chan struct{}, 1)}
}

// push encodes m into its lane; somebody has to see to it that it is written. The error is ErrQueueFull, or says why m can't be sent; both are the end of
// the stream, because m is lost. After end it does nothing.
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
	q.waiting += len(b) - before
	return err
}

// claim reports whether the caller is to write what waits: something does, and nobody else is at it. It then takes until take has nothing more, or
// hands over.
func (q *sendQueue) claim() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing || len(q.urgent) == 0 && len(q.ordered) == 0 {
		return false
	}
	q.writing = true
	return true
}

// handOver has the connection's writer go on.
func (q *sendQueue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handed = true
	q.ring()
}

// takeOver reports whether the connection's writer, which calls it, is to go on: it was handed what is left, or the queue has ended and nobody else writes.
func (q *sendQueue) takeOver() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.handed && (!q.ended || q.writing) {
		return false
	}
	q.handed, q.writing = false, true
	return true
}

// take appends the next batch to dst: everything urgent, then a chunk of the ordered lane. With an empty batch the caller writes no longer; more is false
// once the queue has ended as well.
func (q *sendQueue) take(dst []byte) (batch []byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst = append(dst, q.urgent...)
	q.urgent = q.urgent[:0]
	if len(q.ordered) > 0 {
		chunk := q.ordered[0]
		dst = append(dst, chunk...)
		q.waiting -= len(chunk)
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
			q.ring() // the connection's writer sees to the end
		}
	}
	return dst, len(dst) > 0 || !q.ended
}

// keepRoom empties the ordered lane. Its array goes if it had grown.
func (q *sendQueue) keepRoom() {
	if cap(q.ordered) > 4 {
		q.ordered = nil
		return
	}
	q.ordered[0] = nil
	q.ordered = q.ordered[:0]
}

// drop forgets what waits, after the connection has broken. The caller writes no longer.
func (q *sendQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.urgent, q.ordered, q.spare, q.waiting = nil, nil, nil, 0
	q.writing = false
}

// over reports whether the queue has ended, with nothing left to be written and nobody writing.
func (q *sendQueue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended && !q.writing && len(q.urgent) == 0 && len(q.ordered) == 0
}

// end stops taking messages in. What waits can still be taken.
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
