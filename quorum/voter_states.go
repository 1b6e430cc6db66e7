package quorum

import (
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// linked reports whether a majority of the voters counts, as far as known: a silent voter may yet
// answer.
func (l *sessionLayer) linked() bool {
	var s Set
	for _, p := range l.peers {
		if p.counts() && !l.isBehind(p) {
			s = s.With(p.place)
		}
	}
	return l.decides(s)
}

// answering returns the voters that answer this node and count.
func (l *sessionLayer) answering() (s Set) {
	for _, p := range l.peers {
		if l.answers(p) {
			s = s.With(p.place)
		}
	}
	return s
}

// stateOf returns the state of a voter, including an outdated config epoch and silence.
func (l *sessionLayer) stateOf(p *peer, now vote.Now) VoterState {
	s := p.state(now, l.isBornByCount())
	switch {
	case s.State != Reachable:
	case l.isBehind(p):
		s.State, s.Text = Behind, fmt.Sprintf("it votes under electorate %d", vote.VersionNumber(p.ackEpoch))
	case l.silent(p):
		s.State, s.Text = Silent, fmt.Sprintf("no answer for %v", roughly(now.Fast.Sub(p.lastReceived)))
	}
	return s
}

// Ready reports whether a majority of the voters answers and counts, so that locks can be granted.
func (l *sessionLayer) Ready() bool { return l.decides(l.answering()) }

// Spare returns how many of the voters that answer and count may fail, whichever they are, with a
// majority left.
func (l *sessionLayer) Spare() int { return l.newest.spare(l.answering()) }

// Voters returns the state of every voter as seen from this node, in order of names.
func (l *sessionLayer) Voters(now vote.Now) []VoterState {
	all := make([]VoterState, 0, len(l.peers))
	for _, p := range l.voters() {
		all = append(all, l.stateOf(p, now))
	}
	return all
}

// describeVoters says how many voters count, and describes the state of the others.
func (l *sessionLayer) describeVoters() string {
	if !l.newest.Known() {
		return "no electorate is known: this node has not been voted into one, and has reached " +
			"no node that knows one"
	}
	var b strings.Builder
	counting := 0
	for _, p := range l.voters() {
		if l.answers(p) {
			counting++
		}
	}
	verb := "count"
	if counting == 1 {
		verb = "counts"
	}
	fmt.Fprintf(&b, "%d of %d voters %s", counting, l.newest.Size(), verb)
	sep := ": "
	for _, p := range l.voters() {
		if !l.answers(p) {
			b.WriteString(sep)
			b.WriteString(l.stateOf(p, l.now).String())
			sep = ", "
		}
	}
	return b.String()
}

// Present returns how many other voters answer this node and how many of these voters count, and
// reports whether the latter are a majority.
func (l *sessionLayer) Present() (alive, counting int, decides bool) {
	var s Set
	for _, p := range l.voters() {
		if p.name == l.cfg.Self.Node || !p.reachable() {
			continue
		}
		alive++
		if p.counting && !l.isBehind(p) {
			counting++
			s = s.With(p.place)
		}
	}
	return alive, counting, l.decides(s)
}
