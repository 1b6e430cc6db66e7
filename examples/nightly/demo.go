package main

import (
	"cmp"
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

// demoTimeout is how long the demo may take beyond its ticks. A busy machine may make the demo miss
// some ticks.
const demoTimeout = 30 * time.Second

// crashRuns is the number of the run cut short by the crash of its node.
const crashRuns = 2

// demoRun is the demo: three nodes, and what is known of their ticks.
type demoRun struct {
	every, maxTTL time.Duration
	nodes         []*node
	reports       chan report
	printf        func(who, format string, args ...any)

	last   report               // the newest run that has begun
	ran    map[time.Time]string // the node that has begun the job of a tick
	runs   int
	dead   string    // the killed node; empty before
	killed time.Time // the tick of the crash
	shown  bool      // a tick after the crash has run
}

// node is one of the three nodes.
type node struct {
	name string
	mesh *lockmesh.Mesh
	job  job
	stop context.CancelFunc
}

// report is an event of a node. A started job waits until advance is closed, so that the demo
// decides whether the job's node survives to finish the job.
type report struct {
	event
	node   *node
	resume chan struct{}
}

// demo starts three nodes, kills the node that runs the job the second time, and goes on until a
// later tick has run.
func demo(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	s := &demoRun{every: o.every, maxTTL: cmp.Or(o.config.MaxTTL, lockmesh.DefaultMaxTTL), reports: make(chan report), printf: printer(stdout), ran: make(map[time.Time]string)}
	limit := demoTimeout + 8*o.every + o.runFor
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not shown everything within %v", limit))
	// A node crashes in this demo, and the others log the crash; the log matters only if something
	// fails.
	var log strings.Builder
	defer func() {
		cancel()
		err = errors.Join(err, s.end())
		if ctx.Err() != nil {
			s.printf("stop", "interrupted")
			err = nil
		}
		if err != nil {
			_, _ = io.WriteString(stderr, log.String())
		}
	}()
	if err := s.open(inner, o, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		return err
	}
	return s.watch(inner, o.runFor)
}

// open starts the nodes, and waits until locks can be granted.
func (s *demoRun) open(ctx context.Context, o *options, logger *slog.Logger) error {
	s.printf("start", "three nodes start one job every %v; one of them is to run it", s.every)
	for _, name := range []string{"a", "b", "c"} {
		cfg := lockmesh.Config{Name: name, Bind: "127.0.0.1:0", Voters: []string{"a", "b", "c"}, MaxTTL: o.config.MaxTTL, Logger: logger}
		for _, other := range s.nodes {
			cfg.Peers = append(cfg.Peers, other.mesh.Addr())
		}
		mesh, err := lockmesh.Join(ctx, cfg)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, s.newNode(mesh))
	}
	late := &s.nodes[2].job
	late.late = s.every / 8
	s.printf("", "the clock of node c is %v late: it asks when the job is done", late.late)
	if err := s.nodes[0].mesh.Ready(ctx); err != nil {
		return fmt.Errorf("no majority of voters: %w", err)
	}
	for _, n := range s.nodes {
		jobs, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		n.stop = func() { stop(); <-ended }
		go func() {
			defer close(ended)
			// run ends early where the node was killed; everything else was reported.
			_ = n.job.run(jobs)
		}()
	}
	return nil
}

// newNode makes the job of a node.
func (s *demoRun) newNode(mesh *lockmesh.Mesh) *node {
	n := &node{name: mesh.Name(), mesh: mesh, stop: func() {}}
	var goOn chan struct{} // of the run under way
	n.job = job{mesh: mesh, every: s.every, maxTTL: s.maxTTL}
	n.job.report = func(e event) {
		r := report{event: e, node: n, resume: make(chan struct{})}
		goOn = r.resume
		s.reports <- r // the demo takes all reports until every job has ended
	}
	n.job.work = func(ctx context.Context, _ time.Time, _ uint64) error {
		select {
		case <-goOn:
			return writeReport(ctx, s.every)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return n
}

// watch prints and checks the nodes' reports, and returns when everything was shown and the time is
// over.
func (s *demoRun) watch(ctx context.Context, atLeast time.Duration) error {
	over := time.NewTimer(atLeast)
	defer over.Stop()
	for late := false; !late || !s.shown; {
		select {
		case r := <-s.reports:
			if err := s.take(r); err != nil {
				return err
			}
		case <-over.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.printf("done", "%d runs, and no tick was run twice", s.runs)
	return nil
}

// take handles a report.
func (s *demoRun) take(r report) error {
	s.printf(r.node.name, "%s", r.event)
	switch r.what {
	case done:
		s.shown = s.shown || s.dead != "" && r.tick.After(s.killed)
	case began:
		if err := s.check(r); err != nil {
			return err
		}
		if s.runs != crashRuns {
			close(r.resume)
			break
		}
		s.dead, s.killed = r.node.name, r.tick
		s.printf("crash", "node %s is killed in the middle of the job", s.dead)
		if err := r.node.mesh.Close(); err != nil {
			return err
		}
	}
	return nil
}

// check checks a run that has begun: no other node may have run its tick, and its token must be
// larger than any before.
func (s *demoRun) check(r report) error {
	if who, twice := s.ran[r.tick]; twice {
		return fmt.Errorf("the job of %s was run by node %s and by node %s", clock(r.tick), who, r.node.name)
	}
	if r.token <= s.last.token {
		return fmt.Errorf("node %s has token %d, which isn't larger than %d, the one before", r.node.name, r.token, s.last.token)
	}
	s.ran[r.tick], s.last = r.node.name, r
	s.runs++
	return nil
}

// end ends all jobs and nodes.
func (s *demoRun) end() error {
	var ending sync.WaitGroup
	errs := make([]error, len(s.nodes))
	for i, n := range s.nodes {
		ending.Go(func() {
			n.stop()
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			if err := n.mesh.Leave(ctx); n.name != s.dead {
				errs[i] = err
			}
		})
	}
	all := make(chan struct{})
	go func() {
		ending.Wait()
		close(all)
	}()
	for {
		select {
		case r := <-s.reports: // of a job under way
			if r.what == began {
				close(r.resume)
			}
		case <-all:
			return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
		}
	}
}
