package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh"
)

// key is the lock held by the node that runs the job.
const key = "reports/nightly"

// job is the part of a node that runs the job when the job is due, unless another node runs the
// job.
//
// Three times ensure that no tick is run twice. They are fractions of the interval between two
// ticks:
//
//	every/8  the largest difference between clocks; a machine with a larger difference needs fixing
//	every/4  an answer this long after the tick is too late, and this node skips the tick, as it
//	         does if paused before asking. The limit is 3/8 of MaxTTL at most: see below
//	every/2  from the grant on, the lock is kept from all nodes for this long, however short the
//	         job is (WithMinHold)
//
// So the last node has its answer at most 3/8 of the interval after the first node asked, when the
// lock is still kept from all. And the lock is free again at most 7/8 after the first node asked,
// before any node asks for the next tick. A longer job keeps its lock, and the next tick is
// skipped.
//
// The voters enforce almost three quarters of MaxTTL of the minimum hold, see
// [lockmesh.WithMinHold]; the rest ends early if the node that ran the job crashes. So where ticks
// are further apart than 1.5 MaxTTL, answers are too late after 3/8 of MaxTTL, and clocks should
// differ by at most a quarter of MaxTTL: the last answer then comes 5/8 of MaxTTL after the first
// node asked.
type job struct {
	mesh   *lockmesh.Mesh
	every  time.Duration
	maxTTL time.Duration // the mesh's MaxTTL
	// late is how far this node's clock is behind; for the demo, in which all nodes share a clock.
	late   time.Duration
	report func(event)
	// work does the job. When the lock is lost, ctx ends with the loss as its cause. The token goes
	// along with every write of the job.
	work func(ctx context.Context, tick time.Time, token uint64) error
}

// run starts the job at each tick until ctx ends; a started job is finished. run returns an error
// if there is no sense in going on.
func (j *job) run(ctx context.Context) error {
	for {
		now := time.Now().Add(-j.late)
		tick := now.Truncate(j.every).Add(j.every)
		if !sleep(ctx, tick.Sub(now)) {
			return nil
		}
		err := j.attempt(ctx, tick)
		if errors.Is(err, lockmesh.ErrRefused) || errors.Is(err, lockmesh.ErrClosed) {
			return err
		}
	}
}

// attempt runs the job of a tick unless another node does.
func (j *job) attempt(ctx context.Context, tick time.Time) error {
	asking, cancel := context.WithDeadline(ctx, tick.Add(j.late+min(j.every/4, j.maxTTL*3/8)))
	defer cancel()
	lease, err := j.mesh.TryLock(asking, key, lockmesh.WithMinHold(j.every/2), lockmesh.WithValue([]byte(clock(tick))))
	if err != nil {
		j.report(event{tick: tick, what: leftOut, err: err})
		return err
	}
	j.report(event{tick: tick, what: began, token: lease.Token()})
	err = j.work(lease.Context(), tick, lease.Token())
	// Unlock tells whether the lock was held to the end.
	if unlockErr := lease.Unlock(context.WithoutCancel(ctx)); err == nil {
		err = unlockErr
	}
	if err != nil {
		j.report(event{tick: tick, what: failed, token: lease.Token(), err: err})
		return err
	}
	j.report(event{tick: tick, what: done, token: lease.Token()})
	return nil
}

// writeReport stands for the work, and takes a tenth of the interval. A real job checks ctx before
// each write, and passes its token to a resource that refuses older tokens: see docs/fencing.md.
func writeReport(ctx context.Context, every time.Duration) error {
	if !sleep(ctx, every/10) {
		return context.Cause(ctx)
	}
	return nil
}

// event is the outcome of a tick on a node.
type event struct {
	tick  time.Time
	what  what
	token uint64
	err   error
}

type what int

const (
	leftOut what = iota // another node runs the job, or this node couldn't know
	began
	done
	failed
)

func (e event) String() string {
	switch e.what {
	case began:
		return fmt.Sprintf("%s  runs the job by token %d", clock(e.tick), e.token)
	case done:
		return fmt.Sprintf("%s  is done; its report bears the token %d", clock(e.tick), e.token)
	case failed:
		return fmt.Sprintf("%s  has not finished: %v", clock(e.tick), e.err)
	}
	if errors.Is(e.err, lockmesh.ErrHeld) {
		return fmt.Sprintf("%s  leaves the job to another", clock(e.tick))
	}
	return fmt.Sprintf("%s  doesn't know whether another runs the job, and leaves it out: %v", clock(e.tick), e.err)
}

// sleep waits, and reports whether the context is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
