package elect

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// isMajority reports whether the voters for which some holds are a majority, and in a joint
// electorate a majority of both halves. On purpose isMajority doesn't share the machine's code.
func isMajority(e *vote.Electorate, some func(i int) bool) bool {
	return most(e.Voters, some) && (len(e.Old) == 0 || most(e.Old, some))
}

// decides reports whether the voters for which some holds can decide who votes next: a majority of
// the voters, and in a joint electorate a majority of the old voters.
func decides(e *vote.Electorate, some func(i int) bool) bool {
	if len(e.Old) > 0 {
		return most(e.Old, some)
	}
	return most(e.Voters, some)
}

func most(voters []vote.Elector, some func(i int) bool) bool {
	n := 0
	for _, v := range voters {
		if some(int(v.Dir) - 1) {
			n++
		}
	}
	return 2*n > len(voters)
}

// judgeDisk checks a disk after a write, and records the decision if all disks together have made
// one.
func (x *explorer) judgeDisk(w *world, i int) (wrong string) {
	n := &w.nodes[i]
	was, is := &x.disks[n.before], &x.disks[n.disk]
	switch {
	case x.o.lax:
	case is.Electorate.Version < was.Electorate.Version:
		return fmt.Sprintf("%s stored electorate %d, and goes back to %d", nodeName(i), was.Electorate.Version, is.Electorate.Version)
	case is.Electorate.Version == was.Electorate.Version && (is.Promised.Compare(was.Promised) < 0 || is.Accepted.Compare(was.Accepted) < 0):
		return fmt.Sprintf("%s has stored a promise, and takes it back", nodeName(i))
	}
	if is.Accepted.Counter == 0 || is.Electorate.Version >= finalVersion {
		return ""
	}
	if decides(&is.Electorate, func(j int) bool {
		d := &x.disks[w.nodes[j].disk]
		return d.Electorate.Version == is.Electorate.Version && d.Accepted == is.Accepted && d.Value.Equal(&is.Value)
	}) {
		return x.decided(w, &is.Value)
	}
	return ""
}

// decided records a decided electorate.
func (x *explorer) decided(w *world, e *vote.Electorate) (wrong string) {
	if e.Version <= firstVersion || e.Version > finalVersion {
		return ""
	}
	at := &w.decided[e.Version]
	if *at != 0 {
		if x.values[*at].Equal(e) {
			return ""
		}
		return fmt.Sprintf("two electorates %d: %s, and %s", e.Version, electorateText(&x.values[*at]), electorateText(e))
	}
	before := w.decided[e.Version-1]
	if before == 0 {
		return fmt.Sprintf("electorate %d is decided, and the one before isn't", e.Version)
	}
	if err := electorate.CheckSuccessor(&x.values[before], e); err != nil {
		return err.Error()
	}
	*at = x.value(*e)
	return ""
}

// judgeNode checks the electorate known to a node. A decision may show here first: where one save
// took in two ballots that propose the same value, no disk ever had the first ballot, though the
// answers to the first ballot count.
func (x *explorer) judgeNode(w *world, i int) (wrong string) {
	l := &x.locals[w.nodes[i].local]
	if l.known.Version <= firstVersion || l.value == w.decided[min(l.known.Version, finalVersion)] {
		return ""
	}
	base := w.decided[l.known.Version-1]
	if base == 0 || !x.o.lax && !decides(&x.values[base], func(j int) bool {
		d := &x.disks[w.nodes[j].disk]
		return d.Accepted.Counter > 0 && d.Value.Equal(&l.known)
	}) {
		return fmt.Sprintf("%s applies electorate %d, %s, which no majority has accepted", nodeName(i), l.known.Version, electorateText(&l.known))
	}
	return x.decided(w, &l.known)
}

// judgeWord checks a message from a node: its disk must contain the promise, and the new voters may
// be proposed alone only after the drain. The old voters may be restored at any time: every lease
// has a majority of the old voters.
func (x *explorer) judgeWord(w *world, i int, m *vote.Message) (wrong string) {
	e, d := m.Consensus, &x.disks[w.nodes[i].disk]
	granted := e != nil && !x.o.lax && e.Promised == e.Ballot && d.Electorate.Version < m.Version
	switch {
	case m.Kind == vote.KindPrepared && granted && d.Promised.Compare(e.Ballot) < 0:
		return fmt.Sprintf("%s says that it has promised ballot %d, and its disk doesn't have it", nodeName(i), e.Ballot.Counter)
	case m.Kind == vote.KindAccepted && granted && d.Accepted.Compare(e.Ballot) < 0:
		return fmt.Sprintf("%s says that it has accepted ballot %d, and its disk doesn't have it", nodeName(i), e.Ballot.Counter)
	case m.Kind == vote.KindAccept && m.Version == finalVersion:
		before := w.decided[jointVersion]
		if before != 0 && slices.Equal(e.Electorate.Voters, x.values[before].Old) {
			return ""
		}
		if before == 0 || !isMajority(&x.values[before], func(j int) bool { return w.nodes[j].joined == 2 }) {
			return fmt.Sprintf("%s ends the joint electorate before majorities of both halves have applied it for as long as the drain", nodeName(i))
		}
	}
	return ""
}
