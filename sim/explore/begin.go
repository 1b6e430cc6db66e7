package explore

import "fmt"

// proceed executes a step, and then all prompt steps.
func (x *explorer) proceed(s *state, st Step) string {
	wrong := x.apply(s, st)
	for wrong == "" {
		p, ok := x.prompt(s)
		if !ok {
			break
		}
		wrong = x.apply(s, p)
	}
	return wrong
}

// begin returns the first state: all nodes are up and linked, and all voters count (or, with
// Options.Cold, all nodes start now), and the steps of Options.Begin have been taken.
func (x *explorer) begin() (state, error) {
	s, wrong := x.warm()
	for c, n := range x.o.Locks {
		s.locks[c] = uint8(n)
	}
	s.ticks, s.breaks, s.crashes, s.late = uint8(x.o.Ticks), uint8(x.o.Breaks), uint8(x.o.Crashes), uint8(x.o.Late)
	if wrong != "" {
		return s, fmt.Errorf("before the first step: %s", wrong)
	}
	s, v, err := x.replay(s, x.o.Begin)
	if v != nil {
		err = v
	}
	x.report = Report{}
	return s, err
}

func (x *explorer) warm() (s state, wrong string) {
	s.ticks = 200
	do := func(st Step) {
		if wrong == "" {
			wrong = x.proceed(&s, st)
		}
	}
	for n := range x.names {
		do(Step{kind: stepStart, a: uint8(n)})
	}
	if x.o.Cold {
		return s, wrong
	}
	for ready := false; !ready && wrong == ""; {
		for again := true; again; {
			again = false
			for _, st := range x.steps(&s, nil) {
				if st.kind == stepLink || st.kind == stepDeliver {
					do(st)
					again = wrong == ""
					break
				}
			}
		}
		ready = true
		for v := range x.o.Voters {
			ready = ready && wrong == "" && x.locals.all[s.nodes[v]].host.m.Voter().Quiet() == 0
		}
		do(Step{kind: stepTick}) // clients learn that voters count
		if s.tick > 50 {
			wrong = "the voters don't come to count"
		}
	}
	return s, wrong
}
