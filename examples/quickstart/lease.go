package main

import (
	"context"
	"fmt"
	"time"
)

// holdOnce waits for the next lease and has the worker unlock after a while.
func (s *demo) holdOnce(ctx context.Context, d time.Duration) (grant, error) {
	g, err := s.nextGrant(ctx)
	if err != nil {
		return g, err
	}
	return g, s.release(ctx, g, d)
}

// nextGrant waits for the next lease, prints it, and checks that the previous lease has ended and
// had a smaller token.
func (s *demo) nextGrant(ctx context.Context) (grant, error) {
	select {
	case g := <-s.grants:
		s.printf("lease", "node %s   token %d   until %s unless renewed", g.node.name, g.lease.Token(), clock(g.lease.Deadline()))
		last := s.last
		s.last = g.lease
		switch {
		case last == nil:
		case last.Err() == nil:
			return g, fmt.Errorf("node %s has got the lock while the lease with token %d is still held", g.node.name, last.Token())
		case g.lease.Token() <= last.Token():
			return g, fmt.Errorf("the token of node %s is not larger than %d, the one before", g.node.name, last.Token())
		}
		return g, nil
	case <-ctx.Done():
		return grant{}, context.Cause(ctx)
	}
}

// release lets the worker unlock after a while. The lease may be lost by then, if the machine was
// so busy that the node didn't run for a second or more; then the worker locks again.
func (s *demo) release(ctx context.Context, g grant, d time.Duration) error {
	if err := pause(ctx, d); err != nil {
		return err
	}
	if err := g.lease.Err(); err != nil {
		s.printf("lost", "node %s: %v", g.node.name, err)
	}
	close(g.resume)
	return nil
}

// pause waits, unless the story ends first.
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

// printf prints a line: the time since the start, the subject, and the text.
func (s *demo) printf(about, format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%6.2fs  %-9s %s\n", time.Since(s.start).Seconds(), about, fmt.Sprintf(format, args...))
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
