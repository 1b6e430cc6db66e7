// Package gocronlock lets the gocron schedulers of several processes share their jobs over a mesh, in either of gocron's two ways.
//
// With an [Elector] one process runs all jobs, and when it dies another takes over:
//
//	elector := gocronlock.NewElector(mesh, "billing/cron")
//	defer elector.Close(context.Background())
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// With a [Locker] each run of a job goes to whichever process is first:
//
//	locker := gocronlock.NewLocker(mesh, gocronlock.WithPrefix("billing/"))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// gocron itself recommends an elector where the clocks of the processes differ; see [WithSplay].
//
// gocron asks once, before a job starts. A job that must stop when its lease is lost takes its context from Guard.
package gocronlock

import (
	"context"

	"github.com/lockmesh/lockmesh"
)

// guard returns a context that ends with ctx or with the lease, whichever ends first, and the function that frees it.
func guard(ctx context.Context, lease *lockmesh.Lease) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ended returns a context that has ended.
func ended(ctx context.Context, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	return ctx, func() {}
}
