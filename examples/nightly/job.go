package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh"
)

// key is the lock that whoever runs the job holds.
const key = "reports/nightly"

// job is the part of a node that runs the job when it is due and nobody else does.
//
// Three times decide that no tick is run twice, and they are parts of the time between two ticks:
//
//	every/8  clocks may differ by so much; a larger difference is a machine that needs mending
//	every/4  so long after the tick an answer is too late, and the tick is left out here; also when this node was paused before it asked. And no more than
//	         half a MaxTTL: see below
//	every/2  after it was granted, the lock is kept from everyone for so long, however short the job is (WithMinHold)
//
// So the last node has its answer 3/8 after the first has asked, at the latest, when the lock is still kept from it. And the lock is free again 7/8 after
// the first has asked, at the latest, which is before anyone asks for the next tick. A job that goes on for longer keeps its lock, and the next tick is
// left out.
//
// Of what is kept from everyone the voters keep no more than MaxTTL; the rest ends when the node does that has run the job. So where ticks are further apart than
// two MaxTTL, answers are too late after half a MaxTTL, and clocks should differ by no more than half of that.
type job struct {
	mesh   *lockmesh.Mesh
	every  time.Duration
	maxTTL time.Duration // the mesh's
	late   time.Duration // how far this node's clock is behind; for the demo, in which all have the same
	tell   func(event)
	// work does the job. ctx ends, with its cause, when the lock is lost. The token goes along to whatever the job writes to.
	work func(ctx context.Context, tick time.Time, token uint64) error
}

// run starts the job at each tick until ctx ends; a job that has begun is finished. It returns an error when there is no sense in going on.
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

// attempt runs the job of one tick unless another node does.
func (j *job) attempt(ctx context.Context, tick time.Time) error {
	asking, cancel := context.WithDeadline(ctx, tick.Add(j.late+min(j.every/4, j.maxTTL/2)))
	defer cancel()
	lease, err := j.mesh.TryLock(asking, key, lockmesh.WithMinHold(j.every/2), lockmesh.WithValue([]byte(clock(tick))))
	if err != nil {
		j.tell(event{tick: tick, what: leftOut, err: err})
		return err
	}
	j.tell(event{tick: tick, what: began, token: lease.Token()})
	err = j.work(lease.Context(), tick, lease.Token())
	// Unlock tells whether the lock was held to the end.
	if unlockErr := lease.Unlock(context.WithoutCancel(ctx)); err == nil {
		err = unlockErr
	}
	if err != nil {
		j.tell(event{tick: tick, what: failed, token: lease.Token(), err: err})
		return err
	}
	j.tell(event{tick: tick, what: done, token: lease.Token()})
	return nil
}

// writeReport stands for the work, which takes a tenth of the time between two ticks. A real one looks at ctx before each thing that it writes, and hands
// its token along to whatever can refuse an older one: see docs/fencing.md.
func writeReport(ctx context.Context, every time.Duration) error {
	if !sleep(ctx, every/10) {
		return context.Cause(ctx)
	}
	return nil
}

// event is what became of a tick on one node.
type event struct {
	tick  time.Time
	what  what
	token uint64
	err   error
}

type what int

const (
	leftOut what = iota // somebody else runs it, or this node couldn't know
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

// sleep waits, and reports whether the context still goes on.
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
