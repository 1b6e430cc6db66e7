package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// suite is a run of the suite. An exam runs a single probe at a time, and owns the clients not in
// use by a probe.
type suite struct {
	s            Service
	o            Options
	ctx          context.Context
	capabilities map[Capability]bool
	// keyPrefix is the prefix of every key, so a service that remembers an earlier run isn't
	// blamed.
	keyPrefix string
	report    *Report
	idle      []*client
	opened    int
	keys      atomic.Int64
	errs      []error // of clients that couldn't be closed
}

// client is a client of the service, with a name for findings.
type client struct {
	Client
	name    string
	stopped bool // crashed or left: the client isn't used any more
	// wasCut marks a client that was cut off, or whose service had a majority stopped: how such a
	// client recovers is up to the service, so no other probe gets the client.
	wasCut bool
}

// newSuite prepares the suite, and detects the capabilities of the service.
func newSuite(ctx context.Context, s Service, o Options) (*suite, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("locktest: %w", err)
	}
	x := &suite{s: s, o: o, ctx: ctx, keyPrefix: "locktest/" + rand.Text()[:8] + "/", report: &Report{options: o}}
	first := x.examine(Promise{Name: "first", probe: func(p *probe) {
		g := p.lock(p.client(), p.key())
		x.capabilities = capabilitiesOf(s, g.client.Client, g.lock)
		if err := p.unlock(p.ctx, g); err != nil {
			p.fatalf("Unlock: %v", err)
		}
	}})
	x.report.Results = nil
	if first.Outcome == Broken {
		return nil, errors.Join(fmt.Errorf("locktest: a first Lock and Unlock failed, so nothing can be examined: %s", first.summary()), x.end())
	}
	return x, nil
}

// end closes the clients.
func (s *suite) end() error {
	for _, c := range s.idle {
		s.close(c)
	}
	s.idle = nil
	return errors.Join(s.errs...)
}

// close ends a client. A hanging client is left behind and reported.
func (s *suite) close(c *client) {
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	bound := time.NewTimer(s.o.Timeout)
	defer bound.Stop()
	select {
	case err := <-closed:
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("locktest: closing %s: %w", c.name, err))
		}
	case <-bound.C:
		s.errs = append(s.errs, fmt.Errorf("locktest: closing %s hasn't ended after %v", c.name, s.o.Timeout))
	}
}

// examine tries a promise and records the result.
func (s *suite) examine(promise Promise) Result {
	result := Result{Promise: promise, Outcome: NotOffered}
	for _, need := range promise.Needs {
		if !s.capabilities[need] {
			result.Missing = append(result.Missing, need)
		}
	}
	began := time.Now()
	for attempt := 0; len(result.Missing) == 0; attempt++ {
		p := newProbe(s, promise)
		p.run()
		findings, excused := p.verdict()
		if len(findings) == 0 {
			result.Outcome = Kept
			break
		}
		if excused {
			findings = append(findings, fmt.Sprintf("(attempt %d, on a machine that let a goroutine run %v late)", attempt+1, p.maxDelay.Round(time.Millisecond)))
		}
		if !excused || attempt == s.o.Repeats {
			result.Outcome, result.Findings = Broken, findings
			break
		}
		result.Excused = append(result.Excused, strings.Join(findings, "; "))
	}
	result.Took = time.Since(began)
	s.report.Results = append(s.report.Results, result)
	return result
}
