package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/logqueue"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Start starts a node. It returns as soon as the node listens. ctx bounds only the wait for the
// disk of the state directory. The caller ends the node by Close.
func Start(ctx context.Context, cfg Config, w world.World) (*Engine, error) {
	eng := &Engine{cfg: cfg, clocks: cfg.Clocks, newDirs: make(chan vote.Dir, 1), registerCalls: make(chan vote.RegisterCall, 1)}
	eng.self = vote.SessionID{Node: vote.NodeID(cfg.Name), Incarnation: newIncarnation()}
	voters := eng.voters()
	eng.ctx, eng.stop = context.WithCancel(context.Background())
	eng.logQueue = logqueue.New()
	eng.log = slog.New(eng.logQueue.Handler(cfg.Logger.Handler()))
	if cfg.Observer != nil {
		eng.observer = eng.newObserver()
	}
	dynamic, err := eng.openState(ctx, w)
	if err != nil {
		eng.stop()
		eng.closeQueues()
		return nil, err
	}
	if err := eng.open(ctx, w, voters, dynamic); err != nil {
		if eng.stateWriter != nil {
			err = errors.Join(err, eng.stateDir.Close())
		}
		eng.stop()
		eng.closeQueues()
		if ctx.Err() != nil {
			return nil, eng.fail(errs.Failure{Op: "join", Text: err.Error(), Err: errs.OfContext(ctx)})
		}
		return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.Config, Err: err})
	}
	if eng.stateWriter != nil {
		go eng.stateWriter.Run(eng.loop.done)
	}
	if eng.IsBornByCount() {
		eng.work.Go(eng.publishDirs)
	}
	if eng.cfg.Register != nil {
		eng.work.Go(eng.callRegister)
	}
	eng.seek()
	eng.work.Go(func() { eng.loop.run(eng.ctx) })
	eng.finder.Run(eng.group)
	eng.logStart(voters, dynamic)
	return eng, nil
}

// open makes the parts of the node and listens. Apart from the parts' own goroutines nothing runs
// yet: inputs wait in the mailbox.
func (eng *Engine) open(ctx context.Context, w world.World, voters []vote.NodeID, dynamic *node.Dynamic) error {
	core, err := node.New(node.Config{
		Name: eng.self.Node, Incarnation: eng.self.Incarnation, Voters: voters, TTL: eng.cfg.TTL, MaxTTL: eng.cfg.MaxTTL, Dynamic: dynamic, Birth: eng.cfg.Birth,
		Renewals: eng.cfg.Observer != nil && eng.cfg.Observer.Renewed != nil,
	}, eng.clocks.Now())
	if err != nil {
		return err
	}
	if eng.cfg.NonVoting {
		core.LeaveElectorate(eng.clocks.Now())
	}
	eng.loop = newLoop(eng, core)
	eng.accounts.update(eng.clocks.Now(), core)
	if dynamic != nil {
		eng.loop.electorate = newElectorateState(dynamic, eng.clocks.Now())
	}
	isDynamic := dynamic != nil && !dynamic.FromFixed // a converting node counts as fixed
	eng.peers = eng.newPeers()
	eng.finder = discovery.New(eng.ctx, discovery.Config{
		Host: host{eng}, Self: eng.self, Terms: vote.Terms{Voters: voters, MaxTTL: eng.cfg.MaxTTL, Dynamic: isDynamic, Birth: eng.cfg.Birth}, Dynamic: dynamic != nil,
		Peers: eng.peers, Clocks: eng.clocks, Log: eng.log, Turns: w.Dials, Voter: eng.canVote(),
	})
	eng.links, err = w.Listen(ctx, transport.Config{
		Bind: eng.cfg.Bind, Advertise: eng.cfg.Advertise, Secrets: eng.cfg.Secrets,
		Self: eng.self, Logger: eng.log,
		Terms: transport.Terms{
			Mesh: eng.cfg.Mesh, MaxTTL: eng.cfg.MaxTTL, Voters: voters, Dynamic: isDynamic, Converting: eng.cfg.FromFixed, Birth: eng.cfg.Birth,
		},
		Handler: linkHandler{eng}, Account: eng.account, Versions: eng.versions, Met: eng.onMet, LinkRefusal: eng.linkRefusal, Converted: eng.isConverted,
	})
	if err != nil {
		return err
	}
	eng.loop.links = eng.links
	eng.finder.Connect(eng.links)
	if eng.group, err = eng.startGossip(w, voters, dynamic); err != nil {
		// The loop will never process the peers' messages, and closing the links waits for their
		// readers.
		eng.loop.box.close()
		return errors.Join(err, eng.links.Close())
	}
	return nil
}

func (eng *Engine) startGossip(w world.World, voters []vote.NodeID, dynamic *node.Dynamic) (member.Group, error) {
	host, port, err := net.SplitHostPort(eng.links.AdvertiseAddr())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	var dir vote.Dir
	if dynamic != nil && (!eng.cfg.NonVoting && !dynamic.FromFixed || eng.loop.node.Votes()) {
		// Voters want connections to all nodes with a directory. A converting node can't be voted
		// in.
		dir = dynamic.State.Dir
	}
	return w.Gossip(eng.links, member.Config{
		Self: eng.self, Dir: dir, AdvertiseHost: host, AdvertisePort: number, Mesh: eng.cfg.Mesh,
		Terms: member.Terms{
			VersionMin: transport.OldestVersion, VersionMax: transport.WireVersion, RhoPerMille: vote.RhoPerMille, MaxTTL: eng.cfg.MaxTTL, Voters: voters,
			Dynamic: dynamic != nil && !dynamic.FromFixed, Converting: eng.cfg.FromFixed, Birth: eng.cfg.Birth,
		},
		Peers: eng.gossipPeers(), Logger: eng.log, Handler: eng.finder.Gossip,
		Excluded: eng.finder.Excluded, ProbeAddr: eng.links.Probe,
	})
}

// logStart logs the start of this node, and warns of settings that may not be intended.
func (eng *Engine) logStart(voters []vote.NodeID, dynamic *node.Dynamic) {
	if len(eng.cfg.Secrets) == 0 && eng.cfg.Insecure {
		eng.log.Warn("no secret is set: any process that reaches the port becomes a member, " +
			"and traffic is plain text")
	}
	if eng.IsBornByCount() {
		eng.logCountedStart(dynamic)
		return
	}
	if dynamic != nil {
		eng.logDynamicStart(dynamic)
		return
	}
	eng.log.Info("node started", "name", eng.self.Node, "mesh", eng.cfg.Mesh,
		"incarnation", IncarnationText(eng.self.Incarnation), "addr", eng.links.AdvertiseAddr(),
		"voters", eng.cfg.Voters, "max_ttl", eng.cfg.MaxTTL, "ttl", eng.cfg.TTL)
	if n := len(voters); n%2 == 0 {
		eng.log.Warn("an even number of voters tolerates no more failures than one voter fewer",
			"voters", n, "majority", n/2+1)
	}
	if !slices.Contains(voters, eng.self.Node) {
		eng.log.Info("this node is no voter: it takes locks and grants none", "name", eng.self.Node)
	}
}

// canVote reports whether this node is a voter or may become a voter.
func (eng *Engine) canVote() bool {
	return eng.loop.node.Votes() || eng.dynamic && !eng.cfg.NonVoting
}

func (eng *Engine) voters() []vote.NodeID {
	voters := make([]vote.NodeID, 0, len(eng.cfg.Voters))
	for _, v := range eng.cfg.Voters {
		voters = append(voters, vote.NodeID(v))
	}
	slices.Sort(voters)
	return slices.Compact(voters)
}

// newIncarnation draws the random number of an incarnation. Zero stands for no incarnation.
func newIncarnation() vote.Incarnation {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(vote.Incarnation(binary.NativeEndian.Uint64(b[:])), 1)
}

// logDynamicStart logs the start of a node with dynamic membership.
func (eng *Engine) logDynamicStart(f *node.Dynamic) {
	e := &f.State.Electorate
	eng.log.Info("node started", "name", eng.self.Node, "mesh", eng.cfg.Mesh,
		"incarnation", IncarnationText(eng.self.Incarnation), "addr", eng.links.AdvertiseAddr(),
		"founders", eng.cfg.Voters, "max_voters", eng.cfg.MaxVoters, "max_ttl", eng.cfg.MaxTTL, "ttl", eng.cfg.TTL,
		"state_dir", eng.cfg.StateDir, "dir_id", DirText(f.State.Dir), "electorate", e.Version, "voters", ElectorNames(e.Voters))
	switch {
	case eng.cfg.FromFixed:
		eng.logConverting(e.Version)
	case e.Version > 0 && eng.cfg.Bootstrap:
		eng.warnBootstrap()
	case e.Version > 0:
	case eng.cfg.Bootstrap:
		eng.log.Info("this node bootstraps the electorate as soon as all founders reach each other",
			"founders", eng.cfg.Voters)
	case eng.cfg.NonVoting:
		eng.log.Info("the state directory holds no electorate: this node waits to reach a node of the mesh")
	default:
		eng.log.Info("the state directory holds no electorate: this node waits to reach a node of " +
			"the mesh, and to be voted in")
	}
}

// logConverting logs that this node is being converted from a fixed list of voters. Once the voters
// have changed, the rest of the mesh is converted.
func (eng *Engine) logConverting(version uint64) {
	if version > 1 {
		eng.warnFromFixed()
		return
	}
	eng.log.Info("this node is being converted from fixed voters: once all nodes have been restarted with "+
		"FromFixed, restart them without", "name", eng.self.Node, "state_dir", eng.cfg.StateDir)
}

func (eng *Engine) warnFromFixed() {
	eng.log.Warn("FROMFIXED IS STILL SET though other nodes have been restarted without, and the voters have "+
		"changed: restart this node without FromFixed. Until then it takes no part in changes of the electorate, and links with no fixed node",
		"name", eng.self.Node, "state_dir", eng.cfg.StateDir)
}

// logCountedStart logs the start of a node of a mesh that is born by count.
func (eng *Engine) logCountedStart(f *node.Dynamic) {
	b := eng.cfg.Birth
	eng.log.Info("node started", "name", eng.self.Node, "mesh", eng.cfg.Mesh,
		"incarnation", IncarnationText(eng.self.Incarnation), "addr", eng.links.AdvertiseAddr(),
		"expect", b.Expect, "min_voters", b.MinVoters, "register", b.Register, "max_voters", eng.cfg.MaxVoters, "max_ttl", eng.cfg.MaxTTL, "ttl", eng.cfg.TTL,
		"identity", DirText(f.State.Dir))
	switch {
	case b.Alone():
		eng.log.Info("this mesh is of one process only (Expect is 1), and takes in no other")
	case b.Expect == 2:
		eng.log.Warn("Expect is 2: two voters survive no failure, since both are needed for a "+
			"majority; Expect 3 survives one", "expect", 2)
	case b.Expect%2 == 0:
		eng.log.Warn("an even number of voters tolerates no more failures than one voter fewer",
			"expect", b.Expect, "majority", b.Expect/2+1)
	}
}

func (eng *Engine) warnBootstrap() {
	eng.log.Warn("BOOTSTRAP IS STILL SET though the electorate exists: remove Bootstrap from this "+
		"node's configuration now. If all founders lost their state directories, Bootstrap would "+
		"create a second mesh", "name", eng.self.Node, "state_dir", eng.cfg.StateDir)
}
