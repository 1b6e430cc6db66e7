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

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Mesh is this process's node in a mesh. Its methods may be called from any goroutine. End it with Leave or Close.
type Mesh struct {
	cfg    Config
	self   vote.SessionID
	clocks clocks
	log    *slog.Logger // hands on to the configured logger without ever waiting for it
	lines  *journal

	loop    *loop
	links   world.Links
	group   member.Group
	book    *book
	dialers *dialers
	greeter *greeter
	keeper  *keeper  // of the state directory; nil where the electorate is fixed
	known   []string // where others were in an earlier life, by the state directory
	crier   *crier   // who tells the loop what gossip knows; nil where the electorate is fixed

	ctx  context.Context // ends when the node stops
	stop context.CancelFunc
	work sync.WaitGroup // the node's own goroutines

	spares   spares
	marks    atomic.Uint64
	leaving  atomic.Bool
	left     chan struct{} // closed when Leave has ended
	leaveErr error         // written before left is closed
	closing  sync.Once
	closeErr error
}

// Join starts this process's node and returns as soon as it listens and, if it is a voter, votes; quietly at first. It waits for
// nobody else: use [Mesh.Ready] for that. ctx bounds the call, not the mesh.
//
// With [Config].StateDir it first takes the directory for itself, and returns before anything is written there. A voter votes, and a node that isn't one
// takes locks, as soon as it knows an electorate: [Mesh.Status] says what it waits for.
//
// The error is ErrConfig for a configuration that can't be used, an address that can't be listened on included, and ErrState for a state directory
// that can't be used, with a text that says what to do. A node that the others refuse learns of it later, as ErrRefused from its calls.
func Join(ctx context.Context, cfg Config) (*Mesh, error) { return join(ctx, cfg, realWorld) }

// join is Join in any world; see [world.Join].
func join(ctx context.Context, cfg Config, w world.World) (*Mesh, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: ended(ctx)}
	}
	cfg, _ = cfg.withDefaults()
	m := &Mesh{cfg: cfg, clocks: newClocks(cfg.Clock), left: make(chan struct{})}
	m.self = vote.SessionID{Node: vote.NodeID(cfg.Name), Life: newLife()}
	voters := m.voters()
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.lines = newJournal()
	m.log = slog.New(m.lines.handler(cfg.Logger.Handler()))
	following, err := m.openState(w)
	if err != nil {
		m.stop()
		m.lines.close()
		return nil, &Error{Op: "join", Reason: ErrState, Err: err}
	}
	if err := m.open(w, voters, following); err != nil {
		if m.keeper != nil {
			err = errors.Join(err, m.keeper.dir.Close())
		}
		m.stop()
		m.lines.close()
		return nil, &Error{Op: "join", Reason: ErrConfig, Err: err}
	}
	if m.keeper != nil {
		go m.keeper.run()
		m.work.Go(func() { m.crier.run(m.ctx) })
	}
	m.dialers.want(m.loop.node.Wanted())
	m.work.Go(func() { m.loop.run(m.ctx) })
	m.work.Go(func() { m.greeter.run(m.ctx) })
	m.sayHello(voters, following)
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: errors.Join(ended(ctx), m.Close())}
	}
	return m, nil
}

// open makes the parts of the node, and listens. Nothing but the parts' own goroutines runs yet: what comes in waits in the mailbox.
func (m *Mesh) open(w world.World, voters []vote.NodeID, following *node.Following) error {
	core, err := node.New(node.Config{
		Name: m.self.Node, Life: m.self.Life, Voters: voters, TTL: m.cfg.TTL, MaxTTL: m.cfg.MaxTTL, Following: following,
	}, m.clocks.now())
	if err != nil {
		return err
	}
	m.loop = newLoop(m, core)
	m.greeter = newGreeter(m)
	m.dialers = &dialers{m: m}
	if following == nil {
		m.book = newBook(voters)
	} else {
		m.book = newBook(nil)
		m.crier = newCrier(m)
		m.loop.voting = newVoting(following)
	}
	m.links, err = w.Listen(transport.Config{
		Bind: m.cfg.Bind, Advertise: m.cfg.Advertise, Secret: m.cfg.Secret, Self: m.self, Logger: m.log,
		Terms:   transport.Terms{Mesh: m.cfg.Mesh, MaxTTL: m.cfg.MaxTTL, Voters: voters, Following: following != nil},
		Handler: linkHandler{m},
	})
	if err != nil {
		return err
	}
	m.loop.links = m.links
	if m.group, err = m.startGossip(w, voters, following); err != nil {
		m.loop.box.close() // nobody will ever take what peers have said, and closing waits for those who bring it
		return errors.Join(err, m.links.Close())
	}
	return nil
}

func (m *Mesh) startGossip(w world.World, voters []vote.NodeID, following *node.Following) (member.Group, error) {
	host, port, err := net.SplitHostPort(m.links.AdvertiseAddr())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	var dir vote.Dir
	if following != nil {
		dir = following.State.Dir
	}
	return w.Gossip(m.links, member.Config{
		Self: m.self, Dir: dir, AdvertiseHost: host, AdvertisePort: number, Mesh: m.cfg.Mesh,
		Terms: member.Terms{
			VersionMin: transport.OldestVersion, VersionMax: transport.WireVersion, RhoPerMille: vote.RhoPerMille, MaxTTL: m.cfg.MaxTTL, Voters: voters,
			Following: following != nil,
		},
		Peers: m.peers(), Logger: m.log, Handler: m.onGossip, Greet: m.links.Greet,
	})
}

// sayHello logs what this node is, and what an operator may not have meant.
func (m *Mesh) sayHello(voters []vote.NodeID, following *node.Following) {
	if len(m.cfg.Secret) == 0 && m.cfg.Insecure {
		m.log.Warn("no secret is set: whoever reaches the port is a member, and traffic is plain text")
	}
	if following != nil {
		m.sayFollowing(following)
		return
	}
	m.log.Info("node started", "name", m.self.Node, "mesh", m.cfg.Mesh, "life", lifeText(m.self.Life), "addr", m.Addr(),
		"voters", m.cfg.Voters, "max_ttl", m.cfg.MaxTTL, "ttl", m.cfg.TTL)
	if n := len(voters); n%2 == 0 {
		m.log.Warn("an even number of voters survives no more losses than one voter fewer", "voters", n, "majority", n/2+1)
	}
	if !slices.Contains(voters, m.self.Node) {
		m.log.Info("this node is no voter: it takes locks and grants none", "name", m.self.Node)
	}
}

func (m *Mesh) voters() []vote.NodeID {
	voters := make([]vote.NodeID, 0, len(m.cfg.Voters))
	for _, v := range m.cfg.Voters {
		voters = append(voters, vote.NodeID(v))
	}
	slices.Sort(voters)
	return voters
}

// newLife draws the life of a process. Zero stands for none.
func newLife() vote.Life {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(vote.Life(binary.NativeEndian.Uint64(b[:])), 1)
}

// Name returns the node's name.
func (m *Mesh) Name() string { return string(m.self.Node) }

// Addr returns the address, host:port, at which others reach this node. It goes into their Peers. With Bind at port 0 it has the
// port that the system chose.
func (m *Mesh) Addr() string { return m.links.AdvertiseAddr() }

// Lock waits until the key is held, or ctx ends. The oldest of the requests that wait gets it next.
//
// When ctx ends first, the error is ctx's and also says what kept the request waiting: [ErrHeld] or [ErrNoQuorum]. (With a ctx that
// has ended before, nobody is asked, and it is ErrNoQuorum.) Other errors are [ErrKey], [ErrRefused], [ErrBusy] and [ErrClosed].
// With an error there is no lease, and none is left behind: a grant that comes too late is given back.
func (m *Mesh) Lock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "lock", newWish(key, vote.Exclusive, false, opts))
}

// TryLock asks for the key and doesn't wait behind others: it returns as soon as the outcome is known, or ctx ends. [ErrHeld] says
// that somebody else has the key, or wins it at this moment; [ErrNoQuorum] that nobody can know, which is certain after one TTL at
// the latest. Of any number of TryLocks on a free key exactly one wins, while a majority is up and nothing fails. Other errors are
// as with Lock.
func (m *Mesh) TryLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "trylock", newWish(key, vote.Exclusive, true, opts))
}

// Do locks the key, calls f, and unlocks after f has returned, never before: not when ctx ends, and not when the lease is lost,
// though f's context ends in both cases and f should return soon. It also unlocks when f panics or ends its goroutine.
//
// The error joins that of f and that of Unlock: if the lease was lost while f ran, it is ErrLost even if f returned nil. Waiting
// for Unlock takes one TTL at most. f may unlock by itself, earlier.
func (m *Mesh) Do(ctx context.Context, key string, f func(context.Context, *Lease) error, opts ...Option) (err error) {
	lease, err := m.acquire(ctx, "lock", newWish(key, vote.Exclusive, false, opts))
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

// Leave says goodbye: it gives back every lease, so that waiters elsewhere go on at once, tells gossip that this node is gone for
// good, and closes. Held leases end with ErrReleased, calls under way with ErrClosed.
//
// Where the electorate follows the living, a voter then has itself voted out, and waits for that, which takes MaxTTL and a little more; the others go on
// as without it. Give ctx three MaxTTL or so. A voter that the others can't do without stays one: the only one, one of two where no other node stands by, or
// one whose fellow voters are gone. It leaves all the same, as soon as it knows, shortly before ctx ends, or after ten MaxTTL; the error is ErrVoter: the
// others need it for their majority until it is back, with its directory, or until it is voted out. A node that is no voter leaves at once.
//
// The error says what is unconfirmed when it is ErrNoQuorum or ctx's; the mesh is closed all the same. Further calls wait for the first.
func (m *Mesh) Leave(ctx context.Context) error {
	if m.leaving.Swap(true) {
		select {
		case <-m.left:
			return m.leaveErr
		case <-ctx.Done():
			return &Error{Op: "leave", Text: "another call of Leave is under way", Err: ended(ctx)}
		}
	}
	defer close(m.left)
	err := m.giveBack(ctx)
	err = errors.Join(err, m.giveUpVote(ctx))
	select {
	case <-m.loop.done: // closed meanwhile: there is nobody left to say goodbye
	default:
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

// giveBack releases all leases and waits until the voters have confirmed.
func (m *Mesh) giveBack(ctx context.Context) error {
	gone := make(chan error, 1)
	m.loop.box.post(false, func(now vote.Now) { m.loop.giveAllBack(now, gone) })
	select {
	case err := <-gone:
		return err
	case <-m.loop.done:
		return nil
	case <-ctx.Done():
		return &Error{Op: "leave", Text: "not all leases are confirmed to be released", Err: ended(ctx)}
	}
}

// Close stops the node at once, without a word; from outside it looks like a crash. Leases end here, with an error that is ErrLost
// and ErrClosed, and lapse at the voters within a TTL; calls under way end with ErrClosed. When Close returns every goroutine of
// the node has ended, which takes a few hundred milliseconds. Further calls wait for the first.
func (m *Mesh) Close() error {
	m.closing.Do(func() {
		m.stop()
		<-m.loop.done // the leases have ended before anyone can see that we are gone
		gossip := make(chan error, 1)
		go func() { gossip <- m.group.Close() }()
		m.closeErr = errors.Join(m.links.Close(), <-gossip)
		m.work.Wait()
		m.closeErr = errors.Join(m.closeErr, m.closeState())
		m.lines.close()
	})
	return m.closeErr
}
