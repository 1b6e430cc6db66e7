package lockmesh

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorateWatch is one WatchElectorate under way. The loop calls changed and end.
type electorateWatch struct {
	mesh   *Mesh
	states chan ElectorateStatus // capacity 1; only the loop sends, after removing an unread status
	last   string                // the gist of the last status sent
	unhook func() bool           // detaches the watch from its context
}

// WatchElectorate returns a channel of the electorate's status as seen by this node: the first
// status at once, and another whenever something has changed, such as the list of voters, the state
// of a voter, whether locks can be granted, the nodes on standby, or the reason why a change waits.
// A decreasing remaining time alone is no change. The channel receives a new version as soon as
// this node knows the version, other changes within a quarter of a second.
//
// A slow reader never delays others: the newest status replaces an unread status. The channel is
// closed when ctx or the mesh ends. Errors: ErrBusy with [MaxWatches] watches of the electorate
// open, ErrClosed, or ctx's.
func (m *Mesh) WatchElectorate(ctx context.Context) (<-chan ElectorateStatus, error) {
	m.checkUsable("Mesh.WatchElectorate")
	ctx = guardContext(ctx, "Mesh.WatchElectorate")
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "watchelectorate", Reason: reason, Text: text, Err: err}
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", errs.OfContext(ctx))
	}
	w := &electorateWatch{mesh: m, states: make(chan ElectorateStatus, 1)}
	watcher := &engine.ElectorateWatcher{Changed: w.changed, End: w.end}
	// Registered here, since the loop must not wait for a context, which is code of the
	// application.
	w.unhook = context.AfterFunc(ctx, func() { m.eng.UnwatchElectorate(watcher) })
	if err := m.eng.WatchElectorate(watcher); err != nil {
		w.unhook()
		if err == engine.ErrFull {
			return nil, fail(ErrBusy, fmt.Sprintf("%d watches of the electorate are open", MaxWatches), nil)
		}
		return nil, fail(err, "", nil)
	}
	return w.states, nil
}

func (w *electorateWatch) end() {
	w.unhook()
	close(w.states)
}

// changed sends the status if its gist is new, in place of an unread status.
func (w *electorateWatch) changed(e engine.ElectorateView) {
	s := w.mesh.cfg.electorateStatus(e)
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

// durationPattern matches the durations in a text, such as "7.2s" and "1m30s".
var durationPattern = regexp.MustCompile(`\b\d[\d.hmµn]*s\b`)

// gist returns the relevant content of a status: everything except remaining times.
func (s *ElectorateStatus) gist() string {
	var b strings.Builder
	for _, v := range s.Voters {
		fmt.Fprintf(&b, "%q %s %q\n", v.Name, v.State, v.Drift)
	}
	fmt.Fprintln(&b, s.Majority, s.Ready, s.Version, s.Joint, s.Old, s.New, s.Voter, s.Standby, s.StoredVersion)
	for _, text := range []string{s.Change, s.Trouble, s.Lost} {
		fmt.Fprintf(&b, "%q\n", durationPattern.ReplaceAllString(text, "..."))
	}
	return b.String()
}

// electorateStatus returns the status for users of the electorate as seen by this node. The caller
// owns the status.
func (c *Config) electorateStatus(v engine.ElectorateView) ElectorateStatus {
	s := ElectorateStatus{Majority: v.Majority, Ready: v.Ready, Spare: v.Spare}
	for _, v := range v.Voters {
		state := VoterState(v.State.String())
		if state == VoterReachable {
			s.Counting++
		}
		s.Voters = append(s.Voters, VoterStatus{
			Name: string(v.Name), State: state, Quiet: v.Quiet, Text: v.String(), Drift: v.Drift,
			RoundTrip: v.RoundTrip, ClockOffset: v.ClockOffset, ClockRate: v.ClockRate,
		})
	}
	if !v.Dynamic {
		return s
	}
	st, e := &v.Status, &v.Status.Electorate
	s.Dynamic, s.Joint, s.Voter, s.FromFixed, s.Expect = true, e.Joint(), st.Voter, c.FromFixed, c.Expect
	s.Version, s.StoredVersion = vote.VersionNumber(e.Version), vote.VersionNumber(st.Stored)
	if s.Joint {
		s.Old, s.New = engine.ElectorNames(e.Old), engine.ElectorNames(e.Voters)
	}
	for _, name := range st.Standby {
		s.Standby = append(s.Standby, string(name))
	}
	slices.Sort(s.Standby)
	s.Change, s.Trouble, s.Lost, s.MaxVoters = st.Change, st.Trouble, st.Lost, e.Most
	s.MaxTTL = e.MaxTTL
	s.StateDir, s.DirID = c.StateDir, uint64(st.Dir)
	return s
}

// String describes the electorate in one line: "electorate 3 of a, b, c: 3 of 3 count, 2 needed,
// ready".
func (s ElectorateStatus) String() string {
	var b strings.Builder
	var names []string
	for _, v := range s.Voters {
		names = append(names, v.Name)
	}
	switch {
	case s.Dynamic && s.Version == 0:
		return "no electorate is known"
	case s.Joint:
		fmt.Fprintf(&b, "electorate %d, joint, from %s to %s", s.Version, strings.Join(s.Old, ", "), strings.Join(s.New, ", "))
	case s.Dynamic:
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

// write appends the part of a status specific to dynamic membership.
func (s *ElectorateStatus) write(b *strings.Builder) {
	if !s.Dynamic {
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
		if s.FromFixed {
			b.WriteString(", and is being converted from fixed voters (FromFixed)")
		}
		if s.StoredVersion != s.Version {
			fmt.Fprintf(b, " and has stored %d", s.StoredVersion)
		}
	}
	if s.Expect > 0 {
		fmt.Fprintf(b, "\nExpect %d, identity %s", s.Expect, engine.DirText(vote.Dir(s.DirID)))
	} else {
		fmt.Fprintf(b, "\nstate directory %s (id %s)", s.StateDir, engine.DirText(vote.Dir(s.DirID)))
	}
	for _, line := range []struct{ what, text string }{
		{"standby", strings.Join(s.Standby, ", ")}, {"change", s.Change}, {"trouble", s.Trouble},
		{"LOST", s.Lost},
	} {
		if line.text != "" {
			fmt.Fprintf(b, "\n%s: %s", line.what, line.text)
		}
	}
}

// Recover recovers a lost electorate: the named nodes, this node among them, become the voters, on
// the operator's assurance that a majority of the voters is gone FOR GOOD. Recover is dangerous and
// asks no other node, so only an operator who has checked should call it. If the voters declared
// gone come back, or if Recover is called in two places, there are two electorates, and a key can
// be held twice.
//
// Before the call: see who is gone in [Mesh.Status], Electorate.Lost. Make sure that none of these
// voters runs anywhere or can start again with its state directory, for example by removing the
// directories. Then call Recover once, on a single node, with the names of running nodes in touch
// with this node, such as the remaining voters and the nodes on standby. The others learn the new
// electorate from this node. The lost voters may later come back with empty directories, as new
// peers.
//
// Recover returns once the new electorate is in this node's state directory. Locks granted by the
// lost voters are no longer known, so all voters then keep quiet for a MaxTTL, until none of these
// locks can be held; tokens continue above all tokens known to this node. If the mesh was changing
// MaxTTL, the longest counts that this node has heard of; if a longer one may have been decided
// since the node was last in touch with a majority, wait for that long before the call.
//
// Errors: [ErrNotLost] while a majority of the voters answers; ErrConfig for names that can't be
// voters now, or if the electorate is fixed, with a text that says what to do; ErrClosed; ErrBusy;
// or ctx's. After ctx's error the new electorate may exist nevertheless: see Status.
func (m *Mesh) Recover(ctx context.Context, voters ...string) error {
	m.checkUsable("Mesh.Recover")
	ctx = guardContext(ctx, "Mesh.Recover")
	fail := func(reason error, text string, err error) error {
		return &Error{Op: "recover", Reason: reason, Text: text, Err: err}
	}
	names := make([]vote.NodeID, 0, len(voters))
	for _, v := range voters {
		if problem := badName(v); problem != "" {
			return fail(ErrConfig, problem, nil)
		}
		names = append(names, vote.NodeID(v))
	}
	slices.Sort(names)
	switch {
	case m.eng.IsBornByCount():
		return fail(ErrConfig, "with Expect a mesh heals by itself: processes that see no majority "+
			"of the voters for six MaxTTL give the electorate up, and found or join another", nil)
	case !m.eng.IsDynamic():
		return fail(ErrConfig, "without StateDir the electorate is fixed: the voters are those "+
			"listed in Voters. Bring a majority of them back", nil)
	case len(names) == 0:
		return fail(ErrConfig, "no voter is named; name the nodes that shall vote, this node "+
			"among them", nil)
	case len(slices.Compact(slices.Clone(names))) < len(names):
		return fail(ErrConfig, "a name is listed twice; name each node once", nil)
	case ctx.Err() != nil:
		return fail(nil, "", errs.OfContext(ctx))
	}
	return m.eng.Recover(ctx, names)
}
