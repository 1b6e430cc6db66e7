package lockmesh

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockmesh/lockmesh/internal/errs"
)

// CountDownLatch opens when a number of counts have been made, as in Curator and Redisson. A
// CountDownLatch is made by [Mesh.CountDownLatch], needs no closing, and may be used from any
// goroutine.
//
// Voters store nothing permanently, so the counting nodes keep the counts alive: a count lasts
// until TakeBack or the end of its process's mesh, and a TTL longer after a crash. The key's latch
// is open when n counts exist at the same time. From the moment that a node with a count has seen
// it open, it stays open for all nodes as long as the count of one such node lasts. A value of this
// type that has seen the latch open stays open for good. If a node crashes before the latch is
// open, its count is gone: the latch stays closed until another count replaces the lost count. So a
// process that counts and then wants to exit should first wait with Await; a process that arrives
// only after all counts have ended finds the latch closed.
type CountDownLatch struct {
	mesh *Mesh
	key  string
	n    int

	once sync.Once
	open chan struct{} // closed when this CountDownLatch has seen the latch open
}

func (l *CountDownLatch) checkUsable(method string) {
	checkUsable(l != nil && l.mesh != nil, method, "Mesh.CountDownLatch")
}

// CountDownLatch returns the latch named key, for n counts, 1 to 1,024. All users of the key must
// agree on n (ErrPermits). Nothing is sent before the first call.
func (m *Mesh) CountDownLatch(key string, n int) *CountDownLatch {
	m.checkUsable("Mesh.CountDownLatch")
	return &CountDownLatch{mesh: m, key: key, n: n, open: make(chan struct{})}
}

// openValue is the value of a count after its owner has seen the latch open.
var openValue = []byte("open")

// isOpen reports whether a view shows the latch open.
func (l *CountDownLatch) isOpen(v *view) bool {
	permits := v.permits()
	for i := range permits {
		if string(permits[i].Value) == string(openValue) {
			return true
		}
	}
	return len(permits) >= l.n
}

func (l *CountDownLatch) sawOpen() { l.once.Do(func() { close(l.open) }) }

// Opened returns a channel that is closed once this CountDownLatch has seen the latch open: by
// Await, Count or CountDown, or while one of its own counts exists.
func (l *CountDownLatch) Opened() <-chan struct{} {
	l.checkUsable("CountDownLatch.Opened")
	return l.open
}

// Count is one count of a latch. A count lasts until TakeBack, or until it is lost with its node.
type Count struct {
	lease *Lease
}

func (c *Count) checkUsable(method string) {
	checkUsable(c != nil && c.lease != nil, method, "CountDownLatch.CountDown")
}

// Done returns a channel that is closed when the count has ended.
func (c *Count) Done() <-chan struct{} {
	c.checkUsable("Count.Done")
	return c.lease.Done()
}

// Err returns nil while the count exists, and afterwards ErrLost or ErrReleased; see [Lease.Err].
func (c *Count) Err() error {
	c.checkUsable("Count.Err")
	return c.lease.Err()
}

// TakeBack ends the count. If the latch isn't open yet, another count must replace this count for
// the latch to open. After the latch has opened, taking back all counts closes the latch again for
// users that haven't seen it open. Errors are as with [Lease.Unlock].
func (c *Count) TakeBack(ctx context.Context) error {
	c.checkUsable("Count.TakeBack")
	checkNotNil(ctx, "Count.TakeBack")
	return withOp(c.lease.Unlock(ctx), "takeback")
}

// CountDown adds a count. ErrHeld means that all n counts exist already, so the latch is open
// without this count. Until the count's owner has seen the latch open, the count has one of the
// node's [MaxWatches] watches; ErrBusy may mean that all are open. Other errors are as with
// [Semaphore.Acquire].
func (l *CountDownLatch) CountDown(ctx context.Context) (*Count, error) {
	l.checkUsable("CountDownLatch.CountDown")
	ctx = guardContext(ctx, "CountDownLatch.CountDown")
	if err := l.valid("countdown"); err != nil {
		return nil, err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	// The count keeps the view: at the limit of watches a second view could not be opened.
	v, err := l.mesh.view(context.WithoutCancel(ctx), "countdown", l.key)
	if err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			v.stop()
		}
	}()
	mine := l.mesh.uniqueValue()
	events := v.watch.Events()
	type permit struct {
		lease *Lease
		err   error
	}
	got := make(chan permit, 1)
	go func() { // ends with this call
		lease, err := l.mesh.Semaphore(l.key, l.n).acquire(inner, "countdown", false, []Option{WithValue(mine)})
		got <- permit{lease, err}
	}()
	var unfit error // set if other users of the key have another n
	for {
		select {
		case r := <-got:
			if r.err != nil {
				if unfit != nil {
					return nil, unfit
				}
				if ctx.Err() == nil && inner.Err() != nil { // stopped here, since the latch is open
					r.err = &Error{Op: "countdown", Key: l.key, Reason: ErrHeld, Text: fmt.Sprintf("all %d counts are made", l.n)}
				}
				return nil, r.err
			}
			if err := l.mesh.eng.Spawn(func() { l.keepOpen(v, r.lease) }); err != nil {
				_, _ = r.lease.beginUnlock()
				return nil, &Error{Op: "countdown", Key: l.key, Reason: err}
			}
			kept = true
			return &Count{r.lease}, nil
		case e, ok := <-events:
			if !ok {
				// The mesh has ended; the other goroutine reports this.
				events = nil
				continue
			}
			if v.apply(e); v.synced && l.isFull(v, mine) {
				if unfit = l.checkAgreed(inner, "countdown"); unfit == nil {
					l.sawOpen()
				}
				stop()
				events = nil // the outcome is known; the other goroutine is about to end
			}
		}
	}
}

// checkAgreed returns ErrPermits if other users of the key have another number: l.n counts then
// aren't all the counts needed by them. A view doesn't show the number, so checkAgreed asks the
// voters; its other errors are those of Inspect.
func (l *CountDownLatch) checkAgreed(ctx context.Context, op string) error {
	info, err := l.mesh.Inspect(ctx, l.key)
	switch {
	case err != nil:
		return withOp(err, op)
	case info.Permits == 0: // the key isn't in use any more
		return nil
	}
	return l.checkNumber(op, info.Permits)
}

// checkNumber returns ErrPermits unless other users of the key have the same number.
func (l *CountDownLatch) checkNumber(op string, others int) error {
	if others == l.n {
		return nil
	}
	return &Error{Op: op, Key: l.key, Reason: ErrPermits, Text: fmt.Sprintf("%d counts are asked for here, while others use %d", l.n, others)}
}

// isFull reports whether a view shows that others have made all counts.
func (l *CountDownLatch) isFull(v *view, mine []byte) bool {
	permits := v.permits()
	for i := range permits {
		if len(permits[i].Value) == 0 || string(permits[i].Value) == string(mine) {
			return false // this call's count is among the permits, or may be
		}
	}
	return len(permits) >= l.n
}

func (l *CountDownLatch) hasSeenOpen() bool {
	select {
	case <-l.open:
		return true
	default:
		return false
	}
}

// keepOpen marks a count once the latch is open, so that the latch stays open when the other counts
// end. It returns when the count ends, or is marked, and stops the view.
func (l *CountDownLatch) keepOpen(v *view, lease *Lease) {
	defer v.stop()
	if v.waitUntil(lease.context(), lease, func() bool { return l.isOpen(v) }) == nil {
		l.sawOpen()
		_ = lease.SetValue(lease.context(), openValue)
	}
}

// Await waits until the latch is open, or ctx ends. Await doesn't poll: voters report each count.
//
// Errors: ctx's, with the number of counts made so far, or with ErrNoQuorum if too few voters
// answer and the number isn't known; ErrClosed; ErrKey; ErrPermits if n is out of range, or if n
// counts exist but other users of the key have another number; ErrBusy.
func (l *CountDownLatch) Await(ctx context.Context) error {
	l.checkUsable("CountDownLatch.Await")
	ctx = guardContext(ctx, "CountDownLatch.Await")
	if l.hasSeenOpen() {
		return nil
	}
	if err := l.valid("await"); err != nil {
		return err
	}
	v, err := l.mesh.view(ctx, "await", l.key)
	if err != nil {
		return err
	}
	defer v.stop()
	if err := v.waitUntil(ctx, nil, func() bool { return l.isOpen(v) }); err != nil {
		if ctx.Err() == nil {
			return &Error{Op: "await", Key: l.key, Reason: ErrClosed}
		}
		text, reason := v.inVain(fmt.Sprintf("%d of %d counts are made", len(v.permits()), l.n))
		return &Error{Op: "await", Key: l.key, Reason: reason, Text: text, Err: errs.OfContext(ctx)}
	}
	if err := l.checkAgreed(ctx, "await"); err != nil {
		return err
	}
	l.sawOpen()
	return nil
}

func (l *CountDownLatch) valid(op string) error {
	if l.n >= 1 && l.n <= MaxPermits {
		return nil
	}
	return &Error{Op: op, Key: l.key, Reason: ErrPermits, Text: fmt.Sprintf("%d counts; there may be 1 to %d", l.n, MaxPermits)}
}

// Count returns the number of missing counts as seen by a majority of the voters; zero when the
// latch is open. A count of a node that ended, or was cut off, before any other voter heard of the
// count is left out, although the count may last for a TTL. Errors are as with [Mesh.Inspect], and
// ErrPermits if n is out of range or other users of the key have another number.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	l.checkUsable("CountDownLatch.Count")
	ctx = guardContext(ctx, "CountDownLatch.Count")
	if l.hasSeenOpen() {
		return 0, nil
	}
	if err := l.valid("count"); err != nil {
		return 0, err
	}
	info, err := l.mesh.Inspect(ctx, l.key)
	if err != nil {
		return 0, withOp(err, "count")
	}
	made := 0
	for i := range info.Holders {
		h := &info.Holders[i]
		if h.Mode == ModePermit && !h.Unsure {
			made++
		}
		if string(h.Value) == string(openValue) {
			made = l.n
		}
	}
	if made > 0 {
		if err := l.checkNumber("count", info.Permits); err != nil {
			return 0, err
		}
	}
	if made >= l.n {
		l.sawOpen()
		return 0, nil
	}
	return l.n - made, nil
}
