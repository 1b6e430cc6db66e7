package engine

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// LaneMax is how many messages from peers each lane holds before the readers of the links must
	// wait. The loop processes about a million messages a second, so a larger lane would only hide
	// an overload; the waiting readers hold TCP back, and so the sender.
	LaneMax = 8192

	// callsMax is how many calls may wait for the loop before further calls fail with errs.Busy.
	// This is far more than the loop leaves waiting unless the machine is overloaded.
	callsMax = 1 << 16
)

// input is one input of the loop: a call, a lease, a batch or a function.
type input struct {
	call      *call            // a request for the node
	lease     *Lease           // a lease to release
	batch     *transport.Batch // messages from a peer
	conn      vote.Conn
	from      vote.SessionID
	delivered int                // the number of the batch's messages already delivered to the node
	do        func(now vote.Now) // called by the loop; must not block
}

// mailbox holds the inputs of the loop. Any goroutine may put inputs in; only the owner of the loop
// takes them out.
//
// The mailbox has two lanes. Urgent inputs overtake the others; within a lane the order is kept.
//
// The mailbox also records which goroutine owns the loop, and so may run the loop. A goroutine that
// puts an input into the mailbox of an idle loop becomes the owner and processes its own call or
// messages, since waking another goroutine takes longer than the work. While the loop has an owner,
// other goroutines only leave their inputs, and the owner finds them before it gives up ownership.
// So under load a single owner processes the inputs of many.
type mailbox struct {
	mu        sync.Mutex
	space     sync.Cond // the loop has taken inputs, or the mailbox was closed
	unowned   sync.Cond // the owner has given up the loop
	urgent    lane
	ordered   lane
	calls     int // the calls of the application among the ordered inputs
	closed    bool
	ownership ownership

	// capacity 1: wakes the loop's own goroutine to take ownership, or to look at the time
	wake chan struct{}
}

type lane struct {
	inputs   []input
	messages int // messages in the batches
}

// newMailbox returns a mailbox owned by the loop's own goroutine, however late that goroutine
// starts.
func newMailbox() *mailbox {
	b := &mailbox{wake: make(chan struct{}, 1), ownership: ownerLoop}
	b.space.L, b.unowned.L = &b.mu, &b.mu
	return b
}

// putMessages puts in a peer's messages, either all urgent or all not, and blocks while the lane is
// full. After close the messages are dropped. It reports whether the caller has become the owner.
func (b *mailbox) putMessages(urgent bool, in input) (owner bool) {
	lane := b.lane(urgent)
	b.mu.Lock()
	defer b.mu.Unlock()
	for lane.messages >= LaneMax && !b.closed {
		b.space.Wait()
	}
	if !b.closed {
		lane.messages += len(in.batch.Messages)
	}
	return b.put(lane, in)
}

// putRequest puts in a call for a lock. It fails at once with errs.Busy or errs.Closed; otherwise
// it reports whether the caller has become the owner.
func (b *mailbox) putRequest(c *call) (owner bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(); err != nil {
		return false, err
	}
	return b.put(&b.ordered, input{call: c}), nil
}

// putCall puts in any other call of the application, for the loop's own goroutine if the loop is
// idle. It fails like ask.
func (b *mailbox) putCall(do func(vote.Now)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(); err != nil {
		return err
	}
	b.putForLoop(&b.ordered, input{do: do})
	return nil
}

func (b *mailbox) admit() error {
	switch {
	case b.closed:
		return errs.Closed
	case b.calls >= callsMax:
		return errs.Busy
	}
	b.calls++
	return nil
}

// putRelease puts in a lease to release; there are no more such inputs than leases. It reports
// whether the caller has become the owner.
func (b *mailbox) putRelease(l *Lease) (owner bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(&b.ordered, input{lease: l})
}

// post puts in a function that must not be turned away, for the loop's own goroutine if the loop is
// idle: the number of such functions is bounded by the number of connections, leases and calls.
// post never blocks, and returns false after close.
func (b *mailbox) post(urgent bool, do func(vote.Now)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putForLoop(b.lane(urgent), input{do: do})
	return !b.closed
}

func (b *mailbox) lane(urgent bool) *lane {
	if urgent {
		return &b.urgent
	}
	return &b.ordered
}

// put adds an input and makes the caller the owner if the loop is idle.
func (b *mailbox) put(l *lane, in input) (owner bool) {
	if b.closed {
		return false
	}
	l.inputs = append(l.inputs, in)
	if b.ownership != ownerNone {
		return false
	}
	b.ownership.become(ownerRunning, ownerNone)
	return true
}

// putForLoop adds an input and makes the loop's own goroutine the owner if the loop is idle.
func (b *mailbox) putForLoop(l *lane, in input) {
	if b.put(l, in) {
		b.ownership.become(ownerLoop, ownerRunning)
		wakeup.Send(b.wake)
	}
}

// take removes and returns the inputs of a lane, nil if there are none, and leaves the emptied
// slice spare in their place. The caller is the owner.
func (b *mailbox) take(urgent bool, spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lane(urgent)
	if len(l.inputs) == 0 {
		return nil
	}
	in := l.inputs
	l.inputs = spare[:0]
	if l.messages >= LaneMax {
		b.space.Broadcast()
	}
	l.messages = 0
	if !urgent {
		b.calls = 0
	}
	return in
}

// waiting returns the number of inputs: calls, and batches of messages.
func (b *mailbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.urgent.inputs) + len(b.ordered.inputs)
}

// disown gives up ownership unless inputs are waiting. The loop's own goroutine becomes the owner
// if it has asked meanwhile.
func (b *mailbox) disown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.urgent.inputs)+len(b.ordered.inputs) > 0 {
		return false
	}
	if b.ownership == ownerWanted {
		b.ownership.become(ownerLoop, ownerWanted)
		wakeup.Send(b.wake)
	} else {
		b.ownership.become(ownerNone, ownerRunning)
	}
	b.unowned.Signal()
	return true
}

// handOver makes the loop's own goroutine the owner.
func (b *mailbox) handOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ownership.become(ownerLoop, ownerRunning, ownerWanted)
	wakeup.Send(b.wake)
	b.unowned.Signal()
}

// tryOwn reports whether the calling goroutine, the loop's own, is now the owner: ownership was
// handed to it, or the loop was idle. Otherwise this goroutine becomes the owner as soon as the
// present owner passes.
func (b *mailbox) tryOwn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ask()
}

// claim waits for ownership. The loop's own goroutine calls claim at its end.
func (b *mailbox) claim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.ask() { // a goroutine with a new input doesn't get ahead
		b.unowned.Wait()
	}
}

// ask makes the loop's own goroutine the owner, or the next owner.
func (b *mailbox) ask() (owner bool) {
	if b.ownership == ownerRunning || b.ownership == ownerWanted {
		b.ownership.become(ownerWanted, ownerRunning, ownerWanted)
		return false
	}
	b.ownership.become(ownerRunning, ownerLoop, ownerNone)
	return true
}

// close turns away all further inputs and returns the waiting ones.
func (b *mailbox) close() []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	defer func() { b.urgent, b.ordered = lane{}, lane{} }()
	b.space.Broadcast()
	return append(b.urgent.inputs, b.ordered.inputs...)
}
