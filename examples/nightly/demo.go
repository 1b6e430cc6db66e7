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

// enough is how long the demo may take to show what it is to show, beyond the ticks that it needs. A busy machine may make it miss some.
const enough = 30 * time.Second

// doomed is which run of the job is cut short by the death of its node.
const doomed = 2

// show is the demo: three nodes, and what is known of their ticks.
type show struct {
	every, maxTTL time.Duration
	nodes         []*node
	news          chan report
	say           func(who, format string, args ...any)

	last   report               // the newest run that has begun
	ran    map[time.Time]string // who has begun the job of a tick
	runs   int
	dead   string    // the node that was killed; empty before
	killed time.Time // the tick in which it was
	shown  bool      // a tick after that has run
}

// node is one of the three.
type node struct {
	name string
	mesh *lockmesh.Mesh
	job  job
	stop context.CancelFunc
}

// report is an event of a node. A job that has begun waits until goOn is closed, so that the demo decides whether its node lives to finish it.
type report struct {
	event
	node *node
	goOn chan struct{}
}

// demo starts three nodes, kills the one that runs the job the second time, and goes on until a later tick has run.
func demo(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	s := &show{every: o.every, maxTTL: cmp.Or(o.config.MaxTTL, lockmesh.DefaultMaxTTL), news: make(chan report), say: teller(stdout), ran: make(map[time.Time]string)}
	limit := enough + 8*o.every + o.runFor
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not shown everything within %v", limit))
	var log strings.Builder // a node dies in this demo, and the others log it; that is of interest only if something fails
	defer func() {
		cancel()
		err = errors.Join(err, s.end())
		if ctx.Err() != nil {
			s.say("stop", "interrupted")
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
func (s *show) open(ctx context.Context, o *options, logger *slog.Logger) error {
	s.say("start", "three nodes start one job every %v; one of them is to run it", s.every)
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
	s.say("", "the clock of node c is %v late: it asks when the job is done", late.late)
	if err := s.nodes[0].mesh.Ready(ctx); err != nil {
		return fmt.Errorf("no majority of voters: %w", err)
	}
	for _, n := range s.nodes {
		jobs, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		n.stop = func() { stop(); <-ended }
		go func() {
			defer close(ended)
			_ = n.job.run(jobs) // it ends early where the node was killed; of everything else there are reports
		}()
	}
	return nil
}

// newNode makes the job of a node.
func (s *show) newNode(mesh *lockmesh.Mesh) *node {
	n := &node{name: mesh.Name(), mesh: mesh, stop: func() {}}
	var goOn chan struct{} // of the run under way
	n.job = job{mesh: mesh, every: s.every, maxTTL: s.maxTTL}
	n.job.tell = func(e event) {
		r := report{event: e, node: n, goOn: make(chan struct{})}
		goOn = r.goOn
		s.news <- r // the demo takes all reports until every job has ended
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

// watch prints what the nodes report, checks it, and returns when all was shown and the time is over.
func (s *show) watch(ctx context.Context, atLeast time.Duration) error {
	over := time.NewTimer(atLeast)
	defer over.Stop()
	for late := false; !late || !s.shown; {
		select {
		case r := <-s.news:
			if err := s.take(r); err != nil {
				return err
			}
		case <-over.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.say("done", "%d runs, and no tick was run twice", s.runs)
	return nil
}

// take is one report.
func (s *show) take(r report) error {
	s.say(r.node.name, "%s", r.event)
	switch r.what {
	case done:
		s.shown = s.shown || s.dead != "" && r.tick.After(s.killed)
	case began:
		if err := s.check(r); err != nil {
			return err
		}
		if s.runs != doomed {
			close(r.goOn)
			break
		}
		s.dead, s.killed = r.node.name, r.tick
		s.say("crash", "node %s is killed in the middle of the job", s.dead)
		if err := r.node.mesh.Close(); err != nil {
			return err
		}
	}
	return nil
}

// check looks at a run that has begun: nobody else may have run its tick, and its token must be larger than any before.
func (s *show) check(r report) error {
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
func (s *show) end() error {
	var ending sync.WaitGroup
	errs := make([]error, len(s.nodes))
	for i, n := range s.nodes {
		ending.Go(func() {
			n.stop()
			ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
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
		case r := <-s.news: // of a job that was under way
			if r.what == began {
				close(r.goOn)
			}
		case <-all:
			return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
		}
	}
}
