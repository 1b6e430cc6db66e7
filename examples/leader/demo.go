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
)

const (
	// patience is how long an election may take, besides a few MaxTTL.
	patience = 30 * time.Second
	// reignTime is how long the leader leads before being killed, so users can look at its page.
	reignTime = time.Second
)

var names = []string{"a", "b", "c"}

// demo is three nodes, one of them to be killed.
type demo struct {
	nodes  []*node // the running nodes
	printf func(about, format string, args ...any)
	limit  time.Duration
}

// runDemo runs a mesh of three nodes until an interrupt or the end of -for; with -demo it kills the
// leader once.
func runDemo(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	s := &demo{printf: printer(stdout), limit: patience + 5*o.config.MaxTTL}
	// A node may crash here, and the others log the crash; the log matters only if something fails.
	var log strings.Builder
	defer func() {
		err = errors.Join(err, s.end())
		if ctx.Err() != nil {
			s.printf("stop", "interrupted")
			err = nil
		}
		if err != nil {
			_, _ = io.WriteString(stderr, log.String())
		}
	}()
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s.printf("start", "three nodes, of which one leads; each has a page that shows which")
	for _, name := range names {
		cfg := o.config
		cfg.Name, cfg.Bind, cfg.Voters, cfg.Logger = name, "127.0.0.1:0", names, logger
		for _, other := range s.nodes {
			cfg.Peers = append(cfg.Peers, other.mesh.Addr())
		}
		n, err := open(ctx, cfg, "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
		s.printf(name, "shows %s", n.page.url())
	}
	first, err := s.after(ctx, 0)
	if err != nil {
		return err
	}
	s.printf("leader", "node %s leads by token %d", first.Node, first.Token)
	if o.kill {
		if err := s.depose(ctx, first); err != nil {
			return err
		}
	}
	if o.runFor > 0 {
		err = pause(ctx, time.Until(began.Add(o.runFor)))
	} else {
		s.printf("", "Ctrl-C ends it")
		<-ctx.Done()
	}
	return err
}

// depose kills the leader, and waits until another node leads.
func (s *demo) depose(ctx context.Context, leader term) (err error) {
	if err := pause(ctx, reignTime); err != nil {
		return err
	}
	i := slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == leader.Node })
	n := s.nodes[i]
	s.nodes = slices.Delete(s.nodes, i, i+1)
	s.printf("crash", "node %s is killed; its page is gone with it", n.name)
	killed := time.Now()
	if err := n.kill(); err != nil {
		return err
	}
	// On a busy machine the leader may have lost its lease and led once more before it was killed.
	next := leader
	for next.Node == leader.Node {
		if next, err = s.after(ctx, next.Token); err != nil {
			return err
		}
	}
	s.printf("takeover", "node %s leads by token %d, %v after the crash", next.Node, next.Token, time.Since(killed).Round(time.Millisecond))
	return nil
}

// after waits until every node has seen a leader with a larger token, and returns the newest leader
// seen.
func (s *demo) after(ctx context.Context, token uint64) (term, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("no leader has been seen "+
		"within %v", s.limit))
	defer cancel()
	var found term
	for _, n := range s.nodes {
		for {
			view, change := n.board.snapshot()
			if view.Leader != nil && view.Leader.Token > token {
				found, token = *view.Leader, max(token, view.Leader.Token-1)
				break
			}
			select {
			case <-change:
			case <-n.ended:
				return term{}, fmt.Errorf("node %s can't go on: %w", n.name, n.err)
			case <-ctx.Done():
				return term{}, context.Cause(ctx)
			}
		}
	}
	return found, nil
}

// end makes all nodes leave.
func (s *demo) end() error {
	var ending sync.WaitGroup
	errs := make([]error, len(s.nodes))
	for i, n := range s.nodes {
		ending.Go(func() { errs[i] = n.leave() })
	}
	ending.Wait()
	return errors.Join(errs...)
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
