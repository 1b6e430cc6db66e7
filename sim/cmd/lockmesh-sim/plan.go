package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/sim/plan"
)

// planUsage is the part of -h about planning.
const planUsage = `With -plan it answers an operator's question instead: what would a mesh be like with so many nodes, this TTL, these links, crashes and
partitions? A scenario file says what is asked, and docs/planning.md what it may say and what the figures mean.
  go run ./sim/cmd/lockmesh-sim -plan docs/plans/rack.json                        three nodes in a rack: availability, take-over…
  go run ./sim/cmd/lockmesh-sim -plan docs/plans/rack.json -set ttl=5s -set voters=5   and what if…
`

// planning are the values of the flags about a plan.
type planning struct {
	plan string
	sets sets
	json bool

	simulate func(*plan.Scenario, plan.Progress) *plan.Report // plan.Run, except in tests
}

// sets are the values of a repeatable flag.
type sets []string

func (s *sets) String() string { return strings.Join(*s, " ") }

// Set implements flag.Value.
func (s *sets) Set(v string) error {
	*s = append(*s, v)
	return nil
}

func (p *planning) planFlags(f *flag.FlagSet) {
	p.simulate = plan.Run
	f.StringVar(&p.plan, "plan", "", "simulate the scenario in this `file`, and print figures to plan with; -seed, -set and -json go with it")
	f.Var(&p.sets, "set", "with -plan: have a `field=value` instead of the file's, such as ttl=5s or groups.west.voters=5; may stand several times")
	f.BoolVar(&p.json, "json", false, "with -plan: print the figures as JSON")
}

// checkPlan rejects flags incompatible with -plan, and flags for plans when -plan isn't set.
func (s *settings) checkPlan() error {
	if s.plan == "" {
		for _, name := range []string{"plan", "set", "json"} {
			if s.given[name] {
				return fmt.Errorf("-%s is for planning: name a scenario's file with -plan", name)
			}
		}
		return nil
	}
	var names []string
	for name := range s.given {
		if !slices.Contains([]string{"plan", "set", "json", "seed"}, name) {
			names = append(names, "-"+name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return fmt.Errorf("%s: can't be combined with -plan, since the plan has all settings; -set changes a setting, such as -set simulate.for=1h",
			strings.Join(names, ", "))
	}
	return nil
}

// runPlan simulates a scenario and prints the figures.
func (s *settings) runPlan(stdout, stderr io.Writer) error {
	f, err := os.Open(s.plan)
	if err != nil {
		return err
	}
	overrides := s.sets
	if s.given["seed"] {
		overrides = append(slices.Clone(s.sets), fmt.Sprintf("simulate.seed=%d", s.seed))
	}
	scenario, err := plan.Read(f, overrides...)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s:\n%w", s.plan, err)
	}
	r := s.simulate(scenario, s.planProgress(stderr))
	text := []byte(r.String())
	if s.json {
		if text, err = r.JSON(); err != nil {
			return err
		}
	}
	if _, err := stdout.Write(text); err != nil {
		return err
	}
	if r.Violation != nil {
		return errViolated
	}
	return nil
}

// planProgress reports the progress of a plan at intervals.
func (s *settings) planProgress(stderr io.Writer) plan.Progress {
	var mu sync.Mutex
	start := time.Now()
	last := start
	return func(simulated, of time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			took := now.Sub(start)
			left := time.Duration(float64(took) * float64(of-simulated) / float64(simulated))
			_, _ = fmt.Fprintf(stderr, "%v: %.1f of %.1f simulated hours, about %v left\n", took.Round(time.Second), simulated.Hours(), of.Hours(),
				left.Round(time.Second))
		}
	}
}
