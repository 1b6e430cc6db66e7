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

// DefaultSplay is the default for [WithSplay]: more than the difference between synchronised
// clocks, and less than a second, cron's shortest interval.
const DefaultSplay = 500 * time.Millisecond

// ErrRunning is returned when this process already has the job's lock: the job is running, or has
// just run. gocron skips the run, as with a lock held by another process.
var ErrRunning = errors.New("gocronlock: this process has the job's lock")

// Locker is a [gocron.Locker]: of the schedulers that want to run a job, one does, and the others
// skip the run. Several schedulers of a process may share a Locker.
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

// WithPrefix sets the prefix that makes keys of the mesh from the names of jobs. Default:
// "gocron/". Use the same prefix on all nodes.
func WithPrefix(prefix string) LockerOption { return func(l *Locker) { l.prefix = prefix } }

// WithSplay keeps the lock of a job for at least d from the grant, even if the job is quicker.
// Schedulers don't start a job at the same moment: without the splay, a second scheduler could come
// after the first has finished, find the lock free, and run the job again.
//
// d must be longer than the differences between the schedulers' clocks and starts, and shorter than
// the job's interval, since the lingering lock makes this process skip a run, too. Zero releases at
// once, for jobs that always take long enough. Default [DefaultSplay].
func WithSplay(d time.Duration) LockerOption { return func(l *Locker) { l.splay = d } }

// WithLost calls f when a lease is lost while its job runs, with the job's name and an error that
// is [lockmesh.ErrLost]. From then on another process may run the job. f is called in a separate
// goroutine.
func WithLost(f func(job string, err error)) LockerOption { return func(l *Locker) { l.lost = f } }

// NewLocker returns a Locker. The caller keeps the ownership of the mesh, and closes the mesh after
// shutting the scheduler down. Leaving the mesh releases lingering locks. NewLocker panics if the
// mesh is nil.
func NewLocker(mesh *lockmesh.Mesh, opts ...LockerOption) *Locker {
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, and says what is wrong
	l := &Locker{mesh: mesh, prefix: "gocron/", splay: DefaultSplay, runs: map[string]*run{}}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Lock takes the lock of a job, and doesn't wait if another holder has the lock. gocron skips the
// run on any error: [lockmesh.ErrHeld] and [ErrRunning] are normal; the others are errors of
// [lockmesh.Mesh.TryLock] and deserve a log line, by gocron's AfterLockError.
//
// A run with a lost lease blocks further runs of the job in this process until the run has ended.
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

// Lease returns the lease under which this process runs a job, or nil without such a run. A job
// passes the lease's token along with its writes. Only the running job may rely on Lease: during
// the splay, Lease still returns the lease of the finished run.
func (l *Locker) Lease(job string) *lockmesh.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[job]; r != nil {
		return r.lease
	}
	return nil
}

// Guard returns a context for the run of a job. The context ends when ctx ends or when the job's
// lease is lost, in the latter case with the cause [lockmesh.ErrLost]. Call the returned function
// when the run is over. Guard is for the job itself: if this process doesn't run the job, the
// context has already ended.
func (l *Locker) Guard(ctx context.Context, job string) (context.Context, context.CancelFunc) {
	if lease := l.Lease(job); lease != nil {
		return guard(ctx, lease)
	}
	return ended(ctx, fmt.Errorf("gocronlock: this process doesn't run %q: %w", job, lockmesh.ErrReleased))
}

// run is a run of a job, and the [gocron.Lock] on the job.
type run struct {
	locker *Locker
	job    string
	lease  *lockmesh.Lease // nil until the mesh has answered
	since  time.Time
	stop   func() bool // unhooks the call of lost
	once   sync.Once
}

// Unlock releases the lock when the splay is over. Unlock doesn't wait for the end of the splay,
// and then returns nil. gocron drops the error in any case: [lockmesh.ErrLost] if the lease ended
// while the job ran, and otherwise the error of [lockmesh.Lease.Unlock]. Further calls do nothing.
func (r *run) Unlock(ctx context.Context) (err error) {
	r.once.Do(func() {
		r.stop()
		// gocron's context has ended when a scheduler shuts down; the release must go out even so,
		// and takes a TTL at most.
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
