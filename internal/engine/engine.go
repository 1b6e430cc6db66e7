// Package engine runs one node of a mesh, beneath the API. It feeds calls, messages and the time to
// the core (package node), sends the core's messages, and answers the calls. The API above has the
// types that applications see; the outside (links, gossip, disk) is behind the interfaces of
// package world.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/logqueue"
	"github.com/lockmesh/lockmesh/internal/peers"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/transport"
)

// Config is the configuration of a node, complete and valid. The fields of lockmesh.Config with the
// same names document it.
type Config struct {
	Name, Mesh, Bind, Advertise string
	Peers, Voters               []string
	Discover                    peers.Discover
	StateDir                    string
	Bootstrap, NonVoting        bool
	FromFixed                   bool              // the node is being converted from a fixed list of voters
	Birth                       vote.Birth        // zero unless the mesh is born by count; then there are no Voters
	Register                    register.Register // nil if there is none
	RegisterTerm                time.Duration
	MaxVoters                   int
	MaxTTL, TTL                 time.Duration
	Secrets                     [][]byte
	Insecure                    bool
	Logger                      *slog.Logger
	Clocks                      clock.Clocks
	Observer                    *Observer // nil if there is none

	API    API
	Limits Limits
}

// API is what the engine asks of the package above: the types that applications see. The loop calls
// the methods, which must not block.
type API interface {
	// Error returns the error for a failed call.
	Error(errs.Failure) error
	// EndError returns the error of a call that finds the lease of a key ended, with the cause of
	// the end and all that the cause says. text says what the call couldn't do; it may be empty.
	EndError(op, key string, cause error, text string) error
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
	observer *observer // nil if there is none

	loop    *loop
	links   world.Links
	inOrder atomic.Bool // Stop or Leave has ended the node's work
	group   member.Group
	finder  *discovery.Finder
	dynamic bool          // membership of the electorate is dynamic
	newDirs chan vote.Dir // identities to publish in gossip; capacity 1
	// registerCalls are the calls of the register to make; nil if there is none. It has room for
	// the one call that the node makes at a time.
	registerCalls chan vote.RegisterCall
	// the state directory and its writer; nil if there is none
	stateDir    world.StateDir
	stateWriter *statedir.Writer
	savedPeers  []string // addresses of nodes met in an earlier incarnation, from the state directory
	peers       *peers.Book

	accounts accounts
	pools    pools
	setting  sync.Mutex // serializes SetSecrets, and guards cfg.Secrets after the start

	ctx  context.Context // ends when the node stops
	stop context.CancelFunc
	work sync.WaitGroup // the node's own goroutines
}

// Self returns the node's name and incarnation.
func (eng *Engine) Self() vote.SessionID { return eng.self }

// Addr returns the address, host:port, at which other nodes reach this node.
func (eng *Engine) Addr() string { return eng.links.AdvertiseAddr() }

// Clocks returns the node's clocks.
func (eng *Engine) Clocks() clock.Clocks { return eng.clocks }

// Members returns the nodes known to gossip.
func (eng *Engine) Members() []member.Member { return eng.group.Members() }

// Ping sends a packet of gossip to another live node, and returns the time until the answer. known
// says whether gossip knows a live node of that name. The error is context.DeadlineExceeded if no
// answer comes, or ctx's.
func (eng *Engine) Ping(ctx context.Context, name vote.NodeID) (took time.Duration, known bool, err error) {
	took, err = eng.group.Ping(ctx, name)
	switch {
	case errors.Is(err, member.ErrUnknown):
		return 0, false, nil
	case errors.Is(err, member.ErrNoAnswer):
		err = context.DeadlineExceeded
	}
	return took, true, err
}

// LinkStats returns the counters of the transport.
func (eng *Engine) LinkStats() transport.Stats { return eng.links.Stats() }

// IsDynamic reports whether membership of the electorate is dynamic.
func (eng *Engine) IsDynamic() bool { return eng.dynamic }

// IsBornByCount reports whether the mesh is born by count, and without state directories.
func (eng *Engine) IsBornByCount() bool { return eng.cfg.Birth.Expect > 0 }

// Done returns a channel that is closed when the node has ended: no call is answered any more.
func (eng *Engine) Done() <-chan struct{} { return eng.loop.done }

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

// Close stops the node at once, without notice, and returns when every goroutine of the node has
// ended. After Stop or Leave, the other nodes get the last messages: a voter that missed the
// release of a key would keep the key, as after a crash. Close is called once.
func (eng *Engine) Close() error {
	eng.stop()
	// The leases end before other nodes can see that this node is gone.
	<-eng.loop.done
	gossip := make(chan error, 1)
	go func() { gossip <- eng.group.Close() }()
	if eng.inOrder.Load() {
		eng.links.Finish()
	}
	err := errors.Join(eng.links.Close(), <-gossip)
	eng.work.Wait()
	eng.finder.Wait()
	err = errors.Join(err, eng.closeState())
	eng.closeQueues()
	return err
}

// closeQueues passes the last events and log lines on, and ends the goroutines of both queues.
func (eng *Engine) closeQueues() {
	if eng.observer != nil {
		eng.observer.queue.Close()
	}
	eng.logQueue.Close()
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
