package lockmesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/realworld"
	"github.com/lockmesh/lockmesh/internal/running"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/quorum"
)

// Mesh is this process's node in a mesh. The methods may be called from any goroutine. Leave, Stop
// or Close ends the node.
type Mesh struct {
	eng          *engine.Engine
	cfg          Config // with defaults filled in, and without the secrets
	uniqueValues atomic.Uint64
	// watchEventsDropped counts the events left out for slow readers of watches.
	watchEventsDropped atomic.Uint64
	ends               sync.Once
	ending             chan struct{} // closed once this node takes no more locks
	leaving            atomic.Bool
	functions          running.Set[*Lease] // the functions of Do
	left               chan struct{}       // closed when Leave has ended
	leaveErr           error               // written before left is closed
	closing            sync.Once
	closeErr           error
}

func (m *Mesh) checkUsable(method string) { checkUsable(m != nil && m.eng != nil, method, "Join") }

// Join starts this process's node. It returns as soon as the node listens and, if the node is a
// voter, votes, at first quietly. Join doesn't wait for other nodes: use [Mesh.Ready] for this. ctx
// bounds the call, also if the disk of the state directory doesn't answer; ctx doesn't bound the
// life of the mesh.
//
// With [Config].StateDir, Join first locks the directory, so that no other process uses the
// directory, and reads the state; Join doesn't wait for a state to be written. A voter then votes,
// and any other node takes locks, as soon as the node knows an electorate: [Mesh.Status] says what
// the node is waiting for.
//
// Errors: ErrConfig for an unusable configuration, including an address that the node can't listen
// on; ErrStateDir for an unusable state directory, with a text that says what to do; or the error
// of ctx. A node refused by the others learns of the refusal later, as ErrRefused from its calls.
func Join(ctx context.Context, cfg Config) (*Mesh, error) {
	return join(ctx, cfg, realworld.World)
}

func init() { world.Join = join }

// join is Join in any world; see [world.Join].
func join(ctx context.Context, cfg Config, w world.World) (*Mesh, error) {
	ctx = guardContext(ctx, "Join")
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: errs.OfContext(ctx)}
	}
	cfg, _ = cfg.withDefaults()
	eng, err := engine.Start(ctx, cfg.engine(), w)
	if err != nil {
		return nil, err
	}
	cfg.Secret, cfg.Secrets = nil, nil // the engine has them; a printed copy of the Mesh hasn't
	m := &Mesh{eng: eng, cfg: cfg, ending: make(chan struct{}), left: make(chan struct{})}
	if ctx.Err() != nil {
		return nil, &Error{Op: "join", Err: errors.Join(errs.OfContext(ctx), m.Close())}
	}
	return m, nil
}

// engine returns the engine's configuration.
func (c *Config) engine() engine.Config {
	return engine.Config{
		Name: c.Name, Mesh: c.Mesh, Bind: c.Bind, Advertise: c.Advertise, Peers: c.Peers, Discover: c.Discover, Voters: c.Voters,
		StateDir: c.StateDir, Bootstrap: c.Bootstrap, FromFixed: c.FromFixed, NonVoting: c.NonVoting, Birth: vote.Birth{Expect: c.Expect, MinVoters: c.MinVoters, Register: c.Register != nil},
		Register: c.Register, RegisterTerm: c.RegisterTerm, MaxVoters: c.MaxVoters, MaxTTL: c.MaxTTL, TTL: c.TTL,
		Secrets: rawSecrets(c.secrets()), Insecure: c.Insecure, Logger: c.Logger,
		Clocks: clock.New(c.Clock), Observer: c.Observer.forEngine(c.electorateStatus), API: api{}, Limits: engine.Limits{Watches: MaxWatches, Peers: MaxPeers, MinTTL: MinTTL},
	}
}

// api makes the values of this package's types for the engine.
type api struct{}

var _ engine.API = api{}

func (api) Error(f errs.Failure) error {
	e := Error(f)
	return &e
}

func (api) EndError(op, key string, cause error, text string) error {
	return endError(op, key, cause, text)
}

func (api) NewLease() (*engine.Lease, any) {
	l := new(Lease)
	return &l.own, l
}

func (api) NewRevocations() engine.Revocations { return make(revocations, revokedMax) }

// Name returns the node's name.
func (m *Mesh) Name() string {
	m.checkUsable("Mesh.Name")
	return string(m.eng.Self().Node)
}

// text is what a Mesh shows of itself.
func (m *Mesh) text() string {
	if m == nil || m.eng == nil {
		return "[no mesh]"
	}
	return string(m.eng.Self().Node)
}

// Format prints the node's name, by every verb of package fmt.
func (m *Mesh) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.text()) }

// LogValue gives package slog the node's name.
func (m *Mesh) LogValue() slog.Value { return slog.StringValue(m.text()) }

// Addr returns the address, host:port, at which other nodes reach this node, for their Peers. If
// Bind has port 0, the address has the port chosen by the system.
func (m *Mesh) Addr() string {
	m.checkUsable("Mesh.Addr")
	return m.eng.Addr()
}

// Lock waits until the key is held, or ctx ends. Waiting requests are served in order of age, the
// oldest first.
//
// After Lock has returned, other nodes see the lease, as [Mesh.Inspect] says. An exclusive lease
// without options (but [WithWait]) and without a value may come from an earlier caller of the same
// node, while no other node waits for the key and no watch of the key is known to the node: then
// the node hands the lease over without a message, up to 31 times in a row. Inspect asks the node
// how often; [Mesh.List] and watches go on to show the first of these leases, with its token, until
// the last of them has ended.
//
// If ctx ends first, the error is ctx's and also says why the request was still waiting: [ErrHeld]
// or [ErrNoQuorum]. (If ctx had ended before the call, no voter is asked, and the error is
// ErrNoQuorum. If the lease is granted as ctx ends, the lease is given back, and the error is ctx's
// alone.) Other errors are [ErrKey], [ErrOption], [ErrClash], [ErrRefused], [ErrBusy] and
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
// also unlocks when f panics or ends its goroutine. [Mesh.Stop] and [Mesh.Leave] end f's context,
// and wait for f.
//
// The error joins the errors of f and of Unlock: if the lease was lost while f ran, the error is
// ErrLost even if f returned nil. Waiting for Unlock takes one TTL at most. f may call Unlock
// earlier.
func (m *Mesh) Do(ctx context.Context, key string, f func(context.Context, *Lease) error, opts ...Option) (err error) {
	m.checkUsable("Mesh.Do")
	ctx = guardContext(ctx, "Mesh.Do")
	checkFunc(f != nil, "Mesh.Do")
	function := m.functions.Begin()
	if function == nil {
		return &Error{Op: "lock", Key: key, Reason: ErrClosed, Text: "this node is leaving"}
	}
	defer function.End()
	lease, err := m.acquire(ctx, "lock", newAcquireOptions(key, vote.Exclusive, false, opts))
	if err != nil {
		return err
	}
	inner, free := lease.during(ctx)
	function.Hold(lease, inner.cancel)
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

// Alive returns nil once this node itself has answered, whatever the other nodes do: it is for a
// probe that restarts a node that hangs. Errors: ErrRefused if this process, one of fixed Voters,
// has given way to an older live process with its name, and so takes no part until it is
// restarted; ErrClosed after the end of the mesh; or ctx's.
func (m *Mesh) Alive(ctx context.Context) error {
	m.checkUsable("Mesh.Alive")
	ctx = guardContext(ctx, "Mesh.Alive")
	return m.eng.Alive(ctx)
}

// Ping sends a packet of gossip to another live node, by name, and returns the time until the
// answer: UDP packets pass in both directions. Locks travel by TCP, and [VoterStatus].RoundTrip has
// their times; a mesh whose UDP is blocked takes live nodes for failed. Ping is for diagnosis. It
// tries three times, and waits for two seconds at most.
//
// Errors: ErrOption if gossip knows no live node of the name, or if the name is this node's;
// ErrClosed; an error that is context.DeadlineExceeded if no answer comes, or ctx's.
func (m *Mesh) Ping(ctx context.Context, node string) (time.Duration, error) {
	m.checkUsable("Mesh.Ping")
	ctx = guardContext(ctx, "Mesh.Ping")
	e := &Error{Op: "ping"}
	if m.eng.IsClosing() {
		e.Reason = ErrClosed
		return 0, e
	}
	var took time.Duration
	known := false
	if node != m.Name() {
		took, known, e.Err = m.eng.Ping(ctx, vote.NodeID(node))
	}
	switch {
	case known && e.Err == nil:
		return took, nil
	case !known:
		e.Reason, e.Text = ErrOption, fmt.Sprintf("gossip knows no other live node %q", node)
	case ctx.Err() != nil:
		e.Err = errs.OfContext(ctx)
	default:
		e.Text = fmt.Sprintf("%q answers no packet by UDP", node)
	}
	return 0, e
}

// Draining reports whether this node takes no more locks: Drain, Stop, Leave or Close was called.
func (m *Mesh) Draining() bool {
	m.checkUsable("Mesh.Draining")
	select {
	case <-m.ending:
		return true
	default:
		return false
	}
}

// end notes that this node takes no more locks.
func (m *Mesh) end() { m.ends.Do(func() { close(m.ending) }) }

// Leave ends the node in good order: it ends the contexts of the functions of [Mesh.Do] and waits
// for the functions as [Mesh.Stop] does, releases every lease, so waiters on other nodes proceed at
// once, tells gossip that this node is gone for good, and closes the mesh. Held leases end with
// ErrReleased, calls under way with ErrClosed.
//
// With dynamic membership, Leave also has a voter voted out and waits for the result, which takes
// MaxTTL and a little more; locks are granted meanwhile. If no other node takes the place, three
// voters become two, and neither of the two may fail: to stop a node that will come back, use
// [Mesh.Stop]. Give ctx about three MaxTTL. A node stays a voter if the others can't do without its
// vote: the only voter, one of two voters without a node on standby, one of the least number of
// voters of a mesh born by count ([Config.MinVoters]) without a process on standby, or a voter with
// unreachable fellow voters. Leave ends such a node nevertheless, as soon as this is known, shortly
// before ctx's deadline, or without a deadline after ten MaxTTL; the error is ErrStillVoter: the
// other voters need the node for their majority until it is back with its directory, or until it is
// voted out. A node that is no voter leaves at once. The only voter of a mesh with [Config.Expect]
// 1 leaves without an error if there is no node on standby: the mesh ends, and the next process
// founds another.
//
// ErrNoQuorum or ctx's error says what is unconfirmed; the mesh is closed in any case. Further
// calls wait for the first.
func (m *Mesh) Leave(ctx context.Context) error {
	m.checkUsable("Mesh.Leave")
	ctx, rethrow := guardGivingUp(ctx, "Mesh.Leave")
	defer rethrow()
	return m.leave(ctx, "leave", m.eng.Leave)
}

// Stop ends the node in good order, and the node will be back soon: it releases every lease, so
// waiters on other nodes proceed at once, and closes the mesh. Held leases end with ErrReleased,
// calls under way with ErrClosed. A voter stays a voter, so the other voters can do without it only
// while it is away: stop one voter at a time, and wait for [Mesh.Settled] after each start. Other
// nodes see the end at once, by the end of their connections. With [Config.Expect] a process that
// comes back is another process, which votes only once its predecessor was voted out: Stop then
// costs the others a voter as a crash does, so use Leave.
//
// First Stop ends the contexts of the functions of [Mesh.Do], LeadOnce and Lead, and waits until
// the functions have returned: without a deadline for up to a MaxTTL, otherwise until five seconds
// (of short times, a quarter) before the deadline. A function that goes on keeps its key: the lease
// isn't released, and expires at the voters; the error is then also [ErrHeld]. Stop doesn't wait
// for a function if ctx is the function's context.
//
// Without a deadline Stop waits for the voters for up to a MaxTTL, where too few are left to
// confirm the releases: all voters of a mesh may end at once. If another node reads nothing from
// its connection, Stop and Leave wait for up to a second for it to read the last releases.
//
// Stop differs from Leave in that no voter is voted out, and from Close in that no lease has to
// expire.
//
// ErrNoQuorum or ctx's error says what is unconfirmed; the mesh is closed in any case. Further
// calls of Stop and Leave wait for the first.
func (m *Mesh) Stop(ctx context.Context) error {
	m.checkUsable("Mesh.Stop")
	ctx, rethrow := guardGivingUp(ctx, "Mesh.Stop")
	defer rethrow()
	return m.leave(ctx, "stop", m.eng.Stop)
}

// leave ends the node once, by a function that precedes Close.
func (m *Mesh) leave(ctx context.Context, op string, end func(context.Context) error) error {
	if m.leaving.Swap(true) {
		select {
		case <-m.left:
			return m.leaveErr
		case <-ctx.Done():
			return &Error{Op: op, Text: "another call of Leave or Stop is under way", Err: errs.OfContext(ctx)}
		}
	}
	defer close(m.left)
	m.end()
	ctx, free := detachFromLeases(ctx, m.eng) // ctx may be a lease's, which ends here
	defer free()
	err := m.endFunctions(ctx, op)
	err = errors.Join(err, end(ctx))
	m.leaveErr = errors.Join(err, m.Close())
	return m.leaveErr
}

// endFunctions ends the contexts of the functions of Do, and waits until they have returned, or
// have given up their leases, for as long as leaves the end of the node some time. A function that
// goes on keeps its lease, which expires at the voters after the end of the node. A function that
// ends the node itself, with its own context, goes on, and isn't waited for.
func (m *Mesh) endFunctions(ctx context.Context, op string) error {
	leaving := &Error{Op: op, Reason: ErrClosed, Text: "this node is leaving"}
	leases, are := m.functions.Close(leaving, func(l *Lease) bool { return carries(ctx, l) })
	if !are {
		return nil
	}
	m.eng.Refuse(op == "leave") // functions that wait for their leases get none
	for _, l := range leases {
		defer context.AfterFunc(l.context(), m.functions.Recheck)()
	}
	patience := m.eng.GrantLimit()
	if at, ok := ctx.Deadline(); ok {
		left := max(time.Until(at), 0)
		patience = left - min(endReserve, left/4)
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var keys []string
	for _, l := range m.functions.Wait(patient, func(l *Lease) bool { return l.cause() != nil || carries(ctx, l) }) {
		l.core().KeepAtEnd()
		keys = append(keys, l.Key())
	}
	switch slices.Sort(keys); len(keys) {
	case 0:
		return nil
	case 1:
		return &Error{Op: op, Key: keys[0], Reason: ErrHeld, Text: "a function of Do still runs; its key stays locked for up to a TTL"}
	}
	return &Error{Op: op, Key: keys[0], Reason: ErrHeld, Text: fmt.Sprintf("%d functions of Do still run; their keys stay locked for up to a TTL", len(keys))}
}

// endReserve is the part of the time of Stop and Leave that isn't spent on waiting for functions of
// Do; at most a quarter.
const endReserve = 5 * time.Second

// Drain takes no more locks from now on, and waits until every lease of this node is unlocked, or
// ctx ends. Waiting calls end with ErrClosed at once, and so do later calls; an upgrade of a held
// lease and a re-entry still succeed. The node votes as before; a node with Expect, which won't
// come back, begins to give its vote up, as Leave does, and no other node is settled until this one
// has ended. After Drain call Stop or Leave; a drained node can't be used for locks again. If ctx
// ends first, the error is ctx's with ErrHeld, or with ErrNoQuorum if only confirmations of
// released leases are missing; Stop or Leave then releases the remaining leases.
func (m *Mesh) Drain(ctx context.Context) error {
	m.checkUsable("Mesh.Drain")
	ctx = guardContext(ctx, "Mesh.Drain")
	m.end()
	ctx, free := detachFromLeases(ctx, m.eng) // ctx may be a lease's
	defer free()
	return m.eng.Drain(ctx)
}

// Close stops the node at once, without notice; to other nodes the end looks like a crash. Leases
// end here, with an error that is both ErrLost and ErrClosed, and expire at the voters within a
// TTL; calls under way end with ErrClosed. Close returns when every goroutine of the node has
// ended, within a few hundred milliseconds as a rule, and within about two seconds in a process of
// more than 32 nodes. A hung disk delays Close for up to 5 s, and the error is then ErrStateDir.
// Further calls wait for the first.
func (m *Mesh) Close() error {
	m.checkUsable("Mesh.Close")
	m.end()
	m.closing.Do(func() { m.closeErr = m.eng.Close() })
	return m.closeErr
}

// acquire requests a key, unless ctx carries a lease of the key already, and waits for the outcome
// or for the end of ctx.
func (m *Mesh) acquire(ctx context.Context, op string, w acquireOptions) (*Lease, error) {
	if err := checkKey(op, string(w.Key)); err != nil {
		return nil, err
	}
	if err := w.complete(&m.cfg, m.eng.GrantLimit()); err != nil {
		return nil, withOp(err, op)
	}
	w.Observation = m.eng.Ask(ctx, op, &w.Request)
	if w.waitSet && w.wait > 0 {
		w.Patience = w.wait
		limited, cancel := context.WithCancelCause(guardContext(ctx, op))
		defer cancel(nil)
		defer m.eng.Clocks().After(w.wait, func() { cancel(errs.WaitTimeout) })()
		ctx = limited
	}
	if ctx.Err() == nil {
		if lease, err := m.reenter(ctx, op, &w); lease != nil || err != nil {
			observeReentry(w.Observation, lease, err)
			return lease, err
		}
	}
	lease, err := m.eng.Request(ctx, op, &w.Request)
	if err != nil {
		return nil, err
	}
	return lease.(*Lease), nil
}

// Ready waits until a majority of the voters is reachable and counts, so that locks can be granted.
// This may change at any time after Ready returns.
//
// If ctx ends first, the error is ctx's and ErrNoQuorum, with the numbers; or ErrRefused, if this
// process has Expect, was refused by a process, and knows too few others for a birth. Other
// refusals, ErrClosed and ErrBusy are returned at once.
func (m *Mesh) Ready(ctx context.Context) error {
	m.checkUsable("Mesh.Ready")
	ctx = guardContext(ctx, "Mesh.Ready")
	return m.eng.Ready(ctx)
}

// Settled waits until the mesh can do without another voter. Settled is the gate of a rolling
// restart, between the start of one node and the stop of the next (docs/restarting.md). Settled
// returns nil once this node's own voter counts and the other voters know this, no voter is quiet,
// the electorate isn't being changed, and a majority counts even if any single voter stops. On a
// node that isn't a voter, Settled waits for the same conditions of the others, and until the node
// could take the place of a voter, a MaxTTL after its start, if it may vote at all.
//
// [Mesh.Ready] is no such gate: a node just started may be ready by the votes of others while its
// own voter is quiet for a MaxTTL. If the next voter is stopped then, two are missing.
//
// A missing voter is no reason to wait as long as another can be spared: of five voters, one may be
// broken during a rolling restart. Of one or two voters none can be spared; there Settled waits
// until all count and none is leaving, and each restart stops locks until the voter is back and
// counts again.
//
// The result holds for the moment only. Don't take a node out of service because Settled would
// wait: when a failure leaves no spare voter, as that of one of three does, Settled waits at every
// node. If ctx ends first, the error is as that of [Mesh.Ready], and says what is missing.
func (m *Mesh) Settled(ctx context.Context) error {
	m.checkUsable("Mesh.Settled")
	ctx = guardContext(ctx, "Mesh.Settled")
	return m.eng.Settled(ctx)
}

// SetSecrets changes the secrets that this node accepts, up to MaxSecrets; the first is sent from
// now on. Nodes that know one of the secrets stay linked. Links made by a secret that isn't
// accepted any more are closed, and made again at once by a secret that is. Leases are kept, unless
// the nodes of a majority have no secret in common for as long as a TTL.
//
// The change isn't stored: give the next start the same secrets by [Config].Secrets. The three
// steps from one secret to another, without an interruption, are in docs/changing-the-secret.md;
// [Mesh.Status] shows which nodes use which secret. SetSecrets returns once the secrets have
// changed and gossip has passed the news on, or could not do so for two seconds.
//
// If none of the secrets was accepted before, the change is made, and logged as a warning: it cuts
// the node off from all nodes that don't know the new secrets yet.
//
// Errors: ErrConfig for secrets that can't be used, or if the node was started without a secret, or
// if a secret is one of those before with more before or behind it, and none of those before is
// left: an end of line is missing where the secrets came from a file. ErrClosed.
func (m *Mesh) SetSecrets(secrets ...Secret) error {
	m.checkUsable("Mesh.SetSecrets")
	fail := func(reason error, text string) error {
		return &Error{Op: "setsecrets", Reason: reason, Text: text}
	}
	if m.eng.IsClosing() {
		return fail(ErrClosed, "")
	}
	if len(secrets) == 0 {
		return fail(ErrConfig, "no secret is given")
	}
	if problem := secretsProblem(secrets); problem != "" {
		return fail(ErrConfig, problem)
	}
	if err := m.eng.SetSecrets(rawSecrets(secrets)); err != nil {
		return fail(ErrConfig, err.Error())
	}
	return nil
}

// secretStatus returns the secrets in use, sorted by ID.
func (m *Mesh) secretStatus() []SecretStatus {
	names := func(nodes []vote.NodeID) (names []string) {
		for _, n := range nodes {
			names = append(names, string(n))
		}
		return names
	}
	var all []SecretStatus
	for _, u := range m.eng.Secrets() {
		s := SecretStatus{ID: u.ID, AcceptedBy: names(u.AcceptedBy), SentBy: names(u.SentBy)}
		all = append(all, s)
	}
	return all
}

// Status returns this node's view of the mesh. The cost is proportional to the number of leases and
// requests of this node.
func (m *Mesh) Status() Status {
	m.checkUsable("Mesh.Status")
	s := Status{Closed: true}
	if state, ok := m.eng.Snapshot(); ok {
		s = m.status(state)
	}
	s.Name, s.Incarnation, s.Addr = m.Name(), uint64(m.eng.Self().Incarnation), m.Addr()
	s.Handshakes, s.Secrets = m.handshakeStatus(), m.secretStatus()
	for _, g := range m.eng.Members() {
		s.Members = append(s.Members, MemberStatus{Name: string(g.Name), Addr: g.Addr, State: g.State.String(), Incarnation: uint64(g.Incarnation)})
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Held, func(a, b LeaseStatus) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

// handshakeStatus returns the counters of the transport.
func (m *Mesh) handshakeStatus() HandshakeStatus {
	stats := m.eng.LinkStats()
	d := stats.Admission
	return HandshakeStatus{Open: d.Open, Silent: d.Silent, Unfinished: d.Unfinished, Displaced: d.Evicted, Compressed: stats.Compressed}
}

// status returns the status for users of a node's state.
func (m *Mesh) status(of engine.Snapshot) Status {
	s := Status{TTL: m.cfg.TTL, Electorate: m.cfg.electorateStatus(of.Electorate), Refused: refusedPeers(of.Refused, of.At)}
	if decided := s.Electorate.MaxTTL; decided > 0 {
		s.TTL = min(s.TTL, decided)
	}
	for _, lease := range of.Held {
		s.Held = append(s.Held, LeaseStatus{Key: string(lease.Key()), Token: lease.Token(), Deadline: lease.Deadline()})
	}
	for _, w := range of.Waiting {
		text := w.Wait.Text
		if w.Wait.Reason == quorum.WaitHeld {
			text = errs.Text(ErrHeld) + "; " + text
		}
		s.Waiting = append(s.Waiting, WaitStatus{Key: string(w.Key), Since: time.UnixMicro(int64(w.Since)), Text: text})
	}
	return s
}
