// Package engine runs one node of a mesh, beneath the API. It feeds calls, messages and the time to
// the core (package node), sends the core's messages, and answers the calls. The API above has the
// types that applications see; the outside (links, gossip, disk) is behind the interfaces of
// package world.
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
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/logqueue"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Config is the configuration of a node, complete and valid. The fields of lockmesh.Config with the
// same names document it.
type Config struct {
	Name, Mesh, Bind, Advertise string
	Peers, Voters               []string
	StateDir                    string
	Bootstrap                   bool
	MaxVoters                   int
	MaxTTL, TTL                 time.Duration
	Secret                      []byte
	Insecure                    bool
	Logger                      *slog.Logger
	Clocks                      clock.Clocks

	API    API
	Limits Limits
}

// API is what the engine asks of the package above: the types that applications see. The loop calls
// the methods, which must not block.
type API interface {
	// Error returns the error for a failed call.
	Error(errs.Failure) error
	// UnlockError returns the error of a call that finds the lease of a key ended for a reason.
	UnlockError(key string, reason error) error
	// NewLease returns a new lease, and the value by which the API knows the lease.
	NewLease() (lease *Lease, handle any)
	// NewRevocations returns a queue for the revoke requests of a lease.
	NewRevocations() Revocations
}

// Limits are limits documented by the API.
type Limits struct {
	Watches int           // open watches, and as many watches of the electorate
	Peers   int           // addresses to dial
	MinTTL  time.Duration // the shortest TTL of a lease
}

// Engine runs a node. The methods may be called from any goroutine.
type Engine struct {
	cfg      Config
	self     vote.SessionID
	clocks   clock.Clocks
	log      *slog.Logger // passes lines on to the configured logger without ever waiting
	logQueue *logqueue.Queue

	loop   *loop
	links  world.Links
	group  member.Group
	finder *discovery.Finder
	// the state directory and its writer; nil if the electorate is fixed
	stateDir    world.StateDir
	stateWriter *statedir.Writer
	savedPeers  []string // addresses of nodes met in an earlier incarnation, from the state directory

	accounts accounts
	pools    pools

	ctx  context.Context // ends when the node stops
	stop context.CancelFunc
	work sync.WaitGroup // the node's own goroutines
}

// Start starts a node. It returns as soon as the node listens. ctx bounds only the wait for the
// disk of the state directory. The caller ends the node by Close.
func Start(ctx context.Context, cfg Config, w world.World) (*Engine, error) {
	eng := &Engine{cfg: cfg, clocks: cfg.Clocks}
	eng.self = vote.SessionID{Node: vote.NodeID(cfg.Name), Incarnation: newIncarnation()}
	voters := eng.voters()
	eng.ctx, eng.stop = context.WithCancel(context.Background())
	eng.logQueue = logqueue.New()
	eng.log = slog.New(eng.logQueue.Handler(cfg.Logger.Handler()))
	dynamic, err := eng.openState(ctx, w)
	if err != nil {
		eng.stop()
		eng.logQueue.Close()
		return nil, err
	}
	if err := eng.open(w, voters, dynamic); err != nil {
		if eng.stateWriter != nil {
			err = errors.Join(err, eng.stateDir.Close())
		}
		eng.stop()
		eng.logQueue.Close()
		return nil, eng.fail(errs.Failure{Op: "join", Reason: errs.Config, Err: err})
	}
	if eng.stateWriter != nil {
		go eng.stateWriter.Run(eng.loop.done)
	}
	eng.finder.Want(eng.loop.node.Wanted())
	eng.work.Go(func() { eng.loop.run(eng.ctx) })
	eng.finder.Run(eng.group)
	eng.logStart(voters, dynamic)
	return eng, nil
}

// open makes the parts of the node and listens. Apart from the parts' own goroutines nothing runs
// yet: inputs wait in the mailbox.
func (eng *Engine) open(w world.World, voters []vote.NodeID, dynamic *node.Following) error {
	core, err := node.New(node.Config{
		Name: eng.self.Node, Life: eng.self.Incarnation, Voters: voters, TTL: eng.cfg.TTL, MaxTTL: eng.cfg.MaxTTL, Following: dynamic,
	}, eng.clocks.Now())
	if err != nil {
		return err
	}
	eng.loop = newLoop(eng, core)
	eng.accounts.update(eng.clocks.Now(), core)
	if dynamic != nil {
		eng.loop.electorate = newElectorateState(dynamic)
	}
	eng.finder = discovery.New(eng.ctx, discovery.Config{
		Host: host{eng}, Self: eng.self, Terms: vote.Terms{Voters: voters, MaxTTL: eng.cfg.MaxTTL, Dynamic: dynamic != nil},
		Peers: eng.peers(), Clocks: eng.clocks, Log: eng.log, Slots: w.Dials, Voter: eng.canVote(voters),
	})
	eng.links, err = w.Listen(transport.Config{
		Bind: eng.cfg.Bind, Advertise: eng.cfg.Advertise, Secret: eng.cfg.Secret, Self: eng.self, Logger: eng.log,
		Terms:   transport.Terms{Mesh: eng.cfg.Mesh, MaxTTL: eng.cfg.MaxTTL, Voters: voters, Following: dynamic != nil},
		Handler: linkHandler{eng}, Account: eng.account, Met: eng.onMet, Bars: eng.linkRefusal,
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

func (eng *Engine) startGossip(w world.World, voters []vote.NodeID, dynamic *node.Following) (member.Group, error) {
	host, port, err := net.SplitHostPort(eng.links.AdvertiseAddr())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	var dir vote.Dir
	if dynamic != nil {
		dir = dynamic.State.Dir
	}
	return w.Gossip(eng.links, member.Config{
		Self: eng.self, Dir: dir, AdvertiseHost: host, AdvertisePort: number, Mesh: eng.cfg.Mesh,
		Terms: member.Terms{
			VersionMin: transport.OldestVersion, VersionMax: transport.WireVersion, RhoPerMille: vote.RhoPerMille, MaxTTL: eng.cfg.MaxTTL, Voters: voters,
			Following: dynamic != nil,
		},
		Peers: eng.peers(), Logger: eng.log, Handler: eng.finder.Gossip, Strange: eng.finder.Excluded, Greet: eng.links.Greet,
	})
}

// logStart logs the start of this node, and warns of settings that may not be intended.
func (eng *Engine) logStart(voters []vote.NodeID, dynamic *node.Following) {
	if len(eng.cfg.Secret) == 0 && eng.cfg.Insecure {
		eng.log.Warn("no secret is set: any process that reaches the port becomes a member, " +
			"and traffic is plain text")
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
func (eng *Engine) canVote(voters []vote.NodeID) bool {
	return eng.stateWriter != nil || slices.Contains(voters, eng.self.Node)
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

// Self returns the node's name and incarnation.
func (eng *Engine) Self() vote.SessionID { return eng.self }

// Addr returns the address, host:port, at which other nodes reach this node.
func (eng *Engine) Addr() string { return eng.links.AdvertiseAddr() }

// Clocks returns the node's clocks.
func (eng *Engine) Clocks() clock.Clocks { return eng.clocks }

// Members returns the nodes known to gossip.
func (eng *Engine) Members() []member.Member { return eng.group.Members() }

// LinkStats returns the counters of the transport.
func (eng *Engine) LinkStats() transport.Stats { return eng.links.Stats() }

// IsDynamic reports whether membership of the electorate is dynamic.
func (eng *Engine) IsDynamic() bool { return eng.stateWriter != nil }

// Done returns a channel that is closed when the node has ended: no call is answered any more.
func (eng *Engine) Done() <-chan struct{} { return eng.loop.done }

// Closing returns a channel that is closed when Close begins.
func (eng *Engine) Closing() <-chan struct{} { return eng.ctx.Done() }

// IsClosing reports whether Close has begun.
func (eng *Engine) IsClosing() bool { return eng.ctx.Err() != nil }

// Log returns the node's log.
func (eng *Engine) Log() *slog.Logger { return eng.log }

func (eng *Engine) fail(f errs.Failure) error { return eng.cfg.API.Error(f) }

// Post has the loop call do, which must not block. Urgent calls overtake the others. Post returns
// false if the node has ended.
func (eng *Engine) Post(urgent bool, do func(now vote.Now)) bool {
	return eng.loop.box.post(urgent, do)
}

// Links returns the nodes to which this node wants links, and whether each link is up.
func (eng *Engine) Links() map[vote.NodeID]bool { return eng.finder.Links() }

// Leave releases every lease, has a voter voted out, and says goodbye to the other nodes. The error
// says what is unconfirmed. The caller then calls Close.
func (eng *Engine) Leave(ctx context.Context) error {
	err := eng.releaseAll(ctx)
	err = errors.Join(err, eng.LeaveElectorate(ctx))
	select {
	case <-eng.loop.done: // closed meanwhile: no goodbye can be sent
		return err
	default:
	}
	eng.retire(ctx)
	goodbye, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(eng.ctx, func() { cancel(errs.Closed) })()
	if leaveErr := eng.group.Leave(goodbye); leaveErr != nil {
		err = errors.Join(err, eng.fail(errs.Failure{Op: "leave", Err: leaveErr}))
	}
	return err
}

// releaseAll releases all leases and waits for the voters' confirmations.
func (eng *Engine) releaseAll(ctx context.Context) error {
	gone := make(chan error, 1)
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.releaseAll(now, gone) })
	select {
	case err := <-gone:
		return err
	case <-eng.loop.done:
		return nil
	case <-ctx.Done():
		return eng.fail(errs.Failure{
			Op: "leave", Text: "not all leases are confirmed to be released", Err: errs.OfContext(ctx),
		})
	}
}

// Close stops the node at once, without notice, and returns when every goroutine of the node has
// ended. It is called once.
func (eng *Engine) Close() error {
	eng.stop()
	// The leases end before other nodes can see that this node is gone.
	<-eng.loop.done
	gossip := make(chan error, 1)
	go func() { gossip <- eng.group.Close() }()
	err := errors.Join(eng.links.Close(), <-gossip)
	eng.work.Wait()
	eng.finder.Wait()
	err = errors.Join(err, eng.closeState())
	eng.logQueue.Close()
	return err
}

// Spawn starts a goroutine of the node, for which Close waits.
func (eng *Engine) Spawn(f func()) error {
	started := make(chan struct{})
	err := eng.loop.box.putCall(func(vote.Now) {
		eng.work.Go(f)
		close(started)
	})
	if err != nil {
		return err
	}
	select {
	case <-started:
		return nil
	case <-eng.loop.done:
		return errs.Closed
	}
}
