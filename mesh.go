package lockmesh

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
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/logqueue"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/realworld"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Mesh is this process's node in a mesh. The methods may be called from any goroutine. Leave or
// Close ends the node.
type Mesh struct {
	*engine
	uniqueValues atomic.Uint64
	leaving      atomic.Bool
	left         chan struct{} // closed when Leave has ended
	leaveErr     error         // written before left is closed
	closing      sync.Once
	closeErr     error
}

// engine runs the node of a mesh, beneath the API.
type engine struct {
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

// Join starts this process's node. It returns as soon as the node listens and, if the node is a
// voter, votes, at first quietly. Join doesn't wait for other nodes: use [Mesh.Ready] for this. ctx
// bounds the call, also if the disk of the state directory doesn't answer; ctx doesn't bound the
// life of the mesh.
//
// With [Config].StateDir, Join first takes the directory for this node alone, and returns before
// writing to it. A voter then votes, and any other node takes locks, as soon as the node knows an
// electorate: [Mesh.Status] says what the node is waiting for.
//
// Errors: ErrConfig for an unusable configuration, including an address that the node can't listen
// on; ErrState for an unusable state directory, with a text that says what to do; or ctx's. A node
// refused by the others learns of the refusal later, as ErrRefused from its calls.
func Join(ctx context.Context, cfg Config) (*Mesh, error) {
	checkContext(ctx, "Join")
	return join(ctx, cfg, realworld.World)
}

func init() { world.Join = join }

// join is Join in any world; see [world.Join].
func join(ctx context.Context, cfg Config, w world.World) (*Mesh, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: contextError(ctx)}
	}
	cfg, _ = cfg.withDefaults()
	eng, err := startEngine(ctx, cfg, w)
	if err != nil {
		return nil, err
	}
	m := &Mesh{engine: eng, left: make(chan struct{})}
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: errors.Join(contextError(ctx), m.Close())}
	}
	return m, nil
}

// startEngine starts a node. The configuration is complete and valid.
func startEngine(ctx context.Context, cfg Config, w world.World) (*engine, error) {
	eng := &engine{cfg: cfg, clocks: clock.New(cfg.Clock)}
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
		return nil, &Error{Op: "join", Reason: ErrConfig, Err: err}
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
func (eng *engine) open(w world.World, voters []vote.NodeID, dynamic *node.Following) error {
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

func (eng *engine) startGossip(w world.World, voters []vote.NodeID, dynamic *node.Following) (member.Group, error) {
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
func (eng *engine) logStart(voters []vote.NodeID, dynamic *node.Following) {
	if len(eng.cfg.Secret) == 0 && eng.cfg.Insecure {
		eng.log.Warn("no secret is set: any process that reaches the port becomes a member, " +
			"and traffic is plain text")
	}
	if dynamic != nil {
		eng.logDynamicStart(dynamic)
		return
	}
	eng.log.Info("node started", "name", eng.self.Node, "mesh", eng.cfg.Mesh,
		"incarnation", incarnationText(eng.self.Incarnation), "addr", eng.links.AdvertiseAddr(),
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
func (eng *engine) canVote(voters []vote.NodeID) bool {
	return eng.stateWriter != nil || slices.Contains(voters, eng.self.Node)
}

func (eng *engine) voters() []vote.NodeID {
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

// Name returns the node's name.
func (m *Mesh) Name() string {
	m.checkUsable("Mesh.Name")
	return string(m.self.Node)
}

// Addr returns the address, host:port, at which other nodes reach this node, for their Peers. If
// Bind has port 0, the address has the port chosen by the system.
func (m *Mesh) Addr() string {
	m.checkUsable("Mesh.Addr")
	return m.links.AdvertiseAddr()
}

// Lock waits until the key is held, or ctx ends. Waiting requests are served in order of age, the
// oldest first.
//
// If ctx ends first, the error is ctx's and also says why the request was still waiting: [ErrHeld]
// or [ErrNoQuorum]. (If ctx had ended before the call, no voter is asked, and the error is
// ErrNoQuorum.) Other errors are [ErrKey], [ErrOption], [ErrClash], [ErrRefused], [ErrBusy] and
// [ErrClosed]. On error there is no lease, and none is left behind: a late grant is given back.
func (m *Mesh) Lock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	m.checkUsable("Mesh.Lock")
	checkContext(ctx, "Mesh.Lock")
	return m.acquire(ctx, "lock", newAcquireOptions(key, vote.Exclusive, false, opts))
}

// TryLock requests the key without waiting behind others: it returns as soon as the outcome is
// known, or ctx ends. [ErrHeld] means that the key is held by another lease, or is being granted to
// another request; [ErrNoQuorum] means that the state of the key can't be known, which is certain
// after one TTL at the latest. Of any number of TryLocks on a free key exactly one wins, while a
// majority is up and nothing fails. Other errors are as with Lock.
func (m *Mesh) TryLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	m.checkUsable("Mesh.TryLock")
	checkContext(ctx, "Mesh.TryLock")
	return m.acquire(ctx, "trylock", newAcquireOptions(key, vote.Exclusive, true, opts))
}

// Do locks the key, calls f, and unlocks after f has returned, never before: neither when ctx ends
// nor when the lease is lost, though f's context ends in both cases and f should return soon. Do
// also unlocks when f panics or ends its goroutine.
//
// The error joins the errors of f and of Unlock: if the lease was lost while f ran, the error is
// ErrLost even if f returned nil. Waiting for Unlock takes one TTL at most. f may call Unlock
// earlier.
func (m *Mesh) Do(ctx context.Context, key string, f func(context.Context, *Lease) error, opts ...Option) (err error) {
	m.checkUsable("Mesh.Do")
	checkContext(ctx, "Mesh.Do")
	checkFunc(f != nil, "Mesh.Do")
	lease, err := m.acquire(ctx, "lock", newAcquireOptions(key, vote.Exclusive, false, opts))
	if err != nil {
		return err
	}
	inner, free := lease.during(ctx)
	defer func() {
		byItself := lease.unlocked.Load()
		unlockErr := lease.Unlock(context.WithoutCancel(ctx))
		free()
		if byItself && errors.Is(unlockErr, ErrReleased) {
			unlockErr = nil
		}
		err = errors.Join(err, unlockErr)
	}()
	return f(inner, lease)
}

// Leave ends the node in good order: it releases every lease, so waiters on other nodes proceed at
// once, tells gossip that this node is gone for good, and closes the mesh. Held leases end with
// ErrReleased, calls under way with ErrClosed.
//
// With dynamic membership, Leave also has a voter voted out and waits for the result, which takes
// MaxTTL and a little more; locks are granted meanwhile. If no other node takes the place, three
// voters become two, and neither of the two may fail: to stop a node that will come back, use
// Close. Give ctx about three MaxTTL. A node stays a voter if the others can't do without its vote:
// the only voter, one of two voters without a node on standby, or a voter with unreachable fellow
// voters. Leave ends such a node nevertheless, as soon as this is known, shortly before ctx ends,
// or after ten MaxTTL; the error is ErrVoter: the other voters need the node for their majority
// until it is back with its directory, or until it is voted out. A node that is no voter leaves at
// once.
//
// ErrNoQuorum or ctx's error says what is unconfirmed; the mesh is closed in any case. Further
// calls wait for the first.
func (m *Mesh) Leave(ctx context.Context) error {
	m.checkUsable("Mesh.Leave")
	checkContext(ctx, "Mesh.Leave")
	if m.leaving.Swap(true) {
		select {
		case <-m.left:
			return m.leaveErr
		case <-ctx.Done():
			return &Error{Op: "leave", Text: "another call of Leave is under way", Err: contextError(ctx)}
		}
	}
	defer close(m.left)
	ctx, free := m.detachFromLeases(ctx) // ctx may be a lease's, which ends here
	defer free()
	err := m.releaseAll(ctx)
	err = errors.Join(err, m.leaveElectorate(ctx))
	select {
	case <-m.loop.done: // closed meanwhile: no goodbye can be sent
	default:
		m.retire(ctx)
		goodbye, cancel := context.WithCancelCause(ctx)
		unhook := context.AfterFunc(m.ctx, func() { cancel(ErrClosed) })
		if leaveErr := m.group.Leave(goodbye); leaveErr != nil {
			err = errors.Join(err, &Error{Op: "leave", Err: leaveErr})
		}
		unhook()
		cancel(nil)
	}
	m.leaveErr = errors.Join(err, m.Close())
	return m.leaveErr
}

// releaseAll releases all leases and waits for the voters' confirmations.
func (eng *engine) releaseAll(ctx context.Context) error {
	gone := make(chan error, 1)
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.releaseAll(now, gone) })
	select {
	case err := <-gone:
		return err
	case <-eng.loop.done:
		return nil
	case <-ctx.Done():
		return &Error{Op: "leave", Text: "not all leases are confirmed to be released", Err: contextError(ctx)}
	}
}

// Close stops the node at once, without notice; to other nodes the end looks like a crash. Leases
// end here, with an error that is both ErrLost and ErrClosed, and expire at the voters within a
// TTL; calls under way end with ErrClosed. Close returns when every goroutine of the node has
// ended, within a few hundred milliseconds as a rule. A hung disk delays Close for up to 5 s, and
// the error is then ErrState. Further calls wait for the first.
func (m *Mesh) Close() error {
	m.checkUsable("Mesh.Close")
	m.closing.Do(func() {
		m.stop()
		// The leases end before other nodes can see that this node is gone.
		<-m.loop.done
		gossip := make(chan error, 1)
		go func() { gossip <- m.group.Close() }()
		m.closeErr = errors.Join(m.links.Close(), <-gossip)
		m.work.Wait()
		m.finder.Wait()
		m.closeErr = errors.Join(m.closeErr, m.closeState())
		m.logQueue.Close()
	})
	return m.closeErr
}
