package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

const (
	// maxTTL is for how long a lease outlives its holder's last message, and for how long a voter
	// is quiet after its start. Two seconds keep the story short; a service that has to survive
	// longer interruptions uses a larger MaxTTL.
	maxTTL = 2 * time.Second
	// key is the contended lock.
	key = "billing/nightly"
	// hold is how long a worker keeps the lock while all is well.
	hold = 300 * time.Millisecond
)

// demo directs the demonstration: workers hand over each granted lease and keep the lock until the
// story lets them go on.
type demo struct {
	out    io.Writer
	start  time.Time
	nodes  []*node
	grants chan grant
	last   *lockmesh.Lease // the newest lease; nil before the first

	// log is the log of the nodes, printed if something fails: one node crashes in this story, and
	// the others log the crash. The nodes' common handler writes to log until all nodes are closed;
	// then log may be read.
	log    strings.Builder
	logger *slog.Logger
}

func newDemo(out io.Writer) *demo {
	s := &demo{out: out, start: time.Now(), grants: make(chan grant)}
	s.logger = slog.New(slog.NewTextHandler(&s.log, nil))
	return s
}

// run runs the whole story. It returns an error as soon as a promise is broken.
func (s *demo) run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.waitForVoters(ctx); err != nil {
		return err
	}
	if err := s.contend(ctx); err != nil {
		return err
	}
	dead, err := s.crash(ctx)
	if err != nil {
		return err
	}
	if err := s.takeOver(ctx, dead); err != nil {
		return err
	}
	return s.rejoin(ctx, dead.node)
}

// open starts three nodes on ports chosen by the system.
func (s *demo) open(ctx context.Context) error {
	s.printf("start", "three nodes in one process, which talk over loopback: no server, no disk, nothing else to run")
	for _, name := range []string{"a", "b", "c"} {
		n := &node{name: name, grants: s.grants, logger: s.logger}
		if err := n.join(ctx, s.addressesFor(n)); err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
		s.printf("", "node %s listens on %s, one port for gossip and locks", name, n.mesh.Addr())
	}
	return nil
}

// waitForVoters shows the startup quarantine until locks can be granted.
func (s *demo) waitForVoters(ctx context.Context) error {
	s.printf("quiet", "a voter that starts has forgotten what it promised before, so its votes don't count until")
	s.printf("", "every lease it may have voted for has ended (%v) and it has asked the others for the", maxTTL)
	s.printf("", "highest token they know (up to 1s more where all of them have just started)")
	ready := make(chan error, 1)
	go func() { ready <- s.nodes[0].mesh.Ready(ctx) }()
	if err := s.during(ctx, ready, s.nodes[0]); err != nil {
		return fmt.Errorf("no majority of voters: %w", err)
	}
	s.printf("ready", "a majority counts, 2 of 3 or more: locks can be granted")
	return nil
}

// during prints a node's view of the voters until end delivers a result.
func (s *demo) during(ctx context.Context, end <-chan error, from *node) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-end:
			return err
		case <-tick.C:
			s.printf("", "%s", from.voters())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// contend lets a worker on each node take the lock a few times.
func (s *demo) contend(ctx context.Context) error {
	s.printf("contend", "a worker on each node wants the lock %q; one has it at a time, and each lease has", key)
	s.printf("", "a larger token than the one before, so that what the lock protects can refuse a late writer")
	for _, n := range s.nodes {
		n.startWorker(ctx)
	}
	for range 2 * len(s.nodes) {
		if _, err := s.holdOnce(ctx, hold); err != nil {
			return err
		}
	}
	return nil
}

// crash kills the node of the next holder while the lock is held.
func (s *demo) crash(ctx context.Context) (grant, error) {
	g, err := s.nextGrant(ctx)
	if err != nil {
		return g, err
	}
	if err := pause(ctx, hold); err != nil {
		return g, err
	}
	s.printf("crash", "node %s is killed without goodbye while it holds the lock", g.node.name)
	if err := g.node.kill(); err != nil {
		return g, fmt.Errorf("killing node %s: %w", g.node.name, err)
	}
	s.printf("", "its last lease ends at %s; the others can't tell a dead holder from a slow one, so", clock(g.lease.Deadline()))
	s.printf("", "they wait for that, and no longer")
	return g, nil
}

// takeOver shows that the next waiter gets the lock when the dead lease has ended.
func (s *demo) takeOver(ctx context.Context, dead grant) error {
	ends := dead.lease.Deadline()
	g, err := s.nextGrant(ctx)
	if err != nil {
		return fmt.Errorf("no node has taken over from node %s: %w", dead.node.name, err)
	}
	after := g.at.Sub(ends)
	if after < 0 {
		return fmt.Errorf("node %s took over %v before the dead lease had ended", g.node.name, -after)
	}
	s.printf("takeover", "node %s got the lock %v after the dead lease's end; its token is larger by %d",
		g.node.name, after.Round(time.Millisecond), g.lease.Token()-dead.lease.Token())
	return s.release(ctx, g, hold)
}

// rejoin restarts the dead node under its name and goes on until the node has voted and held the
// lock again.
func (s *demo) rejoin(ctx context.Context, n *node) error {
	began := time.Now()
	if err := n.join(ctx, s.addressesFor(n)); err != nil {
		return fmt.Errorf("restarting node %s: %w", n.name, err)
	}
	s.printf("restart", "node %s is back at %s with an empty memory: quiet, while the others go on", n.name, n.mesh.Addr())
	for !n.votes() {
		s.printf("", "%s", n.voters())
		if _, err := s.holdOnce(ctx, 2*hold); err != nil {
			return err
		}
	}
	if quiet := time.Since(began); quiet < maxTTL {
		return fmt.Errorf("node %s votes %v after its restart, and must be quiet for %v", n.name, quiet, maxTTL)
	}
	s.printf("", "%s", n.voters())
	s.printf("voting", "node %s votes again, so that the mesh could lose another node", n.name)
	n.startWorker(ctx)
	for held := false; !held; {
		g, err := s.holdOnce(ctx, hold)
		if err != nil {
			return err
		}
		held = g.node == n
	}
	s.printf("done", "node %s has had the lock again; at no time did two workers have it at once", n.name)
	return nil
}

// end closes everything still open.
func (s *demo) end() error {
	errs := make([]error, len(s.nodes))
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() { errs[i] = n.leave() })
	}
	all.Wait()
	return errors.Join(errs...)
}
