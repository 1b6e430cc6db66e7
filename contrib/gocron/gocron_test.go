package gocronlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// cron has one gocron scheduler for each node, all on one clock set by the test.
type cron struct {
	t          *testing.T
	clock      *clockwork.FakeClock
	schedulers []gocron.Scheduler
	jobs       int // of all schedulers
}

func newCron(t *testing.T, n int, opt func(i int) gocron.SchedulerOption) *cron {
	t.Helper()
	c := &cron{t: t, clock: clockwork.NewFakeClock()}
	for i := range n {
		s, err := gocron.NewScheduler(gocron.WithClock(c.clock), opt(i))
		if err != nil {
			t.Fatal(err)
		}
		c.schedulers = append(c.schedulers, s)
		t.Cleanup(func() {
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
		})
	}
	return c
}

// every gives each scheduler a job that is due each minute, as in a deployment of a single program.
func (c *cron) every(name string, job func(ctx context.Context, node int), opts ...gocron.JobOption) {
	c.t.Helper()
	for i, s := range c.schedulers {
		_, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func(ctx context.Context) { job(ctx, i) }),
			append(opts, gocron.WithName(name))...)
		if err != nil {
			c.t.Fatal(err)
		}
		c.jobs++
	}
}

func (c *cron) start() {
	for _, s := range c.schedulers {
		s.Start()
	}
}

// tick turns the clock by a minute, once all jobs are scheduled again.
func (c *cron) tick() {
	c.t.Helper()
	c.scheduled()
	c.clock.Advance(time.Minute)
}

// scheduled waits until every job of every scheduler has a next run. By then each scheduler has
// decided about the previous run.
func (c *cron) scheduled() {
	c.t.Helper()
	if err := c.clock.BlockUntilContext(testwait.Within(c.t, testwait.Patience), c.jobs); err != nil {
		c.t.Fatal("the schedulers don't come to rest")
	}
}
