package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

const (
	// patience is how long the demo may take, plus 5 MaxTTL. The demo takes about 10 seconds, and
	// longer on a busy machine.
	patience = 30 * time.Second
	// frame is the minimum time between two printed pictures.
	frame = 250 * time.Millisecond
)

var voters = []string{"a", "b", "c"}

// demoRun is the demo: nodes that join and crash, and the board for their work.
type demoRun struct {
	board  *board
	printf func(about, format string, args ...any)
	config lockmesh.Config
	nodes  []*node
}

// node is a node with its worker.
type node struct {
	name string
	mesh *lockmesh.Mesh
	stop context.CancelFunc
	end  chan error // the result of the worker
	dead bool
}

// demo starts two nodes, then a third, and kills a node.
func demo(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	limit := patience + 5*o.config.MaxTTL + o.runFor
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the partitions are not even within %v", limit))
	// A node crashes in this demo, and the others log the crash; the log matters only if something
	// fails.
	var log strings.Builder
	s := &demoRun{board: newBoard(), printf: printer(stdout), config: o.config}
	s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	defer func() {
		cancel()
		err = errors.Join(err, s.end())
		if ctx.Err() != nil {
			s.printf("stop", "interrupted")
			_, _, err = s.board.snapshot()
		}
		if err != nil {
			_, _ = io.WriteString(stderr, log.String())
		}
	}()
	if err := s.run(inner); err != nil {
		return err
	}
	if err := s.watch(inner, time.Until(began.Add(o.runFor))); err != nil {
		return err
	}
	s.printf("done", "%d units of work, and at no time did two nodes work on one partition", s.board.done())
	return nil
}

// run runs the demo's steps.
func (s *demoRun) run(ctx context.Context) error {
	s.printf("start", "nodes a and b share %d partitions; a mark stands for two", parts)
	for _, name := range []string{"a", "b"} {
		if err := s.join(ctx, name); err != nil {
			return err
		}
	}
	if err := s.awaitBalance(ctx); err != nil {
		return err
	}
	s.printf("join", "node c comes")
	if err := s.join(ctx, "c"); err != nil {
		return err
	}
	if err := s.awaitBalance(ctx); err != nil {
		return err
	}
	if err := s.awaitVoters(ctx); err != nil {
		return err
	}
	s.printf("crash", "node a is killed; its partitions are free when its leases have ended, in %v at the latest", s.config.MaxTTL)
	if err := s.kill(s.nodes[0]); err != nil {
		return err
	}
	return s.awaitBalance(ctx)
}

// join starts a node and its worker.
func (s *demoRun) join(ctx context.Context, name string) error {
	cfg := s.config
	cfg.Name, cfg.Bind, cfg.Voters = name, "127.0.0.1:0", voters
	for _, n := range s.nodes {
		cfg.Peers = append(cfg.Peers, n.mesh.Addr())
	}
	mesh, err := lockmesh.Join(ctx, cfg)
	if err != nil {
		return err
	}
	n := &node{name: name, mesh: mesh, end: make(chan error, 1)}
	w := newWorker(mesh)
	w.work = func(p int, lease *lockmesh.Lease, enough <-chan struct{}) {
		s.board.begin(p, name, lease)
		defer s.board.end()
		workOn(lease, enough, func() error { return s.board.write(p, lease) })
	}
	working, stop := context.WithCancel(ctx)
	n.stop = stop
	go func() { n.end <- w.run(working) }()
	s.nodes = append(s.nodes, n)
	return nil
}

// kill ends a node like a crash: the other nodes get no message.
func (s *demoRun) kill(n *node) error {
	n.dead = true
	err := n.mesh.Close()
	n.stop()
	switch end := <-n.end; {
	case end == nil:
		return errors.Join(err, fmt.Errorf("the worker of node %s hasn't noticed that its node was killed", n.name))
	case !errors.Is(end, lockmesh.ErrClosed):
		return errors.Join(err, fmt.Errorf("the worker of node %s: %w", n.name, end))
	}
	return err
}

// awaitBalance waits until all partitions have workers, spread evenly, and prints pictures
// meanwhile.
func (s *demoRun) awaitBalance(ctx context.Context) error {
	names := s.alive()
	for last := ""; ; {
		has, change, wrong := s.board.snapshot()
		picture := bars(has, names)
		switch {
		case wrong != nil:
			return wrong
		case balanced(has, names):
			s.printf("even", "%s", picture)
			return nil
		case picture != last:
			s.printf("", "%s", picture)
			last = picture
		}
		if err := pause(ctx, frame); err != nil {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch goes on for a while, without any violation.
func (s *demoRun) watch(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		_, change, wrong := s.board.snapshot()
		if wrong != nil {
			return wrong
		}
		select {
		case <-change:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitVoters waits until the newest node votes, so that the mesh can lose another.
func (s *demoRun) awaitVoters(ctx context.Context) error {
	for {
		counting := 0
		for _, v := range s.nodes[0].mesh.Status().Electorate.Voters {
			if v.State == lockmesh.VoterReachable {
				counting++
			}
		}
		if counting == len(voters) {
			return nil
		}
		if err := pause(ctx, frame); err != nil {
			return err
		}
	}
}

// alive returns the names of the running nodes.
func (s *demoRun) alive() (names []string) {
	for _, n := range s.nodes {
		if !n.dead {
			names = append(names, n.name)
		}
	}
	return names
}

// end ends all nodes.
func (s *demoRun) end() error {
	var ending sync.WaitGroup
	errs := make([]error, len(s.nodes))
	for i, n := range s.nodes {
		if n.dead {
			continue
		}
		ending.Go(func() {
			n.stop()
			err := <-n.end
			ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
			defer cancel()
			errs[i] = errors.Join(err, n.mesh.Leave(ctx))
		})
	}
	ending.Wait()
	_, _, wrong := s.board.snapshot()
	return errors.Join(append(slices.Clone(errs), wrong)...)
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
