package explore

import "fmt"

// Report is the result of a run.
type Report struct {
	States      int  // different states, up to an exchange of voters
	Transitions int  // steps taken from these states
	Depth       int  // all paths of so many steps have been followed, not counting late steps
	Exhausted   bool // all states within the limits have been visited
	Locals      int  // different states of single nodes
	Inputs      int  // different inputs of these states

	// How often the run met expected events, over all transitions.
	Grants, Losses, Yields, Failures, LastResorts int

	Violation *Violation // the first; nil if there is none
}

func (r *Report) String() string {
	how := "exhausted"
	if !r.Exhausted {
		how = "not exhausted"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %s; %d states of single nodes, %d inputs; %d grants, %d losses, %d yields, %d failures, %d last resorts",
		r.States, r.Transitions, r.Depth, how, r.Locals, r.Inputs, r.Grants, r.Losses, r.Yields, r.Failures, r.LastResorts)
}

func (r *Report) note(out *outcome) {
	for _, g := range out.granted {
		r.Grants += int(bit(g.token != 0))
	}
	r.Losses += int(bit(out.lost))
	r.Yields += int(bit(out.yields))
	r.Failures += int(bit(out.failed))
	r.LastResorts += int(bit(out.lastResort))
}

// Run explores everything that can happen within the limits.
func Run(o Options) (*Report, error) {
	x, err := newExplorer(o)
	if err != nil {
		return nil, err
	}
	s, err := x.begin()
	if err != nil {
		return nil, err
	}
	x.search(s)
	x.report.Locals, x.report.Inputs = len(x.locals.all)-1, len(x.locals.known)
	return &x.report, nil
}
