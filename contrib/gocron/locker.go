package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmesh/lockmesh"
)

// DefaultSplay is how far schedulers may be apart unless [WithSplay] says otherwise: more than synchronised clocks differ, and less than
// the second that the shortest of cron's intervals takes.
const DefaultSplay = 500 * time.Millisecond

// ErrRunning : this process has the job's lock already: the job runs, or has just run. gocron skips the run, as with a lock that
// another process has.
var ErrRunning = errors.New("gocronlock: this process has the job's lock")

// Locker is a [gocron.Locker]: for each run of a job, one of the schedulers that want to run it does, and the others skip it.
// It may be used by several schedulers of a process.
type Locker struct {
	mesh   *lockmesh.Mesh
	prefix string
	splay  time.Duration
	lost   func(job string, err error)

	mu   sync.Mutex
	runs map[string]*run // by job
}

var _ gocron.Locker = (*Locker)(nil)

// LockerOption changes a [Locker].
type LockerOption func(*Locker)

// WithPrefix puts a prefix before the names of jobs, to make keys of the mesh. Default: "gocron/". The same on all nodes.
func WithPrefix(prefix string) LockerOption { return func(l *Locker) { l.prefix = prefix } }

// WithSplay keeps the lock of a job for at least d from when it was taken, even if the job is quicker. Schedulers don't start a
// job at the same moment: without this a second one could come after the first has finished, find the lock free, and run the job again.
//
// d must be longer than what the schedulers' clocks and starts differ by, and shorter than the job's interval, since the lock that
// lingers makes this process skip a run, too. Zero releases at once, for jobs that always take long enough. Default [DefaultSplay].
func WithSplay(d time.Duration) LockerOption { return func(l *Locker) { l.splay = d } }

// WithLost calls f when a lease is lost while its job runs, with the job's name and an error that is [lockmesh.ErrLost]. From then on
// another process may run the job. f is called on a goroutine of its own.
func WithLost(f func(job string, err error)) LockerOption { return func(l *Locker) { l.lost = f } }

// NewLocker returns a Locker. The mesh stays the caller's, who closes it after the scheduler was shut down. Leaving the mesh gives
// back the locks that linger.
func NewLocker(mesh *lockmesh.Mesh, opts ...LockerOption) *Locker {
	l := &Locker{mesh: mesh, prefix: "gocron/", splay: DefaultSplay, runs: map[string]*run{}}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Lock takes the lock of a job, and doesn't wait for another who has it. gocron skips the run on any error: [lockmesh.ErrHeld] and
// [ErrRunning] are everyday, the others are those of [lockmesh.Mesh.TryLock] and deserve a log line, by gocron's AfterLockError.
//
// A run whose lease was lost keeps further runs of the job in this process away until it has ended.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	r := &run{locker: l, job: job}
	l.mu.Lock()
	if l.runs[job] != nil {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: %q", ErrRunning, job)
	}
	l.runs[job] = r
	l.mu.Unlock()

	lease, err := l.mesh.TryLock(ctx, l.prefix+job)
	if err != nil {
		l.forget(job)
		return nil, fmt.Errorf("gocronlock: %w", err)
	}
	r.stop = func() bool { return true }
	if l.lost != nil {
		r.stop = context.AfterFunc(lease.Context(), func() {
			if err := lease.Err(); errors.Is(err, lockmesh.ErrLost) {
				l.lost(job, err)
			}
		})
	}
	r.since = time.Now()
	l.mu.Lock()
	r.lease = lease
	l.mu.Unlock()
	return r, nil
}

func (l *Locker) forget(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, job)
}

// Lease returns the lease under which this process runs a job, or nil if it doesn't. A job hands its token to what it writes to. It
// says nothing to a job that doesn't run.
func (l *Locker) Lease(job string) *lockmesh.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[job]; r != nil {
		return r.lease
	}
	return nil
}

// Guard returns a context for the run of a job, which ends when ctx ends or the job's lease is lost; its cause is then
// [lockmesh.ErrLost]. Call the function when the run is over. It is for the job itself: when this process doesn't run the job, the
// context has ended.
func (l *Locker) Guard(ctx context.Context, job string) (context.Context, context.CancelFunc) {
	if lease := l.Lease(job); lease != nil {
		return guard(ctx, lease)
	}
	return ended(ctx, fmt.Errorf("gocronlock: this process doesn't run %q: %w", job, lockmesh.ErrReleased))
}

// run is one run of a job, and the [gocron.Lock] on it.
type run struct {
	locker *Locker
	job    string
	lease  *lockmesh.Lease // nil until the mesh has answered
	since  time.Time
	stop   func() bool // unhooks the call of lost
	once   sync.Once
}

// Unlock gives the lock back, when the splay is over. It doesn't wait for that; then the error is nil. gocron drops the error in any case:
// [lockmesh.ErrLost] when the lease ended while the job ran, and otherwise that of [lockmesh.Lease.Unlock]. Further calls do nothing.
func (r *run) Unlock(ctx context.Context) (err error) {
	r.once.Do(func() {
		r.stop()
		// gocron's context has ended when a scheduler shuts down; the release must go out all the same, and takes a TTL at most.
		ctx := context.WithoutCancel(ctx)
		rest := r.locker.splay - time.Since(r.since)
		if rest <= 0 || r.lease.Err() != nil {
			err = r.release(ctx)
			return
		}
		time.AfterFunc(rest, func() { _ = r.release(ctx) })
	})
	return err
}

func (r *run) release(ctx context.Context) error {
	err := r.lease.Unlock(ctx)
	r.locker.forget(r.job)
	if err != nil {
		return fmt.Errorf("gocronlock: %w", err)
	}
	return nil
}
