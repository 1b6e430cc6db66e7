package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/peers"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
)

// openState takes the state directory for this node and reads the node's promises; it returns nil
// if the electorate is fixed.
//
// Calls to a disk that doesn't answer can't be interrupted. So a separate goroutine makes the
// calls, and ctx bounds how long openState waits for this goroutine. If ctx ends first, the
// goroutine releases the directory and ends as soon as the disk answers.
func (eng *Engine) openState(ctx context.Context, w world.World) (*node.Dynamic, error) {
	if eng.IsBornByCount() {
		eng.dynamic = true
		return eng.newProcess(), nil
	}
	if eng.cfg.StateDir == "" {
		return nil, nil
	}
	eng.dynamic = true
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
			return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.StateDir, Err: o.err})
		}
		for _, text := range o.dir.Warnings() {
			eng.log.Warn("the state directory is open to others: "+text, "state_dir", eng.cfg.StateDir)
		}
		eng.stateDir, eng.stateWriter, eng.savedPeers = o.dir, eng.newStateWriter(o.dir), o.peers
		return o.dynamic, nil
	case <-ctx.Done():
		return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.StateDir, Err: errs.OfContext(ctx), Text: fmt.Sprintf(
			"the disk of the state directory %s did not answer in time: check the disk, or name a "+
				"directory on another disk; what waits for the disk in this process ends only "+
				"when the disk answers", eng.cfg.StateDir)})
	}
}

// newProcess returns the state of a process without a directory: nothing of an earlier process is
// known, and the identity is drawn at random.
func (eng *Engine) newProcess() *node.Dynamic {
	state := vote.DiskState{Mesh: eng.cfg.Mesh, Name: eng.self.Node, Dir: newDir()}
	return &node.Dynamic{State: state, Fresh: true, MayFound: !eng.cfg.NonVoting, MaxVoters: eng.cfg.MaxVoters, RegisterTerm: eng.cfg.RegisterTerm}
}

// openedState is a state directory opened for this process alone, with its contents; or the error.
type openedState struct {
	dir     world.StateDir
	dynamic *node.Dynamic
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
	voters := eng.voters()
	if eng.cfg.FromFixed {
		if state, err = electorate.Convert(state, found, voters, eng.cfg.MaxTTL); err != nil {
			return openedState{err: errors.Join(fmt.Errorf("%s: %w", eng.cfg.StateDir, err), dir.Close())}
		}
	}
	// As a fixed node, a voter of the list may have promised anything.
	promised := eng.cfg.FromFixed && slices.Contains(voters, eng.self.Node)
	dynamic := &node.Dynamic{
		State: state, Fresh: !found && !promised, MayFound: eng.cfg.Bootstrap, MaxVoters: eng.cfg.MaxVoters, FromFixed: eng.cfg.FromFixed,
	}
	return openedState{dir: dir, dynamic: dynamic, peers: dir.Peers()}
}

// newDir draws the random identity of a state directory. Zero stands for no directory.
func newDir() vote.Dir {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(vote.Dir(binary.NativeEndian.Uint64(b[:])), 1)
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
		return eng.fail(errs.Failure{Op: "close", Reason: errs.StateDir, Text: fmt.Sprintf("the disk has not answered within %v, so %s stays in use until it does", DiskCloseTimeout, eng.cfg.StateDir)})
	}
	return err
}

// saveAddrs has the addresses of the live members saved, so that this node finds them after a
// restart even if the configured peers are long gone.
func (eng *Engine) saveAddrs(members []member.Member) {
	if eng.stateWriter == nil {
		return
	}
	var addrs []string
	for _, g := range members {
		if g.State == vote.Alive && g.Name != eng.self.Node && g.Addr != "" && len(addrs) < eng.cfg.Limits.Peers {
			addrs = append(addrs, g.Addr)
		}
	}
	if len(addrs) > 0 {
		slices.Sort(addrs)
		eng.stateWriter.SavePeers(addrs)
	}
}

// newPeers returns where to look for other nodes: the configured entries, and the addresses of
// nodes met in earlier incarnations.
func (eng *Engine) newPeers() *peers.Book {
	entries := slices.Clone(eng.cfg.Peers)
	for _, p := range eng.savedPeers {
		if isAddr(p) && !slices.Contains(entries, p) && len(entries) < eng.cfg.Limits.Peers {
			entries = append(entries, p)
		}
	}
	return peers.New(peers.Config{
		Entries: entries, Discover: eng.cfg.Discover, Resolver: net.DefaultResolver, Log: eng.log,
		Joined: func() bool { return eng.finder.Joined() }, Known: func(a netip.AddrPort) bool { return eng.finder.Known(a) },
	})
}

// isAddr reports whether a saved text is the IP address and the port of another node. The text may
// come from an editor, or from a member that told the others nonsense.
func isAddr(text string) bool {
	_, err := netip.ParseAddrPort(text)
	return err == nil && peers.Check(text) == ""
}

// gossipPeers returns the peers for gossip.
func (eng *Engine) gossipPeers() []member.Peer {
	var all []member.Peer
	for _, e := range eng.peers.Entries() {
		all = append(all, member.Peer{Text: e.Text(), LookUp: e.LookUp, Changes: e.Changes()})
	}
	return all
}

// saveAndDial has the node's pending states stored, and the wanted nodes dialed.
func (l *loop) saveAndDial() {
	if !l.electorate.dynamic {
		return
	}
	for _, state := range l.node.Saves() {
		l.engine.stateWriter.Save(state) // has room: the next state comes only after saved
	}
	for _, c := range l.node.RegisterCalls() {
		l.engine.registerCalls <- c // has room: the next call comes only after registered
	}
	if l.electorate.dialsStale {
		l.electorate.dialsStale = false
		l.engine.seek()
	}
}

// seek has the finder look for the nodes that this node needs. Only the loop calls seek, and the
// start of the node before the loop runs.
func (eng *Engine) seek() {
	node := eng.loop.node
	// A node without a vote isn't born: others like it that accept the node show nothing.
	lacks, barred := node.LacksElectorate(), node.IsBarred()
	eng.finder.SetLacksElectorate(lacks, barred || lacks && eng.cfg.NonVoting, barred && node.MayMeshBeAlive())
	eng.finder.Want(node.Wanted())
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
