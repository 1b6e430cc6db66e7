package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// run measures everything requested. Even if run ends early, the measurements so far are reported.
func run(ctx context.Context, o *options, out io.Writer) error {
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	r := newResults()
	r.Machine = machine(ctx, o)
	start := time.Now()
	err := measure(ctx, o, r)
	logf("measured for %v", time.Since(start).Round(time.Second))
	return errors.Join(err, writeReport(r, o, out))
}

func measure(ctx context.Context, o *options, r *results) error {
	all := compare(ctx, o, r)
	if o.does(wMemory) && ctx.Err() == nil {
		if err := memory(ctx, o, r); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", wMemory, err))
		}
	}
	if o.does(wEmbed) && ctx.Err() == nil {
		if err := embed(ctx, o, r); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", wEmbed, err))
		}
	}
	return all
}

// compare measures the workloads common to all services.
func compare(ctx context.Context, o *options, r *results) error {
	if !o.does(wLatency) && !o.does(wThroughput) && !o.does(wHandover) && !o.does(wLocal) && !o.does(wHold) {
		return nil
	}
	f := &fleet{}
	defer f.close()
	logf("starting %v; voters of lockmesh are quiet for %v", o.services, o.ttl)
	services, err := startServices(ctx, f, o)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		return fmt.Errorf("of %v nothing can be started here, so there is nothing to measure", o.services)
	}
	c := &benchmark{options: o, results: r, services: services}
	rounds := o.rounds
	if !o.does(wLatency) && !o.does(wThroughput) && !o.does(wHandover) && !o.does(wLocal) {
		rounds = 0
	}
	for c.round = range rounds {
		logf("round %d of %d", c.round+1, o.rounds)
		for _, step := range []struct {
			name string
			do   func(context.Context, *service) error
		}{{wLatency, c.latency}, {wThroughput, c.throughput}, {wHandover, c.handover}, {wLocal, c.local}} {
			if !o.does(step.name) {
				continue
			}
			if err := c.forEachService(ctx, step.name, step.do); err != nil {
				return err
			}
		}
	}
	if o.does(wHold) {
		if err := c.hold(ctx); err != nil {
			c.failures = append(c.failures, err)
		}
	}
	return errors.Join(c.failures...)
}

// benchmark is a run of all rounds.
type benchmark struct {
	*options
	*results
	services []*service
	round    int
	failures []error
}

func (c *benchmark) forEachService(ctx context.Context, workload string, do func(context.Context, *service) error) error {
	for _, s := range c.services {
		err := do(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil { // the other services can still be measured
			err = fmt.Errorf("%s of %s: %w", workload, s.name, err)
			logf("  !!!! %v", err)
			c.failures = append(c.failures, err)
		}
	}
	return nil
}

// name returns a short, unused prefix for keys. Each service has its own prefix, too: some services
// share servers, where waiters that gave up may leave something behind.
func (c *benchmark) name(what string, s *service) string {
	return fmt.Sprintf("%s%d.%d", what, slices.Index(serviceNames, s.name), c.round)
}

// logf reports progress to human readers.
func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// sharedDir makes a folder for files shared by processes, in memory if parent is.
func sharedDir(parent string) (dir string, err error) {
	if dir, err = os.MkdirTemp(parent, "lockbench-"); err != nil {
		return "", err
	}
	return filepath.Clean(dir), nil
}
