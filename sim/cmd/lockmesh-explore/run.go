package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/sim/explore"
)

// errViolated reports a broken rule. The report has been printed by then.
var errViolated = errors.New("something was violated")

const (
	// progressEvery is the interval between progress reports.
	progressEvery = 3 * time.Second
	// memoryLimit is where the garbage collector begins to work harder, and memoryMost where a
	// scope is given up.
	memoryLimit = 3 << 30
	memoryMost  = 7 << 29
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.run(ctx, stdout, stderr)
}

// session is the set of all scopes of one call.
type session struct {
	*settings
	stdout, stderr     io.Writer
	began              time.Time
	said               time.Time // when progress was last reported
	ended              string    // why the current scope wasn't exhausted
	met, transitions   int       // of all scopes
	visited, exhausted int       // scopes
}

func (s *settings) run(ctx context.Context, stdout, stderr io.Writer) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	// Most of the memory in use stays in use to the end.
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	ctx, cancel := context.WithTimeout(ctx, s.length)
	defer cancel()
	r := &session{settings: s, stdout: stdout, stderr: stderr, began: time.Now(), said: time.Now()}
	switch {
	case s.births:
		return r.runBirths(ctx)
	case s.changes.on:
		return r.runChanges(ctx)
	}
	var done, tooWide []scope
	for c := range s.scopes() {
		if ctx.Err() != nil {
			break
		}
		within := func(d scope) bool { return d.contains(c) }
		if slices.ContainsFunc(tooWide, c.contains) || slices.ContainsFunc(done, within) {
			continue
		}
		exhausted, err := r.explore(ctx, c)
		if err != nil {
			return err
		}
		if exhausted {
			done = append(done, c)
		} else {
			tooWide = append(tooWide, c)
		}
	}
	return r.report(ctx)
}

// explore visits one scope and prints the result. It reports whether the scope was exhausted.
func (r *session) explore(ctx context.Context, c scope) (exhausted bool, err error) {
	o := c.options()
	o.Build = r.build
	o.MaxStates = r.states
	began := time.Now()
	r.ended = ""
	o.Stop = func(p explore.Progress) bool { return r.look(ctx, c.String(), began, p.States, p.Depth, p.Waiting) }
	rep, err := explore.Run(o)
	if err != nil {
		return false, err
	}
	err = r.tell(c.String(), began, rep.States, rep.Transitions, rep.Depth, rep.Exhausted, rep.Violation != nil)
	if err == nil && rep.Violation != nil {
		_, err = fmt.Fprintf(r.stdout, "\nVIOLATION of %v\n", rep.Violation)
		if err == nil {
			err = errViolated
		}
	}
	return rep.Exhausted, err
}

// tell prints the result of a scope, and counts the scope.
func (r *session) tell(name string, began time.Time, states, transitions, depth int, exhausted, violated bool) error {
	r.visited++
	r.met += states
	r.transitions += transitions
	how := "exhausted"
	switch {
	case violated:
		how = "VIOLATED"
	case exhausted:
		r.exhausted++
	default:
		how = "not exhausted: " + r.ended
		if r.ended == "" {
			how = fmt.Sprintf("not exhausted: the limit of %d states is reached; -states sets it", r.states)
		}
	}
	_, err := fmt.Fprintf(r.stdout, "%s: %d states, %d transitions, depth %d, %.1f s, %s\n", name, states, transitions, depth, time.Since(began).Seconds(), how)
	return err
}

// look is called at intervals. It prints the scope's progress, and reports whether the scope must
// end.
func (r *session) look(ctx context.Context, name string, began time.Time, states, depth, waiting int) (stop bool) {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		r.ended = "the time is over; -for sets it"
	case err != nil:
		r.ended = "interrupted"
	}
	if r.ended != "" {
		return true
	}
	if time.Since(r.said) < progressEvery {
		return false
	}
	r.said = time.Now()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	used := m.Sys - m.HeapReleased
	_, _ = fmt.Fprintf(r.stderr, "%v: %s: %d states, depth %d, queue %d, %.0f states/s, %d MB\n", time.Since(r.began).Round(time.Second), name,
		states, depth, waiting, float64(states)/time.Since(began).Seconds(), used>>20)
	if m.HeapAlloc > memoryMost {
		r.ended = fmt.Sprintf("its memory, %d MB, is above the limit of %d MB", m.HeapAlloc>>20, memoryMost>>20)
		return true
	}
	return false
}

// report prints the summary.
func (r *session) report(ctx context.Context) error {
	why := "nothing is left to explore"
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		why = "the time is over"
	case err != nil:
		why = "interrupted"
	}
	_, err := fmt.Fprintf(r.stdout, "no violation in %d states and %d transitions of %d scopes, %d of them exhausted, in %.1f s; %s\n",
		r.met, r.transitions, r.visited, r.exhausted, time.Since(r.began).Seconds(), why)
	return err
}
