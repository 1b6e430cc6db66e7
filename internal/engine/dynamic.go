package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/netaddr"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/quorum"
)

// electorateState is the loop's state about the electorate, in addition to the state of the node.
type electorateState struct {
	dynamic    bool
	self       vote.Elector
	version    uint64 // the version logged last
	dialsStale bool   // the set of nodes to dial may have changed
	// the logged difference between this node's MaxVoters and the decided value
	loggedDifference string
	lost             bool // the log says that the electorate is lost
	// the state directory could not be written at the last check; an alarm has been logged
	trouble      bool
	dialFailures map[vote.NodeID]dialFailure
	watchers     map[*ElectorateWatcher]struct{}
	stopTimer    func() // stops the timer of the watches' next check; nil if there is none
	// notified when this node is no voter any more, or of why the node stays a voter; each has room
	leaveWaiters []chan<- string
	recoveries   []recovery // answered once their version is stored
}

// dialFailure is the reason why a node can't be dialed, as its dialer reported last.
type dialFailure struct {
	reason vote.Reason // ReasonNone: the node can't be reached
	text   string
}

// recovery is a call of Recover waiting for its version to be stored in the directory.
type recovery struct {
	version uint64
	done    chan<- error // has room
}

func newElectorateState(f *node.Following) electorateState {
	return electorateState{
		dynamic: true, self: vote.Elector{Name: f.State.Name, Dir: f.State.Dir}, version: f.State.Electorate.Version,
		dialsStale: true, dialFailures: make(map[vote.NodeID]dialFailure),
	}
}

// openState takes the state directory for this node and reads the node's promises; it returns nil
// if the electorate is fixed.
//
// Calls to a disk that doesn't answer can't be interrupted. So a separate goroutine makes the
// calls, and ctx bounds how long openState waits for this goroutine. If ctx ends first, the
// goroutine releases the directory and ends as soon as the disk answers.
func (eng *Engine) openState(ctx context.Context, w world.World) (*node.Following, error) {
	if eng.cfg.StateDir == "" {
		return nil, nil
	}
	opened := make(chan openedState) // unbuffered: the receiver owns the directory
	go func() {
		o := eng.readState(w)
		select {
		case opened <- o:
		case <-ctx.Done():
			if o.dir != nil {
				_ = o.dir.Close() // no caller is left for an error
			}
		}
	}()
	select {
	case o := <-opened:
		if o.err != nil {
			return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.State, Err: o.err})
		}
		for _, text := range o.dir.Warnings() {
			eng.log.Warn("the state directory is open to others: "+text, "state_dir", eng.cfg.StateDir)
		}
		eng.stateDir, eng.stateWriter, eng.savedPeers = o.dir, eng.newStateWriter(o.dir), o.peers
		return o.dynamic, nil
	case <-ctx.Done():
		return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.State, Err: errs.OfContext(ctx), Text: fmt.Sprintf(
			"the disk of the state directory %s did not answer in time: check the disk, or name a "+
				"directory on another disk; what waits for the disk in this process ends only "+
				"when the disk answers", eng.cfg.StateDir)})
	}
}

// openedState is a state directory opened for this process alone, with its contents; or the error.
type openedState struct {
	dir     world.StateDir
	dynamic *node.Following
	peers   []string
	err     error
}

// readState opens the state directory and reads the contents. It waits for the disk.
func (eng *Engine) readState(w world.World) openedState {
	dir, err := w.State(eng.cfg.StateDir)
	if err != nil {
		return openedState{err: err}
	}
	state, found, err := dir.Load(eng.cfg.Mesh, eng.self.Node)
	if err != nil {
		return openedState{err: errors.Join(err, dir.Close())}
	}
	if !found {
		state = vote.DiskState{Mesh: eng.cfg.Mesh, Name: eng.self.Node, Dir: newDir()}
	}
	dynamic := &node.Following{State: state, Fresh: !found, Found: eng.cfg.Bootstrap, MaxVoters: eng.cfg.MaxVoters}
	return openedState{dir: dir, dynamic: dynamic, peers: dir.Peers()}
}

// newDir draws the random identity of a state directory. Zero stands for no directory.
func newDir() vote.Dir {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(vote.Dir(binary.NativeEndian.Uint64(b[:])), 1)
}

// logDynamicStart logs the start of a node with dynamic membership.
func (eng *Engine) logDynamicStart(f *node.Following) {
	e := &f.State.Electorate
	eng.log.Info("node started", "name", eng.self.Node, "mesh", eng.cfg.Mesh,
		"incarnation", IncarnationText(eng.self.Incarnation), "addr", eng.links.AdvertiseAddr(),
		"founders", eng.cfg.Voters, "max_voters", eng.cfg.MaxVoters, "max_ttl", eng.cfg.MaxTTL, "ttl", eng.cfg.TTL,
		"state_dir", eng.cfg.StateDir, "dir_id", DirText(f.State.Dir), "electorate", e.Version, "voters", ElectorNames(e.Voters))
	switch {
	case e.Version > 0 && eng.cfg.Bootstrap:
		eng.warnBootstrap()
	case e.Version > 0:
	case eng.cfg.Bootstrap:
		eng.log.Info("this node bootstraps the electorate as soon as all founders reach each other",
			"founders", eng.cfg.Voters)
	default:
		eng.log.Info("the state directory holds no electorate: this node waits to reach a node of " +
			"the mesh, and to be voted in")
	}
}

func (eng *Engine) warnBootstrap() {
	eng.log.Warn("BOOTSTRAP IS STILL SET though the electorate exists: remove Bootstrap from this "+
		"node's configuration now. If all founders lost their state directories, Bootstrap would "+
		"create a second mesh", "name", eng.self.Node, "state_dir", eng.cfg.StateDir)
}

// newStateWriter returns the writer of an open state directory. Its results go to the loop.
func (eng *Engine) newStateWriter(dir world.StateDir) *statedir.Writer {
	return statedir.NewWriter(dir, func() vote.Instant { return eng.clocks.Now().Slow }, statedir.Report{
		Saved: func(writes uint64, err error) {
			failed := ""
			if err != nil {
				failed = errs.Text(err)
			}
			eng.loop.box.post(true, func(now vote.Now) { eng.loop.saved(now, writes, failed) })
		},
		PeersFailed: func(err error) { eng.log.Debug("cannot save the peers' addresses; will retry", "error", err) },
	})
}

// DiskCloseTimeout is how long a call to the disk may take for closing to wait for the call.
const DiskCloseTimeout = 5 * time.Second

// closeState waits until the state directory is released, but not for a hung disk.
func (eng *Engine) closeState() error {
	if eng.stateWriter == nil {
		return nil
	}
	answered, err := eng.stateWriter.Wait(DiskCloseTimeout)
	if !answered {
		return eng.fail(errs.Failure{Op: "close", Reason: errs.State, Text: fmt.Sprintf("the disk has not answered within %v, so %s stays in use until it does", DiskCloseTimeout, eng.cfg.StateDir)})
	}
	return err
}

// Members passes the members known to gossip to the loop; see [discovery.Host].
func (h host) Members(members []member.Member) bool {
	h.eng.saveAddrs(members)
	seen := make([]electorate.Seen, 0, len(members))
	for _, m := range members {
		seen = append(seen, electorate.Seen{Name: m.Name, Dir: m.Dir, State: presence(m.State)})
	}
	heard, loop := make(chan struct{}), h.eng.loop
	loop.box.post(false, func(now vote.Now) {
		loop.node.Gossip(now, seen)
		loop.checkElectorate(now)
		close(heard)
	})
	select {
	case <-heard:
		return true
	case <-loop.done:
		return false
	}
}

// saveAddrs has the addresses of the live members saved, so that this node finds them after a
// restart even if the configured peers are long gone.
func (eng *Engine) saveAddrs(members []member.Member) {
	var addrs []string
	for _, g := range members {
		if g.State == member.Alive && g.Name != eng.self.Node && g.Addr != "" && len(addrs) < eng.cfg.Limits.Peers {
			addrs = append(addrs, g.Addr)
		}
	}
	if len(addrs) > 0 {
		slices.Sort(addrs)
		eng.stateWriter.SavePeers(addrs)
	}
}

// peers returns the addresses at which to look for other nodes: the configured addresses, and the
// addresses of nodes met in earlier incarnations.
func (eng *Engine) peers() []string {
	peers := slices.Clone(eng.cfg.Peers)
	for _, p := range eng.savedPeers {
		if _, problem := netaddr.Host(p, false); problem == "" && !slices.Contains(peers, p) && len(peers) < eng.cfg.Limits.Peers {
			peers = append(peers, p)
		}
	}
	return peers
}

func presence(s member.State) electorate.Presence {
	switch s {
	case member.Alive:
		return electorate.Alive
	case member.Failed:
		return electorate.Failed
	case member.Left:
		return electorate.Left
	}
	return electorate.Unseen
}

// saveAndDial has the node's pending states stored, and the wanted nodes dialed.
func (l *loop) saveAndDial() {
	if !l.electorate.dynamic {
		return
	}
	for _, state := range l.node.Saves() {
		l.engine.stateWriter.Save(state) // has room: the next state comes only after saved
	}
	if l.electorate.dialsStale {
		l.electorate.dialsStale = false
		l.engine.finder.Want(l.node.Wanted())
	}
}

// saved reports the result of a save to the node.
func (l *loop) saved(now vote.Now, writes uint64, failed string) {
	l.node.Saved(now, writes, failed)
	l.electorate.dialsStale = true
	if len(l.electorate.recoveries) == 0 {
		return
	}
	st, _ := l.node.ElectorateStatus(now)
	l.electorate.recoveries = slices.DeleteFunc(l.electorate.recoveries, func(r recovery) bool {
		if st.Stored < r.version {
			return false
		}
		r.done <- nil
		return true
	})
}

// linked tells the node of a connection made by a dialer.
func (l *loop) linked(now vote.Now, c vote.Conn, peer vote.SessionID) {
	delete(l.electorate.dialFailures, peer.Node)
	l.node.Link(now, c, peer)
	l.electorate.dialsStale = true
}

// failed tells the node why another node can't be dialed. The reason is remembered for the time
// when that node becomes a voter, since a dialer reports each reason once.
func (l *loop) failed(now vote.Now, failure *discovery.Failure) {
	if !failure.Current() {
		return
	}
	f := dialFailure{failure.Reason, failure.Text}
	if l.electorate.dynamic {
		// a refusal stands until there is another
		if old := l.electorate.dialFailures[failure.Node]; f.reason != vote.ReasonNone || old.reason == vote.ReasonNone {
			l.electorate.dialFailures[failure.Node] = f
		}
	}
	l.reportFailure(now, failure.Node, f)
}

func (l *loop) reportFailure(now vote.Now, name vote.NodeID, f dialFailure) {
	if f.reason == vote.ReasonNone {
		l.node.DialFailed(now, name, f.text)
	} else {
		l.node.Refused(now, name, f.reason, f.text)
	}
}

// refusedByFounders describes the refusals if so many founders refuse this node, which knows no
// electorate yet, that the node can't belong to their mesh; otherwise it returns "".
func (l *loop) refusedByFounders() string {
	var refusing []string
	for _, name := range l.engine.voters() {
		if f := l.electorate.dialFailures[name]; f.reason != vote.ReasonNone {
			refusing = append(refusing, fmt.Sprintf("%s refuses (%s)", name, f.text))
		}
	}
	if n := len(l.engine.cfg.Voters); n-len(refusing) >= majority(n) {
		return ""
	}
	return "no electorate is known, and too many founders refuse this node: " +
		strings.Join(refusing, ", ")
}

// electorateChanged applies a new configuration of the electorate.
func (l *loop) electorateChanged(now vote.Now, e *quorum.Event) {
	for _, s := range l.subscriptionsByNonce {
		s.merger.Reconfigure(e.Electorate, e.Places)
		l.publish(now, s)
	}
	v := &l.electorate
	v.dialsStale = true
	for name, f := range v.dialFailures {
		l.reportFailure(now, name, f)
	}
	st, _ := l.node.ElectorateStatus(now)
	if known := &st.Electorate; known.Version != v.version {
		was := v.version
		v.version = known.Version
		l.log.Info("the electorate has changed", "version", known.Version, "voters", ElectorNames(known.Voters), "joint", known.Joint(), "old", ElectorNames(known.Old))
		if was == 0 && l.engine.cfg.Bootstrap {
			l.engine.warnBootstrap()
		}
	}
	if !st.Electorate.Has(v.self) {
		l.answerLeave("")
	}
	l.publishElectorate(now)
}

// checkElectorate handles changes that come with the passing of time alone.
func (l *loop) checkElectorate(now vote.Now) {
	l.electorate.dialsStale = true
	for name := range l.electorate.dialFailures {
		if !l.engine.finder.Wants(name) {
			delete(l.electorate.dialFailures, name)
		}
	}
	st, _ := l.node.ElectorateStatus(now)
	switch lost := st.Lost != ""; {
	case lost && !l.electorate.lost:
		l.log.Error("the electorate is lost: "+st.Lost, "version", st.Electorate.Version)
	case !lost && l.electorate.lost:
		l.log.Info("the electorate is no longer lost: enough of its voters are reachable",
			"version", st.Electorate.Version)
	}
	l.electorate.lost = st.Lost != ""
	if l.electorate.trouble && st.Trouble == "" {
		l.log.Info("the state directory can be written again: this node takes part in changes of the electorate", "version", st.Electorate.Version)
	}
	l.electorate.trouble = st.Trouble != ""
	if st.Differs != "" && st.Differs != l.electorate.loggedDifference {
		l.log.Warn(st.Differs, "version", st.Electorate.Version)
	}
	l.electorate.loggedDifference = st.Differs
	if st.Stays != "" {
		l.answerLeave(st.Stays)
	}
}

func (l *loop) answerLeave(why string) {
	for _, gone := range l.electorate.leaveWaiters {
		gone <- why
	}
	l.electorate.leaveWaiters = nil
}

// explain adds to a lack of quorum the reason that only the electorate knows: it is lost, or there
// is none yet.
func (l *loop) explain(now vote.Now, w quorum.Wait) quorum.Wait {
	if w.Reason != quorum.WaitNoQuorum {
		return w
	}
	st, dynamic := l.node.ElectorateStatus(now)
	switch {
	case !dynamic:
	case st.Electorate.Version == 0:
		w.Text = st.Change
		if st.Trouble != "" {
			w.Text += "; " + st.Trouble
		}
	case st.Lost != "":
		w.Text += "; " + st.Lost
	}
	return w
}

// goodbyeReserve is the part of Leave's time reserved for the goodbye, which reaches the others
// within a second or two; at most a quarter. Nodes that have received a voter's goodbye vote the
// voter out as soon as possible, rather than after a long absence.
const goodbyeReserve = 2 * time.Second

// LeaveTTLs is how many MaxTTL Leave waits at most to be voted out: twice the time needed if other
// voters have to be voted out, too.
const LeaveTTLs = 10

// LeaveElectorate has this node voted out, and waits for the result.
func (eng *Engine) LeaveElectorate(ctx context.Context) error {
	if eng.stateWriter == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, deadline.Add(-min(goodbyeReserve, max(time.Until(deadline), 0)/4)))
		defer cancel()
		ctx = limited
	}
	enough := make(chan struct{}, 1)
	defer eng.clocks.After(LeaveTTLs*eng.cfg.MaxTTL, func() { wakeup.Send(enough) })()
	l := eng.loop
	gone := make(chan string, 1)
	why := ""
	l.box.post(false, func(now vote.Now) { l.leaveElectorate(now, gone) })
	select {
	case why = <-gone:
		if why == "" {
			return nil
		}
	case <-l.done:
		return nil
	case <-enough:
	case <-ctx.Done():
	}
	var over error // read here, since the loop must not wait for the application's code
	if ctx.Err() != nil {
		over = errs.OfContext(ctx)
	}
	still := make(chan error, 1)
	if l.box.post(false, func(now vote.Now) {
		st, _ := l.node.ElectorateStatus(now)
		if !st.Electorate.Has(l.electorate.self) {
			still <- nil
			return
		}
		text := fmt.Sprintf("electorate %d (%s) could not vote this node out in time",
			st.Electorate.Version, strings.Join(ElectorNames(st.Electorate.All()), ", "))
		if why == "" {
			why = st.Change
		}
		if why != "" {
			text += ": " + why
		}
		text += "; the other voters need this node for their majority until it is back with its " +
			"state directory, or until they have voted it out"
		still <- eng.fail(errs.Failure{Op: "leave", Reason: errs.Voter, Text: text, Err: over})
	}) {
		select {
		case err := <-still:
			return err
		case <-l.done:
		}
	}
	return nil
}

// leaveElectorate has this node voted out. gone receives "" as soon as this node is no voter, or
// else the reason why the node stays a voter.
func (l *loop) leaveElectorate(now vote.Now, gone chan<- string) {
	l.node.LeaveElectorate(now)
	if st, _ := l.node.ElectorateStatus(now); !st.Electorate.Has(l.electorate.self) {
		gone <- ""
		return
	}
	l.electorate.leaveWaiters = append(l.electorate.leaveWaiters, gone)
}

// endElectorate tells all waiting calls and watches that nothing more will come.
func (l *loop) endElectorate() {
	v := &l.electorate
	for _, r := range v.recoveries {
		r.done <- l.fail(errs.Failure{Op: "recover", Reason: errs.Closed})
	}
	v.recoveries, v.leaveWaiters = nil, nil // leaveElectorate sees the end of the loop
	if v.stopTimer != nil {
		v.stopTimer()
	}
	for w := range v.watchers {
		w.End()
	}
	v.watchers = nil
}
