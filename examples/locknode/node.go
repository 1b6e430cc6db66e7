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

// node is the running program: its mesh, what it holds by command, and who must end before it does.
type node struct {
	mesh  *lockmesh.Mesh
	out   *report
	opts  *options
	end   context.CancelCauseFunc // ends the program; the cause says how
	tasks sync.WaitGroup          // what must end before the goodbye

	mu     sync.Mutex
	leases map[string]*lockmesh.Lease // by key, the newest of each
}

// Why the program ends, when nothing went wrong. Any other cause but a signal's is an error that was reported.
var (
	errDone  = errors.New("all is done")
	errClose = errors.New("told to end without a word")
	errStuck = errors.New("can't go on")
)

// finish ends the mesh as the cause wants it and returns the exit code.
func (n *node) finish(cause error) int {
	if errors.Is(cause, errClose) {
		if err := n.mesh.Close(); err != nil {
			n.out.fail("close", "", err)
			return exitBad
		}
		n.out.print(event{Event: "closed"})
		return exitOK
	}
	patience := goodbyeTime
	if n.opts.config.StateDir != "" {
		patience += partsTTLs * cmp.Or(n.opts.config.MaxTTL, lockmesh.DefaultMaxTTL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.mesh.Leave(ctx); err != nil {
		n.out.fail("leave", "", err)
		return exitBad
	}
	n.out.print(event{Event: "left"})
	if errors.Is(cause, errStuck) {
		return exitBad
	}
	return exitOK
}

// traceVoters tells how the voters look from here whenever that has changed.
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

func (n *node) announceReady(ctx context.Context) {
	err := n.mesh.Ready(ctx)
	switch {
	case err == nil:
		n.out.print(event{Event: "ready"})
	case ctx.Err() == nil:
		n.out.fail("ready", "", err)
	}
}

// take asks for a key by Lock or TryLock and says what came of it.
func (n *node) take(ctx context.Context, key string, try bool) (*lockmesh.Lease, error) {
	op, call := "lock", n.mesh.Lock
	if try {
		op, call = "trylock", n.mesh.TryLock
	}
	n.out.print(event{Event: "waiting", Op: op, Key: key})
	l, err := call(ctx, key)
	if err != nil {
		if ctx.Err() == nil { // else the program is ending, which is no news
			n.out.fail(op, key, err)
		}
		return nil, err
	}
	n.keep(l) // before it is printed: who reads of the lease may name it in a command
	n.out.lease("granted", l)
	go n.watch(l) // ends with the lease
	return l, nil
}

// tracePeriod is how often -trace looks at a deadline. A lease is extended five times per TTL, which is 40 ms at the least.
const tracePeriod = 20 * time.Millisecond

// watch follows a lease to its end. Only a trace needs to look at the deadline: a program that holds a lease asks for its Err.
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
			if d := l.Deadline(); d.Sub(last) > time.Millisecond { // less is the wall clock being steered
				last = d
				n.out.lease("extended", l)
			}
		case <-l.Done():
			if err := l.Err(); !errors.Is(err, lockmesh.ErrReleased) {
				n.out.print(event{Event: "lost", Key: l.Key(), Token: l.Token(), Is: kinds(err), Text: err.Error()})
			}
			return
		}
	}
}

// release gives a lease back. It does so even when the program is ending.
func (n *node) release(l *lockmesh.Lease) {
	err := l.Unlock(context.Background())
	switch {
	case errors.Is(err, lockmesh.ErrLost):
		return // watch has said so
	case err != nil:
		n.out.fail("unlock", l.Key(), err)
		return
	}
	n.out.print(event{Event: "released", Key: l.Key(), Token: l.Token()})
}

// use is what a careful program does before each write that the lock protects.
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
