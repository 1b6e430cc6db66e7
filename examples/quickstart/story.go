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
	// maxTTL is for how long a lease outlives its holder's last word, and for how long a voter that starts is quiet. Two seconds keep
	// the story short; a service that rides out longer interruptions takes more.
	maxTTL = 2 * time.Second
	// key is the lock that everyone wants.
	key = "billing/nightly"
	// hold is how long a worker keeps the lock while all is well.
	hold = 300 * time.Millisecond
)

// story drives everything: workers hand it each lease that they get and keep the lock until it lets them go on.
type story struct {
	out    io.Writer
	start  time.Time
	nodes  []*node
	grants chan grant
	last   *lockmesh.Lease // the newest lease; nil before the first

	// log is what the nodes have logged, for the case that something fails: one node dies in this story, and the others log it.
	// Their common handler writes to it until all nodes are closed; then it may be read.
	log    strings.Builder
	logger *slog.Logger
}

func newStory(out io.Writer) *story {
	s := &story{out: out, start: time.Now(), grants: make(chan grant)}
	s.logger = slog.New(slog.NewTextHandler(&s.log, nil))
	return s
}

// tell goes through the story up to its last sentence. It returns an error as soon as something isn't as promised.
func (s *story) tell(ctx context.Context) error {
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
	return s.comeBack(ctx, dead.node)
}

// open starts three nodes on ports that the system chooses.
func (s *story) open(ctx context.Context) error {
	s.say("start", "three nodes in one process, which talk over loopback: no server, no disk, nothing else to run")
	for _, name := range []string{"a", "b", "c"} {
		n := &node{name: name, grants: s.grants, logger: s.logger}
		if err := n.join(ctx, s.addressesFor(n)); err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
		s.say("", "node %s listens on %s, one port for gossip and locks", name, n.mesh.Addr())
	}
	return nil
}

// waitForVoters shows the quiet time until locks can be granted.
func (s *story) waitForVoters(ctx context.Context) error {
	s.say("quiet", "a voter that starts has forgotten what it promised before, so its votes don't count until")
	s.say("", "every lease it may have voted for has ended (%v) and it has asked the others for the", maxTTL)
	s.say("", "highest token they know (up to 1s more where all of them have just started)")
	ready := make(chan error, 1)
	go func() { ready <- s.nodes[0].mesh.Ready(ctx) }()
	if err := s.during(ctx, ready, s.nodes[0]); err != nil {
		return fmt.Errorf("no majority of voters: %w", err)
	}
	s.say("ready", "a majority counts, 2 of 3 or more: locks can be granted")
	return nil
}

// during shows how the voters look from a node until something has ended.
func (s *story) during(ctx context.Context, end <-chan error, from *node) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-end:
			return err
		case <-tick.C:
			s.say("", "%s", from.voters())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// contend lets a worker on each node take the lock a few times.
func (s *story) contend(ctx context.Context) error {
	s.say("contend", "a worker on each node wants the lock %q; one has it at a time, and each lease has", key)
	s.say("", "a larger token than the one before, so that what the lock protects can refuse a late writer")
	for _, n := range s.nodes {
		n.startWorker(ctx)
	}
	for range 2 * len(s.nodes) {
		if _, err := s.oneLease(ctx, hold); err != nil {
			return err
		}
	}
	return nil
}

// crash kills the node of the next holder while it holds the lock.
func (s *story) crash(ctx context.Context) (grant, error) {
	g, err := s.next(ctx)
	if err != nil {
		return g, err
	}
	if err := pause(ctx, hold); err != nil {
		return g, err
	}
	s.say("crash", "node %s is killed without goodbye while it holds the lock", g.node.name)
	if err := g.node.kill(); err != nil {
		return g, fmt.Errorf("killing node %s: %w", g.node.name, err)
	}
	s.say("", "its last lease ends at %s; the others can't tell a dead holder from a slow one, so", clock(g.lease.Deadline()))
	s.say("", "they wait for that, and no longer")
	return g, nil
}

// takeOver shows that the next waiter gets the lock when the dead lease has ended.
func (s *story) takeOver(ctx context.Context, dead grant) error {
	ends := dead.lease.Deadline()
	g, err := s.next(ctx)
	if err != nil {
		return fmt.Errorf("nobody has taken over from node %s: %w", dead.node.name, err)
	}
	after := g.at.Sub(ends)
	if after < 0 {
		return fmt.Errorf("node %s took over %v before the dead lease had ended", g.node.name, -after)
	}
	s.say("takeover", "node %s got the lock %v after the dead lease's end; its token is larger by %d",
		g.node.name, after.Round(time.Millisecond), g.lease.Token()-dead.lease.Token())
	return s.release(ctx, g, hold)
}

// comeBack restarts the dead node under its name and goes on until it has voted and held the lock again.
func (s *story) comeBack(ctx context.Context, n *node) error {
	began := time.Now()
	if err := n.join(ctx, s.addressesFor(n)); err != nil {
		return fmt.Errorf("restarting node %s: %w", n.name, err)
	}
	s.say("restart", "node %s is back at %s with an empty memory: quiet, while the others go on", n.name, n.mesh.Addr())
	for !n.votes() {
		s.say("", "%s", n.voters())
		if _, err := s.oneLease(ctx, 2*hold); err != nil {
			return err
		}
	}
	if quiet := time.Since(began); quiet < maxTTL {
		return fmt.Errorf("node %s votes %v after its restart, and must be quiet for %v", n.name, quiet, maxTTL)
	}
	s.say("", "%s", n.voters())
	s.say("voting", "node %s votes again, so that the mesh could lose another node", n.name)
	n.startWorker(ctx)
	for held := false; !held; {
		g, err := s.oneLease(ctx, hold)
		if err != nil {
			return err
		}
		held = g.node == n
	}
	s.say("done", "node %s has had the lock again; at no time did two workers have it at once", n.name)
	return nil
}

// end closes what is still open.
func (s *story) end() error {
	errs := make([]error, len(s.nodes))
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() { errs[i] = n.leave() })
	}
	all.Wait()
	return errors.Join(errs...)
}
