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

// sendQueue holds what waits to be written to one connection, encoded, in two lanes. Whoever sends pushes, the connection's
// writer takes; neither waits for the other longer than it takes to copy a batch.
type sendQueue struct {
	version uint8

	mu      sync.Mutex
	urgent  []byte
	ordered [][]byte // chunks of whole frames, each of about a batch; so a cut never falls into a frame
	spare   []byte   // a chunk to use again
	waiting int      // bytes in ordered
	ended   bool     // nothing more is taken in

	wake chan struct{} // holds a token while there may be something for the writer to see
}

func newSendQueue(version uint8) *sendQueue {
	return &sendQueue{version: version, wake: make(chan struct{}, 1)}
}

// push encodes m into its lane. The error is ErrQueueFull, or says why m can't be sent; both are the end of the stream,
// because m is lost. After end it does nothing.
func (q *sendQueue) push(m *vote.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return nil
	}
	var err error
	if m.Kind.Urgent() {
		err = q.pushUrgent(m)
	} else {
		err = q.pushOrdered(m)
	}
	if err == nil {
		q.ring()
	}
	return err
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

// take appends the next batch to dst: everything urgent, then a chunk of the ordered lane. more is false once the queue has
// ended and is empty. An empty batch with more means that the writer is to wait for wake.
func (q *sendQueue) take(dst []byte) (batch []byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst = append(dst, q.urgent...)
	q.urgent = q.urgent[:0]
	if len(q.ordered) > 0 {
		chunk := q.ordered[0]
		dst = append(dst, chunk...)
		q.waiting -= len(chunk)
		q.ordered[0] = nil
		q.ordered = q.ordered[1:]
		q.spare = chunk
		if len(q.ordered) == 0 {
			q.ordered = nil // the array goes, however long it had grown
		}
	}
	return dst, len(dst) > 0 || !q.ended
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
