package lockmesh

import (
	"context"
	"fmt"
	"sync"
)

// CountDownLatch opens when a number of counts are made, as Curator's and Redisson's do. It is made by [Mesh.CountDownLatch], has nothing to be closed, and
// may be used from any goroutine.
//
// Voters remember nothing, so what was counted is kept up by who has counted: a count lasts as long as the mesh of its process, unless it is taken back, and a
// TTL longer if that dies. When n counts stand at once, the latch is open. It stays open for everybody as long as any of them stands that has
// seen it open, and for ever for each CountDownLatch that has seen it open. A count whose node dies before that is gone: the latch stays
// closed until somebody counts again in its place. So a process that counts and then wants to exit should first wait with Await; a process that only comes
// when all who have counted have gone finds the latch closed.
type CountDownLatch struct {
	mesh *Mesh
	key  string
	n    int

	once sync.Once
	open chan struct{} // closed when this latch has been seen open
}

// CountDownLatch returns the latch of a key, for 1 to 1,024 counts. All who use the key must agree on the number (ErrPermits). Nothing is sent before
// the first call.
func (m *Mesh) CountDownLatch(key string, n int) *CountDownLatch {
	return &CountDownLatch{mesh: m, key: key, n: n, open: make(chan struct{})}
}

// opened is the value of a count whose owner has seen the latch open.
var opened = []byte("open")

// isOpen reports whether a view shows the latch open.
func (l *CountDownLatch) isOpen(v *view) bool {
	permits := v.permits()
	for i := range permits {
		if string(permits[i].Value) == string(opened) {
			return true
		}
	}
	return len(permits) >= l.n
}

func (l *CountDownLatch) sawOpen() { l.once.Do(func() { close(l.open) }) }

// Opened returns a channel that is closed once this CountDownLatch has seen the latch open: by Await, Count, or while a count of its own stands.
func (l *CountDownLatch) Opened() <-chan struct{} { return l.open }

// Count is one count of a latch. It stands until TakeBack, or until it is lost with its node.
type Count struct {
	lease *Lease
}

// Done returns a channel that is closed when the count stands no more.
func (c *Count) Done() <-chan struct{} { return c.lease.Done() }

// Err returns nil while the count stands, and then ErrLost or ErrReleased; see [Lease.Err].
func (c *Count) Err() error { return c.lease.Err() }

// TakeBack ends the count. Before the latch is open somebody must count again in its place; afterwards, the latch of that key is closed again, for who hasn't seen
// it open, when all counts are taken back. Errors are as with [Lease.Unlock].
func (c *Count) TakeBack(ctx context.Context) error { return withOp(c.lease.Unlock(ctx), "takeback") }

// CountDown makes a count. ErrHeld says that as many stand as are needed, so the latch is open without it. Other errors are as with [Semaphore.Acquire].
func (l *CountDownLatch) CountDown(ctx context.Context) (*Count, error) {
	if err := l.valid("countdown"); err != nil {
		return nil, err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	v, err := l.mesh.view(inner, "countdown", l.key)
	if err != nil {
		return nil, err
	}
	mine := l.mesh.mark()
	events := v.watch.Events()
	got := make(chan result, 1)
	go func() { // it ends with this call
		lease, err := l.mesh.Semaphore(l.key, l.n).acquire(inner, "countdown", false, []Option{WithValue(mine)})
		got <- result{lease, err}
	}()
	var unfit error // others use the key with another number
	for {
		select {
		case r := <-got:
			if r.err != nil {
				if unfit != nil {
					return nil, unfit
				}
				if ctx.Err() == nil && inner.Err() != nil { // it was stopped here, since the latch is open
					r.err = &Error{Op: "countdown", Key: l.key, Reason: ErrHeld, Text: fmt.Sprintf("all %d counts are made", l.n)}
				}
				return nil, r.err
			}
			if err := l.mesh.spawn(func() { l.keepOpen(r.lease) }); err != nil {
				_, _ = r.lease.giveUp()
				return nil, &Error{Op: "countdown", Key: l.key, Reason: err}
			}
			return &Count{r.lease}, nil
		case e, ok := <-events:
			if !ok {
				events = nil // the call's context or the mesh has ended; the other goroutine says so
				continue
			}
			if v.take(e); v.synced && l.full(v, mine) {
				if unfit = l.agreed(inner, "countdown"); unfit == nil {
					l.sawOpen()
				}
				stop()
			}
		}
	}
}

// agreed returns ErrPermits if others are known to use the key with another number: as many counts as are asked for here aren't all that they
// need. A view doesn't show the number.
func (l *CountDownLatch) agreed(ctx context.Context, op string) error {
	if info, err := l.mesh.Inspect(ctx, l.key); err == nil && info.Permits != 0 { // else nobody can say, or nobody uses it any more
		return l.differs(op, info.Permits)
	}
	return nil
}

// differs returns ErrPermits unless others use the key with the same number.
func (l *CountDownLatch) differs(op string, others int) error {
	if others == l.n {
		return nil
	}
	return &Error{Op: op, Key: l.key, Reason: ErrPermits, Text: fmt.Sprintf("%d counts are asked for here, while others use %d", l.n, others)}
}

// full reports whether a view shows that others have made all counts.
func (l *CountDownLatch) full(v *view, mine []byte) bool {
	permits := v.permits()
	for i := range permits {
		if len(permits[i].Value) == 0 || string(permits[i].Value) == string(mine) {
			return false // this one is among them, or may be
		}
	}
	return len(permits) >= l.n
}

func (l *CountDownLatch) seen() bool {
	select {
	case <-l.open:
		return true
	default:
		return false
	}
}

// keepOpen marks a count once the latch is open, so that it stays open when others that have counted go. It ends with the count.
func (l *CountDownLatch) keepOpen(lease *Lease) {
	v, err := l.mesh.view(lease.context(), "countdown", l.key)
	if err != nil {
		return
	}
	defer v.stop()
	if v.until(lease.context(), lease, func() bool { return l.isOpen(v) }) == nil {
		l.sawOpen()
		_ = lease.SetValue(lease.context(), opened)
	}
}

// Await waits until the latch is open, or ctx ends. It doesn't poll: voters tell of each count.
//
// Errors: ctx's, with how many counts are missing; ErrClosed; ErrKey; ErrPermits if the number is out of range, or if as many counts as it says are made,
// and others use the key with another; ErrBusy.
func (l *CountDownLatch) Await(ctx context.Context) error {
	if l.seen() {
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
	if err := v.until(ctx, nil, func() bool { return l.isOpen(v) }); err != nil {
		text := fmt.Sprintf("%d of %d counts are made", len(v.permits()), l.n)
		if ctx.Err() == nil {
			return &Error{Op: "await", Key: l.key, Reason: ErrClosed, Text: text}
		}
		return &Error{Op: "await", Key: l.key, Text: text, Err: ended(ctx)}
	}
	if err := l.agreed(ctx, "await"); err != nil {
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

// Count returns how many counts are still missing, as a majority of the voters sees it; zero when the latch is open. Errors are as with [Mesh.Inspect],
// and ErrPermits if others use the key with another number.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	if l.seen() {
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
		if h.Mode == Permit {
			made++
		}
		if string(h.Value) == string(opened) {
			made = l.n
		}
	}
	if made > 0 {
		if err := l.differs("count", info.Permits); err != nil {
			return 0, err
		}
	}
	if made >= l.n {
		l.sawOpen()
		return 0, nil
	}
	return l.n - made, nil
}
