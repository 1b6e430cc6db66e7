package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// errViolated means that a world has failed. The report has been printed by then.
var errViolated = errors.New("something was violated")

// slice is how much of a world runs between two checks of the wall clock.
const slice = time.Second

// progressEvery is the interval between progress reports of a long run.
const progressEvery = 2 * time.Second

func run(args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.plan != "" {
		return s.runPlan(stdout, stderr)
	}
	return s.run(stdout, stderr)
}

// failure is a failed seed.
type failure struct {
	seed   uint64
	err    error
	lasted time.Duration
}

// session is the set of all worlds of one call.
type session struct {
	*settings
	tally  sim.Tally
	next   atomic.Uint64 // the next seed's distance from the first
	done   atomic.Uint64
	events atomic.Uint64
	nanos  atomic.Int64 // simulated

	mu     sync.Mutex
	failed *failure      // of the least seed
	first  time.Duration // the duration of the first seed's world
	err    error         // from writing a file
}

func (s *settings) run(stdout, stderr io.Writer) error {
	r := &session{settings: s}
	start := time.Now()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if s.long > 0 {
		s.seeds = max(math.MaxUint64-s.seed, 1)
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, s.long)
		defer end()
	}
	finished, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r.progress(stderr, start, finished)
	}()
	var workers sync.WaitGroup
	for range min(s.seeds, uint64(runtime.GOMAXPROCS(0))) {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	close(finished)
	<-stopped
	if r.err != nil {
		return r.err
	}
	return r.report(stdout, stderr, time.Since(start))
}

// work runs seeds until none is left, one has failed or ctx ends. Seeds are started in order, so
// the least failing seed is always found.
func (r *session) work(ctx context.Context) {
	for ctx.Err() == nil {
		n := r.next.Add(1) - 1
		r.mu.Lock()
		over := n >= r.seeds || r.failed != nil || r.err != nil
		r.mu.Unlock()
		if over {
			return
		}
		if err := r.world(r.seed + n); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			return
		}
		r.done.Add(1)
	}
}

// world runs one seed. The returned error is from writing a file.
func (r *session) world(seed uint64) (err error) {
	o := r.options(seed)
	if r.trace != "" {
		flush, err := create(r.trace, func(out io.Writer) error { o.Trace = out; return nil })
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, flush()) }()
	}
	busy := time.Now()
	w := sim.New(o)
	var events uint64
	count := func(d time.Duration) {
		n := w.Figures().Events
		r.events.Add(n - events)
		events = n
		r.nanos.Add(int64(d))
	}
	for left := duration(r.seconds); left > 0 && w.Err() == nil; left -= slice {
		w.Run(min(left, slice))
		count(min(left, slice))
	}
	faulty := w.Now()
	violation := w.Settle()
	count(w.Now() - faulty)
	r.tally.Add(w.Figures(), time.Since(busy))
	r.mu.Lock()
	defer r.mu.Unlock()
	if seed == r.seed {
		r.first = w.Now()
	}
	if violation != nil && (r.failed == nil || seed < r.failed.seed) {
		r.failed = &failure{seed, violation, w.Now()}
	}
	return nil
}

// progress reports the progress at intervals.
func (r *session) progress(stderr io.Writer, start time.Time, finished <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			simulated := time.Duration(r.nanos.Load())
			of := ""
			if r.long == 0 {
				of = fmt.Sprintf(" of %d", r.seeds)
			}
			_, _ = fmt.Fprintf(stderr, "%v: %d%s worlds done, %.2f simulated hours, %.0f events a second\n", time.Since(start).Round(time.Second),
				r.done.Load(), of, simulated.Hours(), float64(r.events.Load())/time.Since(start).Seconds())
		}
	}
}

// report prints the summary, draws the picture, and prints how to reproduce a failure.
func (r *session) report(stdout, stderr io.Writer, took time.Duration) error {
	var b strings.Builder
	b.WriteString(r.tally.String())
	fmt.Fprintf(&b, "%-22s %14.1f\n", "seconds it took", took.Seconds())
	seed, lasted, violated := r.seed, r.first, time.Duration(-1)
	if f := r.failed; f != nil {
		seed, lasted = f.seed, f.lasted
		var v *sim.Violation
		if errors.As(f.err, &v) {
			violated = v.At
		}
	}
	if r.svg != "" {
		from, to, err := r.draw(seed, lasted, violated)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%-22s %s: seed %d, from %v to %v\n", "picture", r.svg, seed, from, to)
	}
	verdict := error(nil)
	if f := r.failed; f != nil {
		fmt.Fprintf(&b, "\nVIOLATION in seed %d: %v\nto see it again: %s\n", f.seed, f.err, r.replay(f.seed))
		if r.shrink == "" && !r.changesVoters() {
			fmt.Fprintf(&b, "to shrink it:    %s\n", sim.ShrinkCommand(f.seed, duration(r.seconds), r.drawing()...))
		}
		verdict = errViolated
	} else {
		fmt.Fprintf(&b, "no violation in %d worlds, from seed %d on\n", r.done.Load(), r.seed)
		if r.shrink != "" {
			b.WriteString("there is nothing to shrink\n")
		}
	}
	if _, err := io.WriteString(stdout, b.String()); err != nil {
		return err
	}
	if r.failed != nil && r.shrink != "" {
		if err := r.reduce(stdout, stderr, r.failed); err != nil {
			return err
		}
	}
	return verdict
}

// draw runs a seed again, with the same result, and this time records the run: the section to show
// is known only after the first run.
func (r *session) draw(seed uint64, lasted, violated time.Duration) (from, to time.Duration, err error) {
	from, to = r.window(lasted, violated)
	if from >= lasted {
		return 0, 0, fmt.Errorf("-from %v: the run lasted only %v s, so there is nothing to show", from.Seconds(), lasted.Seconds())
	}
	to = min(to, lasted)
	o := r.options(seed)
	o.Picture = &timeline.Recording{From: from, To: to}
	w := sim.New(o)
	w.Run(duration(r.seconds))
	if to > duration(r.seconds) || violated >= 0 {
		_ = w.Settle() // its violation is known
	}
	flush, err := create(r.svg, w.WritePicture)
	if err != nil {
		return 0, 0, err
	}
	return from, to, flush()
}

// create makes a file and has f write to it. The returned flush writes the rest and closes the
// file.
func create(name string, f func(io.Writer) error) (flush func() error, err error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriter(file)
	if err := f(b); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error { return errors.Join(b.Flush(), file.Close()) }, nil
}
