package lockmesh

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// laneMax is how many messages of peers wait for the loop in each lane before their readers do. The loop takes in about a
	// million a second, so more would only hide an overload; the readers hold TCP back, and so the sender.
	laneMax = 8192

	// callsMax is how many calls may wait for the loop before further ones are turned away with ErrBusy. It is far more than the
	// loop leaves lying around unless the machine is out of breath.
	callsMax = 1 << 16
)

// input is one thing for the loop to take in: one of call, lease, batch and do.
type input struct {
	call  *call            // to be put to the node
	lease *Lease           // to be released
	batch *transport.Batch // that came from a peer
	conn  vote.Conn
	from  vote.SessionID
	do    func(now vote.Now) // called by the loop; it must not block
}

// mailbox is where everything waits that the loop is to take in. Anyone may put, only who has the turn takes.
//
// It has two lanes. What is urgent overtakes the rest; within a lane the order stays.
//
// The turn is the right to run the loop. Whoever puts something in and finds nobody at it gets the turn, and so is the first to take: a goroutine that has
// a call or a peer's words in hand goes on with them itself, since waking another one takes longer than the work. While somebody has the turn others
// only leave what they have, and whoever has it finds that before it passes. So under load one takes for many.
type mailbox struct {
	mu      sync.Mutex
	space   sync.Cond // the loop has taken something, or the box was closed
	free    sync.Cond // the turn was passed
	urgent  lane
	ordered lane
	calls   int // of ordered, how many are calls of the application
	closed  bool
	taken   bool // somebody has the turn
	handed  bool // it is the loop's own goroutine's, which may not know yet; taken is true
	asked   bool // that has asked in vain since: it was woken, perhaps by a timer that whoever has the turn has missed

	wake chan struct{} // capacity 1: the loop's own goroutine is to take the turn, or to look at the time
}

type lane struct {
	inputs   []input
	messages int // in their batches
}

// newMailbox returns a box whose turn is the loop's goroutine's, however late that starts.
func newMailbox() *mailbox {
	b := &mailbox{wake: make(chan struct{}, 1), taken: true, handed: true}
	b.space.L, b.free.L = &b.mu, &b.mu
	return b
}

// messages puts a peer's messages, which are all urgent or all not, and blocks while their lane is full. They are dropped once the box is closed.
// It reports whether the caller has got the turn.
func (b *mailbox) messages(urgent bool, in input) (turn bool) {
	lane := b.lane(urgent)
	b.mu.Lock()
	defer b.mu.Unlock()
	for lane.messages >= laneMax && !b.closed {
		b.space.Wait()
	}
	if !b.closed {
		lane.messages += len(in.batch.Messages)
	}
	return b.put(lane, in)
}

// ask puts a call for a lock. It fails at once with ErrBusy or ErrClosed; otherwise it reports whether the caller has got the turn.
func (b *mailbox) ask(c *call) (turn bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(); err != nil {
		return false, err
	}
	return b.put(&b.ordered, input{call: c}), nil
}

// call puts any other call of the application, for the loop's goroutine. It fails as ask does.
func (b *mailbox) call(do func(vote.Now)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admit(); err != nil {
		return err
	}
	b.leave(&b.ordered, input{do: do})
	return nil
}

func (b *mailbox) admit() error {
	switch {
	case b.closed:
		return ErrClosed
	case b.calls >= callsMax:
		return ErrBusy
	}
	b.calls++
	return nil
}

// release puts a lease that is given back; there are no more of them than leases. It reports whether the caller has got the turn.
func (b *mailbox) release(l *Lease) (turn bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(&b.ordered, input{lease: l})
}

// post puts what must not be turned away, for the loop's goroutine: its number is bounded by that of connections, leases and calls. It never blocks, and
// reports false once the box is closed.
func (b *mailbox) post(urgent bool, do func(vote.Now)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(b.lane(urgent), input{do: do})
	return !b.closed
}

func (b *mailbox) lane(urgent bool) *lane {
	if urgent {
		return &b.urgent
	}
	return &b.ordered
}

// put adds an input, and takes the turn if nobody has it.
func (b *mailbox) put(l *lane, in input) (turn bool) {
	if b.closed {
		return false
	}
	l.inputs = append(l.inputs, in)
	turn = !b.taken
	b.taken = true
	return turn
}

// leave adds an input, and gives the turn to the loop's goroutine if nobody has it.
func (b *mailbox) leave(l *lane, in input) {
	if b.put(l, in) {
		b.handed = true
		kick(b.wake)
	}
}

// take returns what waits in a lane, nil for nothing, and leaves spare, emptied, in its place. The caller has the turn.
func (b *mailbox) take(urgent bool, spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lane(urgent)
	if len(l.inputs) == 0 {
		return nil
	}
	in := l.inputs
	l.inputs = spare[:0]
	if l.messages >= laneMax {
		b.space.Broadcast()
	}
	l.messages = 0
	if !urgent {
		b.calls = 0
	}
	return in
}

// waiting returns how much there is to take: calls, and what peers have said at once.
func (b *mailbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.urgent.inputs) + len(b.ordered.inputs)
}

// pass gives up the turn, unless something waits. The loop's goroutine gets it if it has asked meanwhile.
func (b *mailbox) pass() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.urgent.inputs)+len(b.ordered.inputs) > 0 {
		return false
	}
	b.taken = false
	if b.asked {
		b.taken, b.handed, b.asked = true, true, false
		kick(b.wake)
	}
	b.free.Signal()
	return true
}

// handOver gives the turn to the loop's goroutine.
func (b *mailbox) handOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handed = true
	kick(b.wake)
	b.free.Signal()
}

// turn reports whether the loop's goroutine, which calls it, has got the turn: it was given it, or nobody has it. Otherwise it gets it as soon as it is passed.
func (b *mailbox) turn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken && !b.handed {
		b.asked = true
		return false
	}
	b.taken, b.handed, b.asked = true, false, false
	return true
}

// claim waits for the turn. The loop's goroutine calls it, at its end.
func (b *mailbox) claim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.taken && !b.handed {
		b.asked = true // whoever puts something in meanwhile doesn't get ahead
		b.free.Wait()
	}
	b.taken, b.handed, b.asked = true, false, false
}

// close turns away everything from now on, and returns what has waited.
func (b *mailbox) close() []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	defer func() { b.urgent, b.ordered = lane{}, lane{} }()
	b.space.Broadcast()
	return append(b.urgent.inputs, b.ordered.inputs...)
}

// kick wakes whoever waits on a channel of capacity 1, or will.
func kick(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
