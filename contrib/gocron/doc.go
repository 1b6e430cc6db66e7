// Package gocronlock lets the gocron schedulers of several processes share their jobs over a mesh,
// in either of gocron's two ways.
//
// With an [Elector] a single process runs all jobs, and another takes over when the first dies:
//
//	elector := gocronlock.NewElector(mesh, "billing/cron")
//	defer elector.Close(context.Background())
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// With a [Locker] each run of a job goes to the first process that asks:
//
//	locker := gocronlock.NewLocker(mesh, gocronlock.WithPrefix("billing/"))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// gocron itself recommends an elector where the clocks of the processes differ; see [WithSplay].
//
// gocron asks once, before a job starts. A job that must stop when its lease is lost takes its
// context from Guard.
package gocronlock

import (
	"context"

	"github.com/lockmesh/lockmesh"
)

// guard returns a context that ends when ctx or the lease ends, and a function to release the
// context.
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
