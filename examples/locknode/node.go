package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// node is the running program: its mesh, its leases taken by command, and the tasks that must end
// first.
type node struct {
	mesh  *lockmesh.Mesh
	out   *report
	opts  *options
	end   context.CancelCauseFunc // ends the program; the cause says how
	tasks sync.WaitGroup          // must end before Leave

	mu     sync.Mutex
	leases map[string]*lockmesh.Lease // by key, the newest of each
}

// The causes for ending the program, besides a signal. errStuck follows a reported error.
var (
	errDone  = errors.New("all is done")
	errStop  = errors.New("told to stop, to be started again soon")
	errClose = errors.New("told to end without a word to the others, as a crash does")
	errStuck = errors.New("can't go on")
)

// finish closes the mesh as the cause demands and returns the exit code.
func (n *node) finish(cause error) int {
	switch {
	case errors.Is(cause, errClose):
		return n.ended("close", "closed", n.mesh.Close())
	case errors.Is(cause, errStop):
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
		defer cancel()
		return n.ended("stop", "stopped", n.mesh.Stop(ctx))
	}
	patience := goodbyeTime
	if n.opts.config.StateDir != "" || n.opts.config.Expect > 0 {
		patience += partsTTLs * cmp.Or(n.opts.config.MaxTTL, lockmesh.DefaultMaxTTL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if code := n.ended("leave", "left", n.mesh.Leave(ctx)); code != exitOK || !errors.Is(cause, errStuck) {
		return code
	}
	return exitBad
}

// ended reports how the mesh was closed and returns the exit code.
func (n *node) ended(op, done string, err error) int {
	if err != nil {
		n.out.fail(op, "", err)
		return exitBad
	}
	n.out.print(event{Event: done})
	return exitOK
}

// traceVoters prints this node's view of the voters on each change.
func (n *node) traceVoters(ctx context.Context) {
	var last map[string]string
	for sleep(ctx, tracePeriod) {
		now := make(map[string]string)
		for _, v := range n.mesh.Status().Electorate.Voters {
			now[v.Name] = string(v.State)
		}
		if !maps.Equal(now, last) {
			last = now
			n.out.print(event{Event: "voters", Voters: now})
		}
	}
}

// announce reports when the mesh is ready, or settled, and each new reason why not.
func (n *node) announce(ctx context.Context, what string, wait func(context.Context) error) {
	for last := ""; ; {
		err := wait(ctx)
		switch {
		case err == nil:
			n.out.print(event{Event: what})
			return
		case ctx.Err() != nil:
			return
		case err.Error() != last:
			last = err.Error()
			n.out.fail(what, "", err)
		}
		// A refusal may end, when other nodes are given the same configuration; here the only other
		// error is the end of the mesh.
		if !errors.Is(err, lockmesh.ErrRefused) || !sleep(ctx, time.Second) {
			return
		}
	}
}

// take requests a key by Lock or TryLock and reports the result.
func (n *node) take(ctx context.Context, key string, try bool) (*lockmesh.Lease, error) {
	op, call := "lock", n.mesh.Lock
	if try {
		op, call = "trylock", n.mesh.TryLock
	}
	n.out.print(event{Event: "waiting", Op: op, Key: key})
	l, err := call(ctx, key)
	if err != nil {
		if ctx.Err() == nil { // otherwise the program is ending, and the error is no news
			n.out.fail(op, key, err)
		}
		return nil, err
	}
	n.storeLease(l) // before the event is printed: a reader of the event may name the lease in a command
	n.out.lease("granted", l)
	go n.watch(l) // ends with the lease
	return l, nil
}

// tracePeriod is how often -trace checks a deadline. A lease is extended five times per TTL, so
// every 40 ms at the shortest TTL.
const tracePeriod = 20 * time.Millisecond

// watch follows a lease to its end. Only a trace needs to poll the deadline: a program holding a
// lease checks Err.
func (n *node) watch(l *lockmesh.Lease) {
	var tick <-chan time.Time
	if n.opts.trace {
		t := time.NewTicker(tracePeriod)
		defer t.Stop()
		tick = t.C
	}
	last := l.Deadline()
	for {
		select {
		case <-tick:
			// A smaller difference is an adjustment of the wall clock.
			if d := l.Deadline(); d.Sub(last) > time.Millisecond {
				last = d
				n.out.lease("extended", l)
			}
		case <-l.Done():
			if err := l.Err(); !errors.Is(err, lockmesh.ErrReleased) {
				n.out.print(event{Event: "lost", Key: l.Key(), Token: l.Token(), Is: sentinelNames(err), Text: err.Error()})
			}
			return
		}
	}
}

// release releases a lease, even when the program is ending.
func (n *node) release(l *lockmesh.Lease) {
	err := l.Unlock(context.Background())
	switch {
	case errors.Is(err, lockmesh.ErrLost):
		return // watch has reported the loss
	case err != nil:
		n.out.fail("unlock", l.Key(), err)
		return
	}
	n.out.print(event{Event: "released", Key: l.Key(), Token: l.Token()})
}

// use is the check of a careful program before each write protected by the lock.
func (n *node) use(l *lockmesh.Lease) {
	if err := l.Err(); err != nil {
		n.out.fail("use", l.Key(), err)
		return
	}
	n.out.lease("used", l)
}

func (n *node) printStatus() {
	s := n.mesh.Status()
	n.out.print(event{Event: "status", Status: &s})
}
