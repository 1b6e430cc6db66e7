package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Config configures a port. Only Bind, Self, Terms and Handler are required.
type Config struct {
	// Bind is the TCP and UDP address to listen on, as host:port. Port 0 lets the system pick a
	// port. An IPv4 address, including 0.0.0.0, means IPv4 only; an empty host or [::] means both
	// address families, where the system has both.
	Bind string
	// Advertise is the address for others to dial, as host or host:port; a host may be a name.
	// Empty: see [Port.AdvertiseAddr].
	Advertise string
	// Secrets are shared by all nodes of the mesh, up to MaxSecrets with at least MinSecret bytes
	// each; only Listen reads them. All of them are accepted, and the first is sent. Empty: all
	// traffic is plain text, and every peer that reaches the port is trusted.
	Secrets [][]byte
	// Self is this node's name and incarnation, as sent to peers.
	Self vote.SessionID
	// Terms are compared with each peer's terms.
	Terms Terms
	// Logger receives warnings about peers, at a bounded rate. Nil disables logging.
	Logger *slog.Logger
	// Handler receives the events of links.
	Handler Handler
	// Versions returns the wire versions that this node speaks now; nil: all that this code knows.
	// Any goroutine may call Versions.
	Versions func() (low, high uint8)

	// Account returns additional information about this node for peers. Nil: there is none. Any
	// goroutine may call Account.
	Account func() vote.Account
	// LinkRefusal returns why this node accepts no more links; empty if links are accepted. Probes
	// are still answered. Nil: links are accepted. Any goroutine may call LinkRefusal, which must
	// not block.
	LinkRefusal func() string
	// Met is called for each node of this mesh that has proved knowledge of the secret, whether the
	// node's terms are the same or not. Nil: no call. Any goroutine may call Met, which must not
	// block.
	Met func(*vote.Sighting)
	// Converted reports whether a converting node (Terms.Converting) knows that its mesh has
	// dynamic membership by now, so that it links with no fixed node any more. Nil: false. Any
	// goroutine may call Converted, which must not block.
	Converted func() bool
}

// Handler receives the events of links, on goroutines of the port or of Dial's caller. The calls
// for one link are sequential: Linked, any number of Received, Closed. Calls for different links
// are concurrent.
//
// A handler must not wait for Close of the port, which waits for the handler.
type Handler interface {
	// Linked: both sides have agreed on the link, and messages can be sent to c. dialed is whether
	// Dial made the connection; fixed is whether this node is converting (Terms.Converting), and
	// the peer's electorate is fixed.
	Linked(c vote.Conn, peer vote.SessionID, dialed, fixed bool)
	// Received: these messages came from the peer. The handler now owns the batch, and frees it
	// when the messages are no longer needed. While Received blocks, the port reads nothing more
	// from this connection, and in time the peer can't write to it.
	Received(c vote.Conn, peer vote.SessionID, b *Batch)
	// Closed: the connection has ended, and no more calls follow for c. Closed is called exactly
	// once for each Linked. err is the reason: ErrClosed when this side closed the connection,
	// io.EOF when the peer did, ErrQueueFull, errStalled, errMalformed, or a network error.
	Closed(c vote.Conn, peer vote.SessionID, err error)
}

const (
	// handshakeTimeout bounds the time from the first packet to the welcome: several round trips
	// around the world with a lost packet in each.
	handshakeTimeout = 5 * time.Second

	// socketBuffer is the buffer size requested from the system for each direction of a connection.
	// Data buffered by the system also delays the refresh lane, which can overtake only data still
	// queued in this process; so the buffers are kept from growing to megabytes.
	socketBuffer = 256 << 10
)

// Port is a node's network endpoint: a TCP listener and a UDP socket with the same port number, the
// links over the listener, and the gossip that shares both. Its methods may be called from many
// goroutines.
type Port struct {
	build    build
	own      offer
	identity *identity // nil: plain text
	handler  Handler
	account  func() vote.Account // nil: no account
	versions func() (low, high uint8)
	met      func(*vote.Sighting) // nil: no calls
	bars     func() string        // nil: no refusals
	// converted is nil for false.
	converted func() bool
	log       *warner
	logger    *slog.Logger

	tcp       *net.TCPListener
	udp       *net.UDPConn
	addr      netip.AddrPort
	advertise string
	gossip    *gossip

	admission *admission

	ctx  context.Context // ends when the port closes
	stop context.CancelFunc

	mu          sync.Mutex
	isClosed    bool
	isFinishing bool // no more links are made
	lastConn    vote.Conn
	sockets     map[*net.TCPConn]struct{} // all open sockets, so that Close can close them

	// links is replaced at each change, under mu: sending a message looks up a link without
	// locking.
	links atomic.Pointer[map[vote.Conn]*link]

	opened time.Time
	queued atomic.Int64 // bytes of ordered messages queued on all links

	running sync.WaitGroup // goroutines of the port, and calls that make connections
	count   counters
}

// Listen opens a port and starts to accept connections. The caller owns the port and must Close it.
// ctx bounds the look-ups of host names in Bind and Advertise. Errors concern the configuration or
// the address, and say what to change.
func Listen(ctx context.Context, cfg Config) (*Port, error) {
	return listen(ctx, cfg, thisBuild)
}

// build holds constants of the program's build. Tests vary them to imitate nodes of other builds,
// and to shorten timeouts.
type build struct {
	low, high        uint8 // wire versions
	rhoPerMille      uint64
	firstWordTime    time.Duration
	handshakeTimeout time.Duration
	writeTimeout     time.Duration
	flushTime        time.Duration
	idleTime         time.Duration // a minimum
	maxQueued        int64
}

var thisBuild = build{
	low: OldestVersion, high: WireVersion, rhoPerMille: vote.RhoPerMille,
	firstWordTime: firstMessageTimeout, handshakeTimeout: handshakeTimeout, writeTimeout: writeTimeout, flushTime: flushTime,
	idleTime: idleTime, maxQueued: maxQueued,
}

func listen(ctx context.Context, cfg Config, b build) (*Port, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Port{
		build: b, handler: cfg.Handler, logger: cfg.Logger, account: cfg.Account, versions: cfg.Versions, met: cfg.Met, bars: cfg.LinkRefusal, converted: cfg.Converted,
		own:     offer{self: cfg.Self, low: b.low, high: b.high, terms: cfg.Terms.normal(), rhoPerMille: b.rhoPerMille},
		sockets: map[*net.TCPConn]struct{}{},
		opened:  time.Now(),
	}
	p.links.Store(&map[vote.Conn]*link{})
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	p.log = newWarner(p.logger)
	p.admission = newAdmission(p.logger)
	unpacker := new(unpacker)
	if len(cfg.Secrets) > 0 {
		var err error
		if p.identity, err = newIdentity(cfg.Secrets, time.Now()); err == nil {
			err = unpacker.setKeys(p.identity.all())
		}
		if err != nil {
			return nil, fmt.Errorf("deriving keys from the secret: %w", err)
		}
	}
	if err := p.bind(ctx, cfg.Bind, cfg.Advertise); err != nil {
		return nil, err
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.gossip = newGossip(p, unpacker)
	if err := p.gossip.findAdvertised(ctx); err != nil {
		p.stop()
		return nil, errors.Join(err, p.tcp.Close(), p.udp.Close())
	}
	p.running.Add(3)
	go p.accept()
	go p.endIdle()
	go p.gossip.readPackets()
	return p, nil
}

// validate returns all configuration errors, joined.
func (c *Config) validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Handler == nil, "transport: no Handler")
	complain(!validName(c.Self.Node), "transport: the node's name must be UTF-8 of 1 to %d bytes", vote.MaxNameLen)
	complain(len(c.Terms.Mesh) == 0 || len(c.Terms.Mesh) > maxMeshLen || !utf8.ValidString(c.Terms.Mesh),
		"transport: the mesh's name must be UTF-8 of 1 to %d bytes", maxMeshLen)
	complain(c.Terms.MaxTTL <= 0, "transport: MaxTTL is %v; it must be above zero", c.Terms.MaxTTL)
	complain(len(c.Terms.normal().Voters) > vote.MaxVoters, "transport: more than %d voters", vote.MaxVoters)
	for _, v := range c.Terms.Voters {
		complain(!validName(v), "transport: the voter's name %q must be UTF-8 of 1 to %d bytes", v, vote.MaxNameLen)
	}
	if err := checkSecrets(c.Secrets); err != nil {
		errs = append(errs, fmt.Errorf("transport: %w", err))
	}
	return errors.Join(errs...)
}

func validName(n vote.NodeID) bool {
	return len(n) > 0 && len(n) <= vote.MaxNameLen && utf8.ValidString(string(n))
}

// Addr returns the address that the port listens on. Its port is never zero; its host may be the
// unspecified address.
func (p *Port) Addr() netip.AddrPort { return p.addr }

// AdvertiseAddr returns the host:port for others to dial. The first of these that exists is taken:
// Config.Advertise, with the port's number added if missing; the bound address, if specific; among
// the addresses of interfaces that are up, the first private address, any other non-loopback
// address, or finally loopback. Among equals IPv4 goes first. A machine with several networks, or
// behind address translation, needs Config.Advertise.
func (p *Port) AdvertiseAddr() string { return p.advertise }

// Know notes the address of a member: places are reserved for members' addresses when strangers
// flood the port.
func (p *Port) Know(a netip.Addr) { p.admission.noteMember(a) }

// Send encodes m, queues it for the connection and flushes the queue. m belongs to the caller again
// when Send returns. Send never blocks. A message that can't be queued breaks the connection:
// Closed is called with ErrQueueFull, or with errMalformed for a message beyond the limits.
// Messages to a connection that has ended are discarded.
func (p *Port) Send(c vote.Conn, m *vote.Message) {
	p.Queue(c, m)
	p.Flush(c, false)
}

// Queue is Send without the flush: m is written once Flush is called for the connection, or
// together with another message.
func (p *Port) Queue(c vote.Conn, m *vote.Message) {
	l := p.find(c)
	if l == nil {
		return
	}
	if err := l.out.push(m); err != nil {
		l.fail(err)
		return
	}
	p.count.sentMessages.Add(1)
	if p.queued.Load() > p.build.maxQueued {
		p.shed()
	}
}

// shed breaks the connection with the most queued bytes, because all connections together exceed
// maxQueued.
func (p *Port) shed() {
	var heaviest *link
	most := 0
	for _, l := range *p.links.Load() {
		if n := l.out.size(); n > most {
			heaviest, most = l, n
		}
	}
	if heaviest != nil {
		heaviest.fail(fmt.Errorf("%w: of all connections, which together have more than %d bytes to be written, this one has most", ErrQueueFull, p.build.maxQueued))
		heaviest.out.abandon()
	}
}

// Flush writes the messages queued for a connection: now, usually on the caller's goroutine, which
// never waits for the peer; or, with later, within half a millisecond, unless an earlier write
// takes them along.
func (p *Port) Flush(c vote.Conn, later bool) {
	switch l := p.find(c); {
	case l == nil:
	case later:
		l.flushLater()
	default:
		l.flush()
	}
}

// CloseConn closes a connection. Messages sent before are still written, within a bounded time; no
// more are received. Closed is called as always.
func (p *Port) CloseConn(c vote.Conn) {
	if l := p.find(c); l != nil {
		l.close(false)
	}
}

func (p *Port) find(c vote.Conn) *link { return (*p.links.Load())[c] }

// setLink adds a link to the map, or with nil removes the entry; mu is held.
func (p *Port) setLink(c vote.Conn, l *link) {
	links := maps.Clone(*p.links.Load())
	if l == nil {
		delete(links, c)
	} else {
		links[c] = l
	}
	p.links.Store(&links)
}

// Finish ends all links once the peers have read what was sent, and waits for that, for flushTime
// at most. (Close may have the system discard what a peer hasn't received yet.) Messages that
// arrive meanwhile are dropped, and no more links are made. Close must follow.
func (p *Port) Finish() {
	p.mu.Lock()
	p.isFinishing = true
	links := *p.links.Load()
	p.mu.Unlock()
	for _, l := range links {
		l.close(true)
	}
	for _, l := range links {
		<-l.ended
	}
}

// Close ends all links, sockets and gossip at once, like a crash to outside observers, and returns
// when every goroutine of the port has ended and Closed was called for every link. A further call
// waits, too.
func (p *Port) Close() error {
	if p.shut() {
		_ = p.tcp.Close()
		_ = p.udp.Close()
		_ = p.gossip.Shutdown()
	}
	p.running.Wait()
	p.admission.close()
	p.log.flush()
	return nil
}

// shut marks the port as closed and closes its connections. It reports whether this call did so.
func (p *Port) shut() bool {
	p.mu.Lock()
	if p.isClosed {
		p.mu.Unlock()
		return false
	}
	p.isClosed = true
	links := slices.Collect(maps.Values(*p.links.Load()))
	sockets := slices.Collect(maps.Keys(p.sockets))
	p.mu.Unlock()
	p.stop() // first, so that code that finds a socket closed also finds the reason
	for _, l := range links {
		l.fail(ErrClosed)
	}
	for _, s := range sockets {
		_ = s.Close()
	}
	return true
}

// begin registers a call that makes connections, so that Close waits for the call; the caller ends
// it with p.running.Done. From Finish on there are none: a peer would take the link for a sign that
// this node goes on.
func (p *Port) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed || p.isFinishing {
		return ErrClosed
	}
	p.running.Add(1)
	return nil
}

// keep registers a socket with the port; after Close, keep closes the socket at once.
func (p *Port) keep(c *net.TCPConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		_ = c.Close()
		return ErrClosed
	}
	p.sockets[c] = struct{}{}
	clampAfter(c)
	_ = c.SetReadBuffer(socketBuffer) // a system that refuses keeps its own size
	_ = c.SetWriteBuffer(socketBuffer)
	return nil
}

// forget closes a socket and removes it from the port.
func (p *Port) forget(c *net.TCPConn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sockets, c)
}
