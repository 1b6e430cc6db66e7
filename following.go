package lockmesh

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/quorum"
)

// voting is what the loop knows about the electorate besides what the node does.
type voting struct {
	following bool
	self      vote.Elector
	version   uint64 // that the log has been told of
	stirred   bool   // whom to dial may have changed
	lost      bool   // the log has been told that no majority may ever come back
	failures  map[vote.NodeID]failure
	watchers  map[*electorateWatch]struct{}
	again     func()          // stops the timer by which the watchers' next look comes; nil while there is none
	parting   []chan<- string // told once this node is no voter, or why it stays one; each has room for it
	refounds  []refounding    // told once their version is stored
}

// failure is why a node can't be dialed, as its dialer has said last.
type failure struct {
	reason vote.Reason // ReasonNone: it can't be reached
	text   string
}

// refounding waits until a version is in the directory.
type refounding struct {
	version uint64
	done    chan<- error // has room
}

func newVoting(f *node.Following) voting {
	return voting{
		following: true, self: vote.Elector{Name: f.State.Name, Dir: f.State.Dir}, version: f.State.Electorate.Version,
		stirred: true, failures: make(map[vote.NodeID]failure),
	}
}

// openState takes the state directory for this node, and reads what it has promised; nil where the electorate is fixed.
func (m *Mesh) openState(w world.World) (*node.Following, error) {
	if m.cfg.StateDir == "" {
		return nil, nil
	}
	dir, err := w.State(m.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	state, found, err := dir.Load(m.cfg.Mesh, m.self.Node)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if !found {
		state = vote.State{Mesh: m.cfg.Mesh, Name: m.self.Node, Dir: newDir()}
	}
	m.keeper = newKeeper(m, dir)
	m.known = dir.Peers()
	return &node.Following{State: state, Fresh: !found, Found: m.cfg.Found, MaxVoters: m.cfg.MaxVoters}, nil
}

// newDir draws the identity of a state directory. Zero stands for none.
func newDir() vote.Dir {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(vote.Dir(binary.NativeEndian.Uint64(b[:])), 1)
}

// sayFollowing logs what a node is whose electorate follows the living.
func (m *Mesh) sayFollowing(f *node.Following) {
	e := &f.State.Electorate
	m.log.Info("node started", "name", m.self.Node, "mesh", m.cfg.Mesh, "life", lifeText(m.self.Life), "addr", m.Addr(),
		"founders", m.cfg.Voters, "max_voters", m.cfg.MaxVoters, "max_ttl", m.cfg.MaxTTL, "ttl", m.cfg.TTL,
		"state_dir", m.cfg.StateDir, "dir_id", dirText(f.State.Dir), "electorate", e.Version, "voters", electorNames(e.Voters))
	switch {
	case e.Version > 0 && m.cfg.Found:
		m.warnFound()
	case e.Version > 0:
	case m.cfg.Found:
		m.log.Info("this node founds the electorate as soon as all founders see each other", "founders", m.cfg.Voters)
	default:
		m.log.Info("the state directory knows of no electorate: this node waits to meet a node of the mesh, and to be voted in")
	}
}

func (m *Mesh) warnFound() {
	m.log.Warn("FOUND IS STILL SET though the electorate was founded: take it out of this node's configuration now. If all founders lost their "+
		"state directories, it would found a second mesh", "name", m.self.Node, "state_dir", m.cfg.StateDir)
}

func dirText(d vote.Dir) string { return fmt.Sprintf("%x", uint64(d)) }

func electorNames(voters []vote.Elector) []string {
	names := make([]string, 0, len(voters))
	for _, v := range voters {
		names = append(names, string(v.Name))
	}
	return names
}

// keeper writes the node's state into its directory, so that a slow disk holds nobody up but itself. One goroutine runs it, and owns the directory.
type keeper struct {
	m       *Mesh
	dir     world.StateDir
	states  chan vote.State // capacity 1: the node has one save under way at most
	addrs   chan []string   // capacity 1: where others are; the newest replaces what wasn't written yet
	unnoted atomic.Bool     // the last addresses couldn't be written
	done    chan struct{}
	err     error // of closing the directory; written before done is closed
}

func newKeeper(m *Mesh, dir world.StateDir) *keeper {
	return &keeper{m: m, dir: dir, states: make(chan vote.State, 1), addrs: make(chan []string, 1), done: make(chan struct{})}
}

// run works until the loop has ended: nobody waits then for what is still to be written, as after a crash.
func (k *keeper) run() {
	defer close(k.done)
	loop := k.m.loop
	for {
		select {
		case <-loop.done:
			k.err = k.dir.Close()
			return
		case state := <-k.states:
			failed := ""
			if err := k.dir.Save(&state); err != nil {
				failed = bare(err)
			}
			loop.box.post(true, func(now vote.Now) { loop.saved(now, state.Writes, failed) })
		case addrs := <-k.addrs:
			if err := k.dir.SavePeers(addrs); err != nil {
				k.m.log.Debug("where others are can't be noted; will keep trying", "error", err)
				k.unnoted.Store(true)
			}
		}
	}
}

// lastSave is how long closing waits for a disk that doesn't return.
const lastSave = 5 * time.Second

// closeState waits until the state directory is given up.
func (m *Mesh) closeState() error {
	if m.keeper == nil {
		return nil
	}
	patience := time.NewTimer(lastSave)
	defer patience.Stop()
	select {
	case <-m.keeper.done:
		return m.keeper.err
	case <-patience.C:
		return &Error{Op: "close", Reason: ErrState, Text: fmt.Sprintf("the disk has not answered within %v, so %s stays in use until it does", lastSave, m.cfg.StateDir)}
	}
}

// crierEvery is how often the loop is told what gossip knows, and looks after the electorate, besides when there is news.
const crierEvery = time.Second

// crier tells the loop what gossip knows. One goroutine runs it: the loop itself waits for nobody, and a group may take its time.
type crier struct {
	m     *Mesh
	wake  chan struct{} // capacity 1: there is news
	noted []string      // the addresses that were noted last
}

func newCrier(m *Mesh) *crier { return &crier{m: m, wake: make(chan struct{}, 1)} }

// run works until ctx ends.
func (c *crier) run(ctx context.Context) {
	loop := c.m.loop
	for ctx.Err() == nil {
		members := c.m.group.Members()
		c.m.book.heardAll(members)
		c.note(members)
		seen := make([]electorate.Seen, 0, len(members))
		for _, m := range members {
			seen = append(seen, electorate.Seen{Name: m.Name, Dir: m.Dir, State: presence(m.State)})
		}
		heard := make(chan struct{})
		loop.box.post(false, func(now vote.Now) {
			loop.node.Gossip(now, seen)
			loop.mind(now)
			close(heard)
		})
		select {
		case <-heard:
		case <-loop.done:
			return
		}
		c.m.sleep(ctx, crierEvery, c.wake)
	}
}

// note has the addresses of those who are there written down, so that this node finds them after a restart though those that are configured are long gone.
func (c *crier) note(members []member.Member) {
	var addrs []string
	for _, m := range members {
		if m.State == member.Alive && m.Name != c.m.self.Node && m.Addr != "" && len(addrs) < MaxPeers {
			addrs = append(addrs, m.Addr)
		}
	}
	slices.Sort(addrs)
	if len(addrs) == 0 || slices.Equal(addrs, c.noted) && !c.m.keeper.unnoted.Swap(false) {
		return
	}
	c.noted = addrs
	select {
	case <-c.m.keeper.addrs:
	default:
	}
	c.m.keeper.addrs <- addrs
}

// peers are the addresses at which others are looked for: those that are configured, and those where others were in an earlier life.
func (m *Mesh) peers() []string {
	peers := slices.Clone(m.cfg.Peers)
	for _, p := range m.known {
		if _, problem := splitAddr(p, false); problem == "" && !slices.Contains(peers, p) && len(peers) < MaxPeers {
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

// keepUp has stored what the node wants stored, and dialed whom it wants dialed.
func (l *loop) keepUp() {
	if !l.voting.following {
		return
	}
	for _, state := range l.node.Saves() {
		l.mesh.keeper.states <- state // has room: the next comes only after saved
	}
	if l.voting.stirred {
		l.voting.stirred = false
		l.mesh.dialers.want(l.node.Wanted())
	}
}

// saved tells the node what has become of a save.
func (l *loop) saved(now vote.Now, writes uint64, failed string) {
	l.node.Saved(now, writes, failed)
	l.voting.stirred = true
	if len(l.voting.refounds) == 0 {
		return
	}
	st, _ := l.node.ElectorateStatus(now)
	l.voting.refounds = slices.DeleteFunc(l.voting.refounds, func(r refounding) bool {
		if st.Stored < r.version {
			return false
		}
		r.done <- nil
		return true
	})
}

// linked tells the node of a connection that a dialer has made.
func (l *loop) linked(now vote.Now, c vote.Conn, peer vote.SessionID) {
	delete(l.voting.failures, peer.Node)
	l.node.Link(now, c, peer)
	l.voting.stirred = true
}

// failed tells the node why one can't be dialed. It is remembered for when that one becomes a voter, since a dialer says it once.
func (l *loop) failed(now vote.Now, d *dialer, reason vote.Reason, text string) {
	if l.mesh.dialers.of(d.voter) != d {
		return
	}
	if l.voting.following {
		if f := l.voting.failures[d.voter]; reason != vote.ReasonNone || f.reason == vote.ReasonNone { // a refusal is the last word until there is another
			l.voting.failures[d.voter] = failure{reason, text}
		}
	}
	l.tellFailure(now, d.voter, failure{reason, text})
}

func (l *loop) tellFailure(now vote.Now, name vote.NodeID, f failure) {
	if f.reason == vote.ReasonNone {
		l.node.DialFailed(now, name, f.text)
	} else {
		l.node.Refused(now, name, f.reason, f.text)
	}
}

// refusedByFounders says that so many founders refuse this node, which knows of no electorate yet, that it can't be of their mesh; empty if it isn't so.
func (l *loop) refusedByFounders() string {
	var refusing []string
	for _, name := range l.mesh.voters() {
		if f := l.voting.failures[name]; f.reason != vote.ReasonNone {
			refusing = append(refusing, fmt.Sprintf("%s refuses (%s)", name, f.text))
		}
	}
	if n := len(l.mesh.cfg.Voters); n-len(refusing) >= majority(n) {
		return ""
	}
	return "no electorate is known, and of the founders " + strings.Join(refusing, ", ")
}

// reelected goes by another electorate.
func (l *loop) reelected(now vote.Now, e *quorum.Event) {
	for _, w := range l.watches {
		w.tale.Reelect(e.Electorate, e.Places)
		l.follow(now, w)
	}
	v := &l.voting
	v.stirred = true
	for name, f := range v.failures {
		l.tellFailure(now, name, f)
	}
	st, _ := l.node.ElectorateStatus(now)
	if known := &st.Electorate; known.Version != v.version {
		was := v.version
		v.version = known.Version
		l.log.Info("the electorate has changed", "version", known.Version, "voters", electorNames(known.Voters), "joint", known.Joint(), "old", electorNames(known.Old))
		if was == 0 && l.mesh.cfg.Found {
			l.mesh.warnFound()
		}
	}
	if !st.Electorate.Has(v.self) {
		l.answerParting("")
	}
	l.tellElectorate(now)
}

// mind looks after what may have changed by time alone.
func (l *loop) mind(now vote.Now) {
	l.voting.stirred = true
	for name := range l.voting.failures {
		if l.mesh.dialers.of(name) == nil {
			delete(l.voting.failures, name)
		}
	}
	st, _ := l.node.ElectorateStatus(now)
	switch lost := st.Lost != ""; {
	case lost && !l.voting.lost:
		l.log.Error("the electorate is lost: "+st.Lost, "version", st.Electorate.Version)
	case !lost && l.voting.lost:
		l.log.Info("the electorate isn't lost any more: enough of its voters are there", "version", st.Electorate.Version)
	}
	l.voting.lost = st.Lost != ""
	if st.Stays != "" {
		l.answerParting(st.Stays)
	}
}

func (l *loop) answerParting(why string) {
	for _, gone := range l.voting.parting {
		gone <- why
	}
	l.voting.parting = nil
}

// explain adds to the reason why nobody can know what only the electorate can tell: that it is lost, or that there is none yet.
func (l *loop) explain(now vote.Now, w quorum.Wait) quorum.Wait {
	if w.Reason != quorum.WaitNoQuorum {
		return w
	}
	st, following := l.node.ElectorateStatus(now)
	switch {
	case !following:
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

// goodbyeReserve is how much of Leave's time is kept for the goodbye, which is heard within a second or two; a quarter at most. Who has heard a voter say goodbye
// votes it out as soon as possible, rather than when it has been gone for long.
const goodbyeReserve = 2 * time.Second

// leaveTTLs is for how many MaxTTL Leave waits at most to be voted out: for twice as long as it takes when others have to be voted out, too.
const leaveTTLs = 10

// giveUpVote has this node voted out, and waits for it.
func (m *Mesh) giveUpVote(ctx context.Context) error {
	if m.keeper == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, deadline.Add(-min(goodbyeReserve, max(time.Until(deadline), 0)/4)))
		defer cancel()
		ctx = limited
	}
	enough := make(chan struct{}, 1)
	defer m.clocks.after(leaveTTLs*m.cfg.MaxTTL, func() { kick(enough) })()
	l := m.loop
	gone := make(chan string, 1)
	why := ""
	l.box.post(false, func(now vote.Now) { l.part(now, gone) })
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
	var over error // asked for here, since the loop must not wait for the application's code
	if ctx.Err() != nil {
		over = ended(ctx)
	}
	still := make(chan error, 1)
	if l.box.post(false, func(now vote.Now) {
		st, _ := l.node.ElectorateStatus(now)
		if !st.Electorate.Has(l.voting.self) {
			still <- nil
			return
		}
		text := fmt.Sprintf("electorate %d (%s) could not do without it in time", st.Electorate.Version, strings.Join(electorNames(st.Electorate.All()), ", "))
		if why == "" {
			why = st.Change
		}
		if why != "" {
			text += ": " + why
		}
		text += "; the others need it for their majority until it is back with its state directory, or until they have voted it out"
		still <- &Error{Op: "leave", Reason: ErrVoter, Text: text, Err: over}
	}) {
		select {
		case err := <-still:
			return err
		case <-l.done:
		}
	}
	return nil
}

// part has this node voted out; gone hears as soon as it is no voter, or why it stays one.
func (l *loop) part(now vote.Now, gone chan<- string) {
	l.node.LeaveElectorate(now)
	if st, _ := l.node.ElectorateStatus(now); !st.Electorate.Has(l.voting.self) {
		gone <- ""
		return
	}
	l.voting.parting = append(l.voting.parting, gone)
}

// endFollowing tells those who wait that nothing more will come.
func (l *loop) endFollowing() {
	v := &l.voting
	for _, r := range v.refounds {
		r.done <- &Error{Op: "refound", Reason: ErrClosed}
	}
	v.refounds, v.parting = nil, nil // who parts sees that the loop has ended
	if v.again != nil {
		v.again()
	}
	for w := range v.watchers {
		w.end()
	}
	v.watchers = nil
}
