package explore

import (
	"fmt"
	"strings"
)

// Violation is a broken rule, with the steps that led to it.
type Violation struct {
	What  string
	Steps []string // see [Replay]; prompt steps aren't listed
}

func (v *Violation) Error() string {
	var b strings.Builder
	b.WriteString(v.What)
	for i, st := range v.Steps {
		fmt.Fprintf(&b, "\n%3d  %s", i+1, st)
	}
	return b.String()
}

// walk takes the chosen steps and returns the last state and the steps taken, also as text. Prompt
// steps are taken unless the chosen step delays the prompt step; an impossible step is left out.
func (x *explorer) walk(s state, n int, choose func(s *state, i int, among []Step) (Step, bool)) (last state, taken []Step, text []string, wrong string) {
	for i := range n {
		for {
			p, ok := x.prompt(&s)
			if !ok {
				break
			}
			if s.late > 0 {
				if _, late := choose(&s, i, []Step{x.delay(&s, p)}); late {
					break
				}
			}
			if wrong = x.apply(&s, p); wrong != "" {
				return s, taken, text, wrong
			}
		}
		among := x.steps(&s, nil)
		if p, ok := x.prompt(&s); ok {
			among = []Step{x.delay(&s, p)}
		}
		st, ok := choose(&s, i, among)
		if !ok {
			continue
		}
		taken, text = append(taken, st), append(text, x.describe(&s, st))
		if wrong = x.apply(&s, st); wrong != "" {
			return s, taken, text, wrong
		}
	}
	for {
		p, ok := x.prompt(&s)
		if !ok {
			return s, taken, text, ""
		}
		if wrong = x.apply(&s, p); wrong != "" {
			return s, taken, text, wrong
		}
	}
}

func (x *explorer) follow(s state, steps []Step) ([]Step, []string, string) {
	_, taken, text, wrong := x.walk(s, len(steps), func(_ *state, i int, among []Step) (Step, bool) {
		for _, st := range among {
			if st == steps[i] {
				return st, true
			}
		}
		return Step{}, false
	})
	return taken, text, wrong
}

// explain shortens a violation for readers: steps are left out for as long as a rule is still
// broken.
func (x *explorer) explain(s state, steps []Step, wrong string) *Violation {
	found := x.report
	defer func() { x.report = found }()
	best, text, what := x.follow(s, steps)
	if what == "" {
		return &Violation{What: wrong + " (but not when replayed: this is a fault of the explorer)"}
	}
	for size := len(best) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(best); {
			try := append(append([]Step(nil), best[:at]...), best[at+size:]...)
			taken, t, w := x.follow(s, try)
			if w != "" && len(taken) < len(best) {
				best, text, what, shorter = taken, t, w, true
			} else {
				at++
			}
		}
		if !shorter {
			size /= 2
		}
	}
	return &Violation{What: what, Steps: text}
}

// Replay follows the steps of a violation and returns the violation found, nil if none. Replay
// fails when a step isn't possible.
func Replay(o Options, steps []string) (*Violation, error) {
	x, err := newExplorer(o)
	if err != nil {
		return nil, err
	}
	s, err := x.begin()
	if err != nil {
		return nil, err
	}
	_, v, err := x.replay(s, steps)
	return v, err
}

func (x *explorer) replay(s state, steps []string) (state, *Violation, error) {
	last, taken, text, wrong := x.walk(s, len(steps), func(s *state, i int, among []Step) (Step, bool) { return x.parse(s, steps[i], among) })
	switch {
	case wrong != "":
		return last, &Violation{What: wrong, Steps: text}, nil
	case len(taken) < len(steps):
		return last, nil, fmt.Errorf("%d of %d steps can be taken: %q", len(taken), len(steps), text)
	}
	return last, nil, nil
}
