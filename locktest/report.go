package locktest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is what has become of a promise.
type Outcome string

// The outcomes.
const (
	// Kept : the service was tried, and did what it should.
	Kept Outcome = "kept"
	// Broken : it did something else. [Result].Findings say what.
	Broken Outcome = "broken"
	// NotOffered : the service, or its adapter, hasn't what the promise is about.
	NotOffered Outcome = "not offered"
)

func (o Outcome) valid() bool { return o == Kept || o == Broken || o == NotOffered }

// Result is what the examination of one promise has found.
type Result struct {
	Promise Promise
	Outcome Outcome
	// Missing are the capabilities that the promise needs and the service doesn't offer.
	Missing []Capability
	// Findings say how the promise was broken, the first few times.
	Findings []string
	// Excused are the findings of attempts that don't count, since the machine was too busy; see [Options].Repeats. The last attempt counts.
	Excused []string
	// Took is how long the examination took.
	Took time.Duration
}

// String is the outcome and what it rests on, in a line or a few.
func (r Result) String() string { return fmt.Sprintf("%s: %s", r.Outcome, r.found()) }

// found is what a result rests on, in one line of text or a few.
func (r Result) found() string {
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

// Report has the results of one examination, in the order of [Promises]. The caller owns it.
type Report struct {
	Results []Result
	options Options
}

// Result returns the result for a promise by its name. It reports false if that wasn't examined.
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

// Complaints say which results aren't as [Options].Expect has them, or, without that, which promises are broken. None is good.
func (r *Report) Complaints() []string {
	var all []string
	for _, x := range r.Results {
		if text := r.options.complaint(x); text != "" {
			all = append(all, x.Promise.Name+": "+text)
		}
	}
	return all
}

// String is the report as a table for people: one line for each promise, and the findings below the broken ones.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d promises kept, %d broken, %d not offered", len(r.Names(Kept)), len(r.Names(Broken)), len(r.Names(NotOffered)))
	for _, x := range r.Results {
		fmt.Fprintf(&b, "\n%-11s  %-22s  %s", x.Outcome, x.Promise.Name, strings.ReplaceAll(x.found(), "\n", "\n    "))
		if want := r.options.expected(x.Promise.Name); want.Why != "" {
			b.WriteString("\n    known: " + want.Why)
		}
	}
	return b.String()
}
