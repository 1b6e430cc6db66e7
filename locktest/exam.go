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

// exam is one examination. It runs one probe at a time, and owns the clients that no probe uses at the moment.
type exam struct {
	s      Service
	o      Options
	ctx    context.Context
	offers map[Capability]bool
	run    string // begins every key, so that a service that remembers an earlier examination isn't blamed for it
	report *Report
	idle   []*client
	opened int
	keys   atomic.Int64
	errs   []error // of clients that couldn't be closed
}

// client is a client of the service, with a name for findings.
type client struct {
	Client
	name string
	gone bool // crashed or left: it isn't used any more
	away bool // was cut off: how it comes back is its own affair, so no other probe has it
}

// begin makes ready to examine, and finds out what the service offers.
func begin(ctx context.Context, s Service, o Options) (*exam, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("locktest: %w", err)
	}
	x := &exam{s: s, o: o, ctx: ctx, run: "locktest/" + rand.Text()[:8] + "/", report: &Report{options: o}}
	first := x.examine(Promise{Name: "first", probe: func(p *probe) {
		g := p.lock(p.client(), p.key())
		x.offers = offers(s, g.c.Client, g.lock)
		if err := p.unlock(p.ctx, g); err != nil {
			p.fatalf("Unlock: %v", err)
		}
	}})
	x.report.Results = nil
	if first.Outcome == Broken {
		return nil, errors.Join(fmt.Errorf("locktest: a first Lock and Unlock failed, so nothing can be examined: %s", first.found()), x.end())
	}
	return x, nil
}

// end closes the clients.
func (x *exam) end() error {
	for _, c := range x.idle {
		x.close(c)
	}
	x.idle = nil
	return errors.Join(x.errs...)
}

// close ends a client. One that hangs is left behind, and told of.
func (x *exam) close(c *client) {
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	bound := time.NewTimer(x.o.Patience)
	defer bound.Stop()
	select {
	case err := <-closed:
		if err != nil {
			x.errs = append(x.errs, fmt.Errorf("locktest: closing %s: %w", c.name, err))
		}
	case <-bound.C:
		x.errs = append(x.errs, fmt.Errorf("locktest: closing %s hasn't ended after %v", c.name, x.o.Patience))
	}
}

// examine tries one promise, and reports.
func (x *exam) examine(promise Promise) Result {
	result := Result{Promise: promise, Outcome: NotOffered}
	for _, need := range promise.Needs {
		if !x.offers[need] {
			result.Missing = append(result.Missing, need)
		}
	}
	began := time.Now()
	for attempt := 0; len(result.Missing) == 0; attempt++ {
		p := newProbe(x, promise)
		p.run()
		findings, excused := p.verdict()
		if len(findings) == 0 {
			result.Outcome = Kept
			break
		}
		if excused {
			findings = append(findings, fmt.Sprintf("(attempt %d, on a machine that let a goroutine run %v late)", attempt+1, p.late.Round(time.Millisecond)))
		}
		if !excused || attempt == x.o.Repeats {
			result.Outcome, result.Findings = Broken, findings
			break
		}
		result.Excused = append(result.Excused, strings.Join(findings, "; "))
	}
	result.Took = time.Since(began)
	x.report.Results = append(x.report.Results, result)
	return result
}
