package gocronlock_test

import (
	"context"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmesh/lockmesh"
	gocronlock "github.com/lockmesh/lockmesh/contrib/gocron"
)

// One process runs all jobs.
func ExampleElector() {
	var mesh *lockmesh.Mesh // as Join returned it
	elector := gocronlock.NewElector(mesh, "billing/cron")
	defer elector.Close(context.Background())
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func(ctx context.Context) error {
		ctx, done := elector.Guard(ctx) // ends when this process doesn't lead any more
		defer done()
		return report(ctx)
	}))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
}

// The first process runs each job.
func ExampleLocker() {
	var mesh *lockmesh.Mesh // as Join returned it
	locker := gocronlock.NewLocker(mesh, gocronlock.WithPrefix("billing/"), gocronlock.WithSplay(5*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func(ctx context.Context) error {
		ctx, done := locker.Guard(ctx, "report") // ends when the job's lease is lost
		defer done()
		return report(ctx)
	}), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
}

func report(ctx context.Context) error { return ctx.Err() }
