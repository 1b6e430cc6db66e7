package lockmesh

import (
	"context"
	"sync"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Re-entry: a Lock or RLock with a context from a lease on the same key re-enters the lease. The
// context is the permission; a plain context never re-enters, whatever its goroutine.

// LeaseOf returns the lease of a key that ctx carries, or nil. The contexts that carry a lease are
// those of the functions of [Mesh.Do], Lead and LeadOnce, those of [Lease.Context] and of
// [Leases.Context], and all that are derived from them. So a function that is called while its
// caller holds a key, as that of Lead, gets the fencing token for its writes:
//
//	token := mesh.LeaseOf(ctx, "scheduler").Token()
//
// The lease may have ended: [Lease.Err] tells. An Unlock by it ends the caller's lease.
func (m *Mesh) LeaseOf(ctx context.Context, key string) *Lease {
	m.checkUsable("Mesh.LeaseOf")
	checkNotNil(ctx, "Mesh.LeaseOf")
	return m.carriedLease(ctx, vote.Key(key))
}

// carriedLease returns the innermost lease of a key carried by ctx; nil if there is none.
func (m *Mesh) carriedLease(ctx context.Context, key vote.Key) *Lease {
	for {
		h, ok := ctx.Value(leaseKey{m.eng}).(leaseCarrier)
		if !ok {
			return nil
		}
		if l := h.leaseOf(key); l != nil {
			return l
		}
		ctx = h.parent()
	}
}

// Value returns the context itself for the key carrier, used only in this package.
func (c *leaseContext) Value(key any) any {
	if w, ok := key.(leaseKey); ok && w.engine == c.lease.core().Engine() {
		return c
	}
	return c.Context.Value(key)
}

func (c *leaseContext) parent() context.Context { return c.Context }

func (c *leaseContext) has(l *Lease) bool { return c.lease.root() == l.root() }

func (c *leaseContext) endCause() error { return c.lease.cause() }

func (c *leaseContext) caller() context.Context { return c.from }

func (c *leaseContext) leaseOf(key vote.Key) *Lease {
	if c.lease.core().Key() != key {
		return nil
	}
	return c.lease
}

// reenter re-enters the lease of a key carried by ctx; nil if there is none.
func (m *Mesh) reenter(ctx context.Context, op string, w *acquireOptions) (*Lease, error) {
	if w.Mode == vote.Permit {
		return nil, nil // each Acquire takes another permit
	}
	outer := m.carriedLease(ctx, w.Key)
	if outer == nil || outer.Mode() == ModePermit || !outer.held() {
		return nil, nil
	}
	clash := &Error{Op: op, Key: string(w.Key), Reason: ErrClash,
		Text: "this context holds the key as a reader, so the call would wait for itself; use Upgrade"}
	if w.Mode == vote.Exclusive && outer.Mode() == ModeShared {
		return nil, clash
	}
	inner := &Lease{nested: &nested{root: outer.root(), outer: outer, reader: w.Mode == vote.Shared, ctx: &engine.BaseContext{}}}
	var until context.Context = outer.context()
	if inner.nested.reader { // a reader outlives the leases around it
		until = context.WithoutCancel(until)
	}
	inner.nested.ctx.Context, inner.nested.ctx.Cancel = context.WithCancelCause(until)
	switch inner.nested.root.reentries().add(inner) {
	case entered:
		return inner, nil
	case enteredTooLate:
		return nil, nil
	case enteredUpgrading:
		clash.Text = "the lease of this context is being upgraded; lock the key once Upgrade has returned"
		return nil, clash
	default:
		return nil, clash
	}
}

// held reports whether the lease is held at this moment.
func (l *Lease) held() bool { return l.Err() == nil }

// root returns the outermost lease, entered again by this lease, or the lease itself. (No search is
// needed: a hundred thousand leases may be nested.)
func (l *Lease) root() *Lease {
	if l.nested != nil {
		return l.nested.root
	}
	return l
}

// Depth returns how often the key is held by this lease and all leases nested with it: 1 for the
// outermost alone, and one more for each re-entry not yet unlocked; 0 when all have ended.
func (l *Lease) Depth() int {
	l.checkUsable("Lease.Depth")
	root := l.root()
	n := 0
	if root.Err() == nil {
		n = 1
	}
	if open := root.openReentries(); open != nil {
		n += open.count()
	}
	return n
}

// reentries holds the leases that have re-entered an outermost lease, and are held.
//
// A nested reader outlives the leases around it, as in the locks of Java, Redisson and Curator: if
// the outermost lease is unlocked while nested readers are open, the readers keep the key, as a
// shared key. The last reader releases the key.
type reentries struct {
	mu        sync.Mutex
	state     reentriesState
	open      map[*Lease]struct{}
	readers   int // the open readers
	upgrading int // the upgrades of the shared key under way

	readersEnd error  // see ReadersEnd
	left       uint64 // the outermost lease's token when it left the key to readers; zero before
}

// reentriesState says who holds the key.
type reentriesState uint8

const (
	heldByOutermost reentriesState = iota // the outermost, and all open leases
	heldByReaders                         // the open readers: the outermost was unlocked
	heldByNone                            // none: the key was released, or lost
)

// reenterResult is the result of an attempt to re-enter.
type reenterResult uint8

const (
	entered          reenterResult = iota
	enteredTooLate                 // the key isn't held any more
	enteredShared                  // the key is held by readers only
	enteredUpgrading               // the key is about to become exclusive
)

// noReentries is what an outermost lease has instead of re-entries if it was unlocked before any.
type noReentries struct{}

func (noReentries) EndAll(error) bool { return false }
func (noReentries) HoldKey() bool     { return false }
func (noReentries) ReadersEnd() error { return nil }

var (
	_ engine.Nested = (*reentries)(nil)

	none engine.Nested = noReentries{}
)

// reentries returns the re-entries of an outermost lease; nil if the lease was unlocked before any.
func (l *Lease) reentries() *reentries {
	if l.own.Nested() == nil {
		var first engine.Nested = &reentries{open: make(map[*Lease]struct{})}
		l.own.SetNested(&first)
	}
	return l.openReentries()
}

// endReentries begins the unlock of an outermost lease. If open readers keep the key, wait waits
// until other readers may come in. If wait is nil, no lease re-enters this lease from now on, the
// first included. Looking for re-entries and shutting out the first is one step: a reader that came
// in between would be granted, and end with the lease.
func (l *Lease) endReentries() (wait func() error) {
	r, _ := l.own.SetNested(&none).(*reentries)
	if r == nil {
		return nil
	}
	return r.leaveToReaders(l)
}

// openReentries returns the re-entries of an outermost lease; nil if there have been none.
func (l *Lease) openReentries() *reentries {
	r, _ := l.own.Nested().(*reentries)
	return r
}

func (r *reentries) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// add adds a lease that re-enters another. There is no r if the outermost lease was unlocked.
func (r *reentries) add(l *Lease) reenterResult {
	if r == nil {
		return enteredTooLate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	// The lease may have ended before r was made.
	case r.state == heldByNone, r.state == heldByOutermost && l.nested.root.own.HasEnded():
		return enteredTooLate
	case !l.nested.reader && l.Mode() != ModeExclusive:
		return enteredShared
	case l.nested.reader && r.upgrading > 0 && l.Mode() == ModeShared:
		return enteredUpgrading
	}
	outer := l.nested.outer
	if _, held := r.open[outer]; !l.nested.reader && outer.nested != nil && !held {
		return enteredTooLate // the lease around this one has ended, and so would this one
	}
	r.open[l] = struct{}{}
	l.nested.token = l.nested.root.own.Token()
	if l.nested.reader {
		r.readers++
	} else {
		l.nested.link(l)
	}
	return entered
}

// tokenOf returns the token of an outermost lease, or of a lease that has re-entered it: for an
// ended lease, the token at the end.
func (r *reentries) tokenOf(l *Lease) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.nested == nil {
		if r.left != 0 {
			return r.left
		}
	} else if _, ok := r.open[l]; !ok {
		return l.nested.token
	}
	return l.root().own.Token()
}

// link adds a lease to the list of the lease around it, if that lease has re-entered, too. (All
// open leases end with the outermost, which needs no list.)
func (n *nested) link(l *Lease) {
	outer := n.outer.nested
	if outer == nil {
		return
	}
	if n.next = outer.inner; n.next != nil {
		n.next.nested.previous = l
	}
	outer.inner = l
}

// unlink removes a lease from the list of the lease around it, if the lease is in the list.
func (n *nested) unlink(l *Lease) {
	switch outer := n.outer.nested; {
	case n.previous != nil:
		n.previous.nested.next = n.next
	case outer != nil && outer.inner == l:
		outer.inner = n.next
	}
	if n.next != nil {
		n.next.nested.previous = n.previous
	}
	n.next, n.previous = nil, nil
}

// remove removes an ended lease. The caller holds the lock.
func (r *reentries) remove(l *Lease) {
	if _, ok := r.open[l]; !ok {
		return
	}
	delete(r.open, l)
	l.nested.unlink(l)
	if l.nested.reader {
		r.readers--
	}
}

// removeWithin removes the leases that have ended with a lease. Each costs one step, however many
// other leases are open. The caller holds the lock.
func (r *reentries) removeWithin(l *Lease) {
	for ended := []*Lease{l}; len(ended) > 0; {
		outer := ended[len(ended)-1].nested
		ended = ended[:len(ended)-1]
		for outer.inner != nil {
			inner := outer.inner
			r.remove(inner)
			ended = append(ended, inner)
		}
	}
}

// end removes an unlocked lease, and all nested writers within it. end reports whether this was the
// last lease holding the key, and whether the key is shared again: the caller tells the voters.
func (r *reentries) end(l *Lease) (last, shared bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(l)
	r.removeWithin(l)
	if r.state != heldByReaders || len(r.open) > 0 {
		return false, r.shareAgain(l.root())
	}
	r.state, r.readersEnd = heldByNone, ErrReleased
	return true, false
}

// shareAgain marks the key as shared if readers hold the key without the outermost lease, and none
// of them has upgraded. It reports whether the key was exclusive until now. The caller holds the
// lock.
func (r *reentries) shareAgain(outermost *Lease) bool {
	needed := r.state != heldByReaders || r.readers < len(r.open)
	if needed || outermost.own.Mode() != vote.Exclusive {
		return false
	}
	outermost.own.MarkShared()
	return true
}

// leaveToReaders ends the outermost lease without releasing the key if open readers keep the key,
// as a shared key; wait is that of [engine.Lease.ShareEnded] then, and otherwise nil. Without
// readers, no lease re-enters the outermost lease from now on, since its key is about to be
// released.
func (r *reentries) leaveToReaders(outermost *Lease) (wait func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == heldByOutermost && r.readers == 0 {
		r.state = heldByNone
	}
	if r.state != heldByOutermost || !outermost.own.EndShared() {
		return nil
	}
	r.state, r.left = heldByReaders, outermost.own.Token()
	for l := range r.open {
		if !l.nested.reader {
			l.nested.ctx.Cancel(ErrReleased)
			r.remove(l)
		}
	}
	return outermost.own.ShareEnded() // under the lock: an upgrade of a reader comes later
}

// EndAll ends all open leases, since the key is lost or released. It reports whether readers still
// held the key.
func (r *reentries) EndAll(cause error) (held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held = r.state == heldByReaders; held {
		r.readersEnd = cause
	}
	r.state = heldByNone
	for l := range r.open {
		l.nested.ctx.Cancel(cause)
		r.remove(l)
	}
	return held
}

// upgradeStart is the result of an attempt to begin an upgrade.
type upgradeStart uint8

const (
	upgradeBegun upgradeStart = iota // the caller asks the voters
	upgradeDone                      // the key is exclusive already
	upgradeEnded                     // the lease has ended
	upgradeClash                     // another lease would hold the exclusive key, too
)

// beginUpgrade begins the upgrade of an outermost lease, or of a lease that has re-entered it. A
// reader ends like a writer from now on, together with the outermost lease, because the reader
// wants to write. (Once the outermost lease has left, no other lease ends before the reader.) After
// upgradeBegun the caller calls finish with the result of the upgrade: if the upgrade has failed,
// the reader is a reader again; other upgrades of the same reader may be under way.
func (r *reentries) beginUpgrade(l *Lease) (start upgradeStart, finish func(err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.open[l]; l.nested != nil && !ok {
		return upgradeEnded, nil
	}
	exclusive := l.Mode() == ModeExclusive
	if !exclusive && r.isBeside(l) {
		return upgradeClash, nil
	}
	reader := l.nested != nil && (l.nested.reader || l.nested.upgrades > 0)
	if reader {
		if l.nested.reader {
			l.nested.reader = false
			r.readers--
		}
		l.nested.upgrades++
	}
	if exclusive {
		if reader {
			l.nested.upgraded++
		}
		return upgradeDone, nil
	}
	r.upgrading++
	return upgradeBegun, func(err error) {
		if r.finishUpgrade(l, reader, err) {
			_ = l.root().own.ShareAgain() // the node has closed, or else the voters know
		}
	}
}

// finishUpgrade ends an upgrade with its result. It reports whether the key is shared again because
// the reader has ended meanwhile; then the caller tells the voters.
func (r *reentries) finishUpgrade(l *Lease, reader bool, err error) (shared bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upgrading--
	if err == nil {
		for open := range r.open {
			open.nested.token = l.root().own.Token()
		}
	}
	if reader {
		l.nested.upgraded++
		if err != nil {
			r.undoUpgrades(l, 1)
		}
	}
	return r.shareAgain(l.root())
}

// isBeside reports whether a lease that has re-entered the same outermost lease is held beside a
// lease: an open lease other than the lease itself, and not around it. The caller holds the lock.
func (r *reentries) isBeside(l *Lease) bool {
	beside := len(r.open)
	for ; beside > 0 && l.nested != nil; l = l.nested.outer {
		if _, ok := r.open[l]; ok {
			beside--
		}
	}
	return beside > 0
}

// makeReader makes a reader that has upgraded a reader again, since the key is shared now.
func (r *reentries) makeReader(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undoUpgrades(l, l.nested.upgraded)
}

// undoUpgrades undoes n finished upgrades of a reader. The caller holds the lock.
func (r *reentries) undoUpgrades(l *Lease, n int) {
	l.nested.upgraded -= n
	l.nested.upgrades -= n
	if _, ok := r.open[l]; ok && n > 0 && l.nested.upgrades == 0 {
		l.nested.reader = true
		r.readers++
	}
}

// HoldKey reports whether readers hold the key after the outermost lease has left.
func (r *reentries) HoldKey() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == heldByReaders
}

// ReadersEnd returns why the readers to which the outermost lease had left the key hold the key no
// more; nil if there were no such readers, or while they hold the key.
func (r *reentries) ReadersEnd() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readersEnd
}

// leaveToReaders leaves the key of an ended outermost lease to nested readers. It returns once
// other readers may come in, which wait waits for.
func (l *Lease) leaveToReaders(wait func() error) error {
	_ = l.own.Cause() // ends the context
	return l.unlockShared(wait())
}

// unlockShared returns the result of Unlock for a lease that leaves the key to readers; err is the
// result of the share.
func (l *Lease) unlockShared(err error) error {
	if err != nil {
		return &Error{Op: "unlock", Key: l.Key(), Reason: ErrClosed, Err: ErrLost}
	}
	return nil
}
