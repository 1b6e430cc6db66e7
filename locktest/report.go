package locktest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of examining a promise.
type Outcome string

// The outcomes.
const (
	// Kept means: the service was tried, and did as promised.
	Kept Outcome = "kept"
	// Broken means: the service did something else. [Result].Findings say what.
	Broken Outcome = "broken"
	// NotOffered means: the service, or its adapter, lacks a feature needed for the promise.
	NotOffered Outcome = "not offered"
)

func (o Outcome) valid() bool { return o == Kept || o == Broken || o == NotOffered }

// Result is the result for a single promise.
type Result struct {
	Promise Promise
	Outcome Outcome
	// Missing are the needed capabilities that the service doesn't offer.
	Missing []Capability
	// Findings say how the promise was broken, the first few times.
	Findings []string
	// Excused are the findings of attempts that don't count because the machine was too busy; see
	// [Options].Repeats. The last attempt always counts.
	Excused []string
	// Took is how long the examination took.
	Took time.Duration
}

// String returns the outcome and the evidence, in a few lines at most.
func (r Result) String() string { return fmt.Sprintf("%s: %s", r.Outcome, r.summary()) }

// summary returns the evidence for the outcome, in a few lines of text at most.
func (r Result) summary() string {
	switch r.Outcome {
	case Broken:
		return strings.Join(r.Findings, "\n")
	case NotOffered:
		missing := make([]string, len(r.Missing))
		for i, c := range r.Missing {
			missing[i] = string(c)
		}
		return "it lacks " + strings.Join(missing, " and ")
	default:
		text := r.Promise.Text
		for _, e := range r.Excused {
			text += "\nexcused: " + e
		}
		return text
	}
}

// Report has the results of a run of the suite, in the order of [Promises]. The caller owns the
// report.
type Report struct {
	Results []Result
	options Options
}

// Result returns the result for a promise by its name, and false if the promise wasn't examined.
func (r *Report) Result(name string) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Promise.Name == name })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// Names returns the names of the promises with an outcome.
func (r *Report) Names(o Outcome) []string {
	var names []string
	for _, x := range r.Results {
		if x.Outcome == o {
			names = append(names, x.Promise.Name)
		}
	}
	return names
}

// Mismatches lists the results contradicting [Options].Expect, or, where Expect is nil, the broken
// promises. An empty list is good.
func (r *Report) Mismatches() []string {
	var all []string
	for _, x := range r.Results {
		if text := r.options.mismatch(x); text != "" {
			all = append(all, x.Promise.Name+": "+text)
		}
	}
	return all
}

// String returns the report as a table for human readers: a line for each promise, with the
// findings below the broken promises.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d promises kept, %d broken, %d not offered", len(r.Names(Kept)), len(r.Names(Broken)), len(r.Names(NotOffered)))
	for _, x := range r.Results {
		fmt.Fprintf(&b, "\n%-11s  %-22s  %s", x.Outcome, x.Promise.Name, strings.ReplaceAll(x.summary(), "\n", "\n    "))
		if want := r.options.expected(x.Promise.Name); want.Reason != "" {
			b.WriteString("\n    known: " + want.Reason)
		}
	}
	return b.String()
}
