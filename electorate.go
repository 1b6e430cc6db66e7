package lockmesh

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorateEvery is how often a watched electorate is looked at, besides when there is a new version: how voters look changes with any message.
const electorateEvery = 250 * time.Millisecond

// electorateWatch is one WatchElectorate under way. It is the loop's.
type electorateWatch struct {
	states chan ElectorateStatus // capacity 1, and only the loop puts: it takes out what wasn't read before
	last   string                // the gist of what was told last
	unhook func() bool           // from the context
	over   bool                  // the context has ended
}

// WatchElectorate tells how the electorate looks from this node: at once, and then whenever something has changed, such as who votes, how a voter looks, whether
// locks can be granted, who stands by, or what a change waits for. Times that only run down are no change. A version is told as soon as this
// node knows it, the rest within a quarter of a second.
//
// Who reads slowly gets the newest and misses what was in between; nobody waits for it. The channel is closed when ctx or the mesh ends. Errors:
// ErrBusy with [MaxWatches] of these open, ErrClosed, or ctx's.
func (m *Mesh) WatchElectorate(ctx context.Context) (<-chan ElectorateStatus, error) {
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "watchelectorate", Reason: reason, Text: text, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", ended(ctx))
	}
	w := &electorateWatch{states: make(chan ElectorateStatus, 1)}
	// Hooked here, since the loop must not wait for a context, which is the application's code.
	w.unhook = context.AfterFunc(ctx, func() { m.loop.box.post(false, func(vote.Now) { m.loop.unwatchElectorate(w) }) })
	begun := make(chan error, 1)
	if err := m.loop.box.call(func(now vote.Now) { begun <- m.loop.watchElectorate(now, w) }); err != nil {
		w.unhook()
		return nil, fail(err, "", nil)
	}
	select {
	case err := <-begun:
		if err != nil {
			w.unhook()
			return nil, fail(err, fmt.Sprintf("%d watches of the electorate are open", MaxWatches), nil)
		}
		return w.states, nil
	case <-m.loop.done:
		w.unhook()
		return nil, fail(ErrClosed, "", nil)
	}
}

func (l *loop) watchElectorate(now vote.Now, w *electorateWatch) error {
	v := &l.voting
	if len(v.watchers) >= MaxWatches {
		return ErrBusy
	}
	if v.watchers == nil {
		v.watchers = make(map[*electorateWatch]struct{})
	}
	v.watchers[w] = struct{}{}
	w.tell(l.electorateStatus(now))
	if v.again == nil {
		l.lookAgain()
	}
	if w.over { // before it began
		l.unwatchElectorate(w)
	}
	return nil
}

func (l *loop) unwatchElectorate(w *electorateWatch) {
	w.over = true
	if _, ok := l.voting.watchers[w]; ok {
		delete(l.voting.watchers, w)
		w.end()
	}
}

func (w *electorateWatch) end() {
	w.unhook()
	close(w.states)
}

// tell puts what is new in the place of what wasn't read.
func (w *electorateWatch) tell(s ElectorateStatus) {
	gist := s.gist()
	if gist == w.last {
		return
	}
	w.last = gist
	select {
	case <-w.states:
	default:
	}
	w.states <- s
}

// tellElectorate tells those who watch what is new.
func (l *loop) tellElectorate(now vote.Now) {
	for w := range l.voting.watchers {
		w.tell(l.electorateStatus(now)) // each gets its own, to keep
	}
}

// lookAgain has the electorate looked at every now and then, as long as somebody watches.
func (l *loop) lookAgain() {
	over := false // a timer may fire twice
	l.voting.again = l.clocks.after(electorateEvery, func() {
		l.box.post(false, func(now vote.Now) {
			if over {
				return
			}
			over = true
			l.voting.again = nil
			if len(l.voting.watchers) > 0 {
				l.tellElectorate(now)
				l.lookAgain()
			}
		})
	})
}

// runsDown finds the times in a text, such as "7.2s" and "1m30s".
var runsDown = regexp.MustCompile(`\b\d[\d.hmµn]*s\b`)

// gist is all that a watch tells of, without the times that only run down.
func (s *ElectorateStatus) gist() string {
	var b strings.Builder
	for _, v := range s.Voters {
		fmt.Fprintf(&b, "%q %s %q\n", v.Name, v.State, v.Drift)
	}
	fmt.Fprintln(&b, s.Majority, s.Ready, s.Version, s.Joint, s.Old, s.New, s.Voter, s.StandBy, s.Stored)
	for _, text := range []string{s.Change, s.Trouble, s.Lost} {
		fmt.Fprintf(&b, "%q\n", runsDown.ReplaceAllString(text, "..."))
	}
	return b.String()
}

// electorateStatus is how the electorate looks from here.
func (l *loop) electorateStatus(now vote.Now) ElectorateStatus {
	s := ElectorateStatus{Majority: l.node.Electorate().Majority(), Ready: l.node.Ready()}
	for _, v := range l.node.Voters(now) {
		state := VoterState(v.State.String())
		if state == VoterReachable {
			s.Counting++
		}
		s.Voters = append(s.Voters, VoterStatus{Name: string(v.Name), State: state, Quiet: v.Quiet, Text: v.String(), Drift: v.Drift})
	}
	st, following := l.node.ElectorateStatus(now)
	if !following {
		return s
	}
	e := &st.Electorate
	s.Following, s.Version, s.Stored, s.Joint, s.Voter = true, e.Version, st.Stored, e.Joint(), st.Voter
	if s.Joint {
		s.Old, s.New = electorNames(e.Old), electorNames(e.Voters)
	}
	for _, name := range st.StandBy {
		s.StandBy = append(s.StandBy, string(name))
	}
	slices.Sort(s.StandBy)
	s.Change, s.Trouble, s.Lost = st.Change, st.Trouble, st.Lost
	s.StateDir, s.DirID = l.mesh.cfg.StateDir, uint64(st.Dir)
	return s
}

// String tells who votes in one line: "electorate 3 of a, b, c: 3 of 3 count, 2 needed, ready".
func (s ElectorateStatus) String() string {
	var b strings.Builder
	var names []string
	for _, v := range s.Voters {
		names = append(names, v.Name)
	}
	switch {
	case s.Following && s.Version == 0:
		return "no electorate is known"
	case s.Joint:
		fmt.Fprintf(&b, "electorate %d, joint, from %s to %s", s.Version, strings.Join(s.Old, ", "), strings.Join(s.New, ", "))
	case s.Following:
		fmt.Fprintf(&b, "electorate %d of %s", s.Version, strings.Join(names, ", "))
	default:
		fmt.Fprintf(&b, "electorate of %s", strings.Join(names, ", "))
	}
	ready := "not ready"
	if s.Ready {
		ready = "ready"
	}
	fmt.Fprintf(&b, ": %d of %d count, %d needed, %s", s.Counting, len(s.Voters), s.Majority, ready)
	return b.String()
}

// write adds to a status what there is only where the electorate follows the living.
func (s *ElectorateStatus) write(b *strings.Builder) {
	if !s.Following {
		return
	}
	switch {
	case s.Version == 0:
		b.WriteString("\nno electorate is known")
	case s.Joint:
		fmt.Fprintf(b, "\nelectorate %d, joint: from %s to %s", s.Version, strings.Join(s.Old, ", "), strings.Join(s.New, ", "))
	default:
		fmt.Fprintf(b, "\nelectorate %d", s.Version)
	}
	if s.Version > 0 {
		role := "no voter"
		if s.Voter {
			role = "a voter"
		}
		b.WriteString("; this node is " + role)
		if s.Stored != s.Version {
			fmt.Fprintf(b, " and has stored %d", s.Stored)
		}
	}
	fmt.Fprintf(b, "\nstate directory %s (id %s)", s.StateDir, dirText(vote.Dir(s.DirID)))
	for _, line := range []struct{ what, text string }{
		{"stand by", strings.Join(s.StandBy, ", ")}, {"change", s.Change}, {"trouble", s.Trouble}, {"LOST", s.Lost},
	} {
		if line.text != "" {
			fmt.Fprintf(b, "\n%s: %s", line.what, line.text)
		}
	}
}
