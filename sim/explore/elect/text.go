package elect

import (
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Report is the result of a run.
type Report struct {
	States      int // different states
	Transitions int // steps taken from these states
	Depth       int // all paths of so many steps have been followed
	Cut         int // states not followed, since a ballot's number was above the limit
	Exhausted   bool
	Joint       int // states with a decided joint electorate
	Final       int // states with a decided final electorate
	Back        int // states with the old voters restored
	Locals      int // different states of single nodes
	Inputs      int // different inputs of these states

	Violation *Violation // the first; nil if there is none
}

func (r *Report) String() string {
	how := "exhausted"
	if !r.Exhausted {
		how = "not exhausted"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %s, %d not followed; joint electorate decided in %d, final one in %d, of which back to the old voters in %d; %d states of single nodes, %d inputs",
		r.States, r.Transitions, r.Depth, how, r.Cut, r.Joint, r.Final, r.Back, r.Locals, r.Inputs)
}

// Violation is a broken rule, with the steps that led to it.
type Violation struct {
	What  string
	Steps []string
}

func (v *Violation) String() string {
	var b strings.Builder
	b.WriteString(v.What)
	for i, s := range v.Steps {
		fmt.Fprintf(&b, "\n%4d  %s", i+1, s)
	}
	return b.String()
}

// explain returns the steps as text for people.
func (x *explorer) explain(w world, steps []step, what string) *Violation {
	v := &Violation{What: what}
	for _, s := range steps {
		v.Steps = append(v.Steps, x.stepText(&w, s))
		_ = x.apply(&w, s) // the last step violates a rule
		x.tidy(&w)
	}
	return v
}

func (x *explorer) stepText(w *world, s step) string {
	a, b := nodeName(int(s.a)), nodeName(int(s.b))
	switch s.what {
	case stepPropose:
		return "propose " + x.proposals[s.n].text
	case stepAsk:
		_, msg := w.asks[s.a][s.b].at(int(s.n))
		return fmt.Sprintf("%s > %s  [%s]", a, b, messageText(&x.messages[msg]))
	case stepAnswer:
		_, msg := w.tells[s.a][s.b].at(0)
		return fmt.Sprintf("%s > %s  [%s]", a, b, messageText(&x.messages[msg]))
	case stepTell:
		return fmt.Sprintf("%s tells %s of electorate %d: %s", a, b, x.values[s.n].Version, electorateText(&x.values[s.n]))
	case stepReport:
		return fmt.Sprintf("%s reports to %s", a, b)
	case stepSaved:
		return fmt.Sprintf("%s has saved  [%s]", a, diskText(&x.disks[x.locals[w.nodes[s.a].local].saving]))
	case stepFails:
		return fmt.Sprintf("%s can't save", a)
	case stepCrash:
		if s.n == 1 {
			return fmt.Sprintf("%s crashes, just after its save", a)
		}
		return fmt.Sprintf("%s crashes", a)
	case stepStart:
		return fmt.Sprintf("%s starts", a)
	case stepCut:
		return fmt.Sprintf("%s's connection to %s breaks", a, b)
	case stepIdle:
		return fmt.Sprintf("%s idles for half a TTL", a)
	}
	if s.what == stepWait {
		return "so much time passes that the old voters may go back"
	}
	return "a drain passes"
}

func votersText(all []vote.Elector) string {
	var b strings.Builder
	for _, v := range all {
		b.WriteString(string(v.Name))
	}
	return b.String()
}

func electorateText(e *vote.Electorate) string {
	if e.Joint() {
		return votersText(e.Old) + " and " + votersText(e.Voters)
	}
	return votersText(e.Voters)
}

func ballotText(a vote.Ballot) string {
	if a.Counter == 0 {
		return "none"
	}
	k := int(a.By) % incarnationStride
	if k = min(k, incarnationStride-k); k == 1 {
		return fmt.Sprintf("%d%s", a.Counter, nodeName(int(a.By)/incarnationStride))
	}
	return fmt.Sprintf("%d%s'%d", a.Counter, nodeName(int(a.By)/incarnationStride), k)
}

func diskText(s *vote.DiskState) string {
	text := fmt.Sprintf("electorate %d, promised %s", s.Electorate.Version, ballotText(s.Promised))
	if s.Accepted.Counter > 0 {
		text += fmt.Sprintf(", accepted %s: %s", ballotText(s.Accepted), electorateText(&s.Value))
	}
	return text
}

func messageText(m *vote.Message) string {
	e := m.Consensus
	what := fmt.Sprintf("%s of electorate %d, ballot %s", m.Kind, m.Version, ballotText(e.Ballot))
	if e.Electorate.Version > 0 {
		what += ": " + electorateText(&e.Electorate)
	}
	if e.Promised.Compare(e.Ballot) > 0 {
		what += ", refused for " + ballotText(e.Promised)
	}
	return what
}

func text(v any) string { return fmt.Sprint(v) }
