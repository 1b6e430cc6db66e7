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

// Config says how a port is opened. Only Bind, Self, Terms and Handler are needed.
type Config struct {
	// Bind is the address to listen on, TCP and UDP, as host:port. Port 0 lets the system pick one. An IPv4 address, 0.0.0.0
	// included, means IPv4 only; an empty host or [::] means both families, where the system has both.
	Bind string
	// Advertise is what others should dial, as host or host:port; a host may be a name. Empty: see [Port.AdvertiseAddr].
	Advertise string
	// Secret is what all nodes of the mesh share, MinSecret bytes at least; it is read by Listen only. Empty: everything travels
	// in plain text, and whoever reaches the port is believed.
	Secret []byte
	// Self is this node's name and life, as told to peers.
	Self vote.SessionID
	// Terms are compared with each peer's.
	Terms Terms
	// Logger gets warnings about peers, at a bounded rate. Nil: nothing is logged.
	Logger *slog.Logger
	// Handler is told what happens on links.
	Handler Handler
}

// Handler is told what happens on links, by goroutines of the port, or of the caller of Dial. For each link the calls come one
// after the other: Linked, any number of Received, Closed. Calls for different links come at the same time.
//
// A handler must not wait for Close of the port, which waits for the handler.
type Handler interface {
	// Linked : both sides have agreed, and c can be sent to. dialed is whether Dial made the connection.
	Linked(c vote.Conn, peer vote.SessionID, dialed bool)
	// Received : these messages came from the peer. The batch is the handler's from now on, to be freed when it isn't needed any more. While Received blocks,
	// nothing more is read from this connection, and in time the peer can't write to it.
	Received(c vote.Conn, peer vote.SessionID, b *Batch)
	// Closed : the connection is gone, and nothing more will be said of it. Exactly once for each Linked. err says why: ErrClosed
	// when this side ended it, io.EOF when the peer did, ErrQueueFull, ErrStalled, ErrMalformed, or an error of the network.
	Closed(c vote.Conn, peer vote.SessionID, err error)
}

const (
	// handshakeTimeout bounds how long two sides may take from the first packet to the welcome: several round trips around the
	// world with a lost packet in each.
	handshakeTimeout = 5 * time.Second

	// maxHandshakes bounds how many connections may be in their handshake at once. Beyond it new ones wait in the system's
	// backlog. With earlyBytes it bounds the memory that strangers can make us use; a restart of a large mesh still gets through,
	// since an honest handshake takes milliseconds.
	maxHandshakes = 128

	// socketBuffer is asked of the system for each direction of a connection. What the system buffers delays the refresh lane
	// too, which can overtake only what we still hold; so it isn't left to grow to megabytes.
	socketBuffer = 256 << 10
)

// Port is a node's one place on the network: a TCP listener and a UDP socket of the same number, the links over it, and the
// gossip that shares it. Its methods may be called from many goroutines.
type Port struct {
	build    build
	own      offer
	identity *identity // nil: plain text
	handler  Handler
	log      *warner
	logger   *slog.Logger

	tcp       *net.TCPListener
	udp       *net.UDPConn
	addr      netip.AddrPort
	advertise string
	gossip    *gossip

	ctx   context.Context // ends when the port closes
	stop  context.CancelFunc
	slots chan struct{} // one token for each handshake that came in

	mu       sync.Mutex
	isClosed bool
	lastConn vote.Conn
	sockets  map[*net.TCPConn]struct{} // every open one, so that Close can end them all

	links atomic.Pointer[map[vote.Conn]*link] // a new map at each change, made under mu: each word looks one up

	running sync.WaitGroup // goroutines of the port, and calls that make connections
	count   counters
}

// Listen opens a port and starts to accept. The caller owns it and must Close it. Errors are about the configuration, or about
// the address: they say what to change.
func Listen(cfg Config) (*Port, error) {
	return listen(cfg, thisBuild)
}

// build is what is fixed when the program is built. Tests play nodes of other builds, and hasty ones.
type build struct {
	low, high        uint8 // wire versions
	rhoPerMille      uint64
	handshakeTimeout time.Duration
	writeTimeout     time.Duration
	flushTime        time.Duration
}

var thisBuild = build{
	low: OldestVersion, high: WireVersion, rhoPerMille: vote.RhoPerMille,
	handshakeTimeout: handshakeTimeout, writeTimeout: writeTimeout, flushTime: flushTime,
}

func listen(cfg Config, b build) (*Port, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Port{
		build: b, handler: cfg.Handler, logger: cfg.Logger,
		own:     offer{self: cfg.Self, low: b.low, high: b.high, terms: cfg.Terms.normal(), rhoPerMille: b.rhoPerMille},
		slots:   make(chan struct{}, maxHandshakes),
		sockets: map[*net.TCPConn]struct{}{},
	}
	p.links.Store(&map[vote.Conn]*link{})
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	p.log = newWarner(p.logger)
	if len(cfg.Secret) > 0 {
		var err error
		if p.identity, err = newIdentity(cfg.Secret, cfg.Self.Node, time.Now()); err != nil {
			return nil, fmt.Errorf("deriving keys from the secret: %w", err)
		}
	}
	if err := p.bind(cfg.Bind, cfg.Advertise); err != nil {
		return nil, err
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.gossip = newGossip(p)
	p.running.Add(2)
	go p.accept()
	go p.gossip.readPackets()
	return p, nil
}

// validate joins all complaints.
func (c *Config) validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Handler == nil, "transport: no Handler")
	complain(!validName(c.Self.Node), "transport: the node's name must be UTF-8 of 1 to %d bytes", vote.MaxNameLen)
	complain(len(c.Terms.Mesh) == 0 || len(c.Terms.Mesh) > MaxMeshLen || !utf8.ValidString(c.Terms.Mesh),
		"transport: the mesh's name must be UTF-8 of 1 to %d bytes", MaxMeshLen)
	complain(c.Terms.MaxTTL <= 0, "transport: MaxTTL is %v; it must be above zero", c.Terms.MaxTTL)
	complain(len(c.Terms.normal().Voters) > vote.MaxVoters, "transport: more than %d voters", vote.MaxVoters)
	for _, v := range c.Terms.Voters {
		complain(!validName(v), "transport: the voter's name %q must be UTF-8 of 1 to %d bytes", v, vote.MaxNameLen)
	}
	complain(len(c.Secret) > 0 && len(c.Secret) < MinSecret,
		"transport: the secret has %d bytes; it needs %d at least", len(c.Secret), MinSecret)
	return errors.Join(errs...)
}

func validName(n vote.NodeID) bool {
	return len(n) > 0 && len(n) <= vote.MaxNameLen && utf8.ValidString(string(n))
}

// Addr returns the address that the port listens on. Its port is never zero, its host may be the unspecified one.
func (p *Port) Addr() netip.AddrPort { return p.addr }

// AdvertiseAddr returns the host:port that others should dial. It is Config.Advertise if that is set, with the port's number
// added if it has none; else the address that the port is bound to, if that is a specific one; else, of the addresses of
// interfaces that are up, the first private one, any other that isn't loopback, or at last loopback. Among equals IPv4 goes first.
// A machine with several networks, or behind address translation, needs Config.Advertise.
func (p *Port) AdvertiseAddr() string { return p.advertise }

// GossipKey returns the key for memberlist's packets and streams, derived from the secret; nil without one. The caller owns it.
func (p *Port) GossipKey() []byte {
	if p.identity == nil {
		return nil
	}
	return append([]byte(nil), p.identity.gossip...)
}

// Send queues m for the connection, encoded, so that m is the caller's again when Send returns, and has it written. It never blocks. What can't be
// queued breaks the connection: Closed is called with ErrQueueFull, or with ErrMalformed for a message beyond the limits. A
// connection that is gone takes anything, and forgets it.
func (p *Port) Send(c vote.Conn, m *vote.Message) {
	p.Queue(c, m)
	p.Flush(c, false)
}

// Queue is Send for a message of several: it is written once Flush is called for the connection, or together with another one.
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
}

// Flush has written what is queued for a connection: now, as a rule by the caller itself, which never waits for the peer, whatever that does; or, with
// later, in half a millisecond at the latest, if nothing else is written before.
func (p *Port) Flush(c vote.Conn, later bool) {
	switch l := p.find(c); {
	case l == nil:
	case later:
		l.flushLater()
	default:
		l.flush()
	}
}

// CloseConn ends a connection. What was sent before is still written, within a bounded time; nothing more is received. Closed is
// called as always.
func (p *Port) CloseConn(c vote.Conn) {
	if l := p.find(c); l != nil {
		l.close()
	}
}

func (p *Port) find(c vote.Conn) *link { return (*p.links.Load())[c] }

// setLink puts a link into the map, or with nil takes it out; mu is held.
func (p *Port) setLink(c vote.Conn, l *link) {
	links := maps.Clone(*p.links.Load())
	if l == nil {
		delete(links, c)
	} else {
		links[c] = l
	}
	p.links.Store(&links)
}

// Close ends everything at once, as a crash would look from outside, and returns when every goroutine of the port has ended
// and Closed was called for every link. Calling it again waits too.
func (p *Port) Close() error {
	if p.shut() {
		_ = p.tcp.Close()
		_ = p.udp.Close()
		_ = p.gossip.Shutdown()
	}
	p.running.Wait()
	p.log.flush()
	return nil
}

// shut marks the port as closed and ends its connections. It reports whether this call did it.
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
	p.stop() // first, so that whoever finds a socket closed also finds out why
	for _, l := range links {
		l.fail(ErrClosed)
	}
	for _, s := range sockets {
		_ = s.Close()
	}
	return true
}

// begin counts a call that makes connections, so that Close waits for it; the caller ends it with p.running.Done.
func (p *Port) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return ErrClosed
	}
	p.running.Add(1)
	return nil
}

// keep takes a socket into the port's care; after Close it is closed at once.
func (p *Port) keep(c *net.TCPConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		_ = c.Close()
		return ErrClosed
	}
	p.sockets[c] = struct{}{}
	_ = c.SetReadBuffer(socketBuffer) // a system that refuses keeps its own size
	_ = c.SetWriteBuffer(socketBuffer)
	return nil
}

// forget closes a socket and releases it from the port's care.
func (p *Port) forget(c *net.TCPConn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sockets, c)
}
