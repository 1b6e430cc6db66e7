package lockmesh

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// laneMax is how many messages of peers wait for the loop in each lane before their readers do. The loop takes in about a
	// million a second, so more would only hide an overload; the readers hold TCP back, and so the sender.
	laneMax = 8192

	// callsMax is how many calls may wait for the loop before further ones are turned away with ErrBusy. It is far more than the
	// loop leaves lying around unless the machine is out of breath.
	callsMax = 1 << 16
)

// input is one thing for the loop to take in: a message of a peer, or something to do.
type input struct {
	conn vote.Conn
	from vote.SessionID
	msg  *vote.Message      // nil: do
	do   func(now vote.Now) // called by the loop; it must not block
}

// mailbox is where everything waits that the loop is to take in. Anyone may put, only the loop takes.
//
// It has two lanes. What is urgent overtakes the rest; within a lane the order stays.
type mailbox struct {
	mu      sync.Mutex
	space   sync.Cond // the loop has taken something, or the box was closed
	urgent  []input
	ordered []input
	calls   int // of ordered, how many are calls of the application
	closed  bool

	wake chan struct{} // capacity 1: there is something to take
}

func newMailbox() *mailbox {
	b := &mailbox{wake: make(chan struct{}, 1)}
	b.space.L = &b.mu
	return b
}

// message puts a peer's message, and blocks while its lane is full. It is dropped once the box is closed.
func (b *mailbox) message(in input) {
	lane := &b.ordered
	if in.msg.Kind.Urgent() {
		lane = &b.urgent
	}
	b.mu.Lock()
	for len(*lane) >= laneMax && !b.closed {
		b.space.Wait()
	}
	b.put(lane, in)
	b.mu.Unlock()
}

// call puts a call of the application. It fails at once with ErrBusy or ErrClosed.
func (b *mailbox) call(do func(vote.Now)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case b.calls >= callsMax:
		return ErrBusy
	}
	b.calls++
	b.put(&b.ordered, input{do: do})
	return nil
}

// post puts what must not be turned away: its number is bounded by that of connections, leases and calls. It never blocks, and
// reports false once the box is closed.
func (b *mailbox) post(urgent bool, do func(vote.Now)) bool {
	lane := &b.ordered
	if urgent {
		lane = &b.urgent
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(lane, input{do: do})
	return !b.closed
}

func (b *mailbox) put(lane *[]input, in input) {
	if b.closed {
		return
	}
	*lane = append(*lane, in)
	kick(b.wake)
}

// takeUrgent returns what waits in the urgent lane and leaves spare, emptied, in its place.
func (b *mailbox) takeUrgent(spare []input) []input {
	return b.take(&b.urgent, spare)
}

// takeOrdered does the same with the ordered lane.
func (b *mailbox) takeOrdered(spare []input) []input {
	return b.take(&b.ordered, spare)
}

func (b *mailbox) take(lane *[]input, spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(*lane) == 0 {
		return nil
	}
	in := *lane
	*lane = spare[:0]
	if lane == &b.ordered {
		b.calls = 0
	}
	b.space.Broadcast()
	return in
}

// close turns away everything from now on and drops what waits.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.urgent, b.ordered = nil, nil
	b.space.Broadcast()
	kick(b.wake)
}

// kick wakes whoever waits on a channel of capacity 1, or will.
func kick(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
