package memnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// errRefused is the error of a dial to an address without a listener. The text is TCP's.
var errRefused = errors.New("connection refused")

// port is a node's place on a network.
type port struct {
	net     *Network
	process *Process
	cfg     transport.Config
	readers sync.WaitGroup

	ctx  context.Context // ends when the port closes
	stop context.CancelFunc

	ends    map[vote.Conn]*end // guarded by net.mu
	secrets atomic.Pointer[[][]byte]
}

var _ world.Links = (*port)(nil)

func (p *Process) listen(c transport.Config) (*port, error) {
	l := &port{net: p.net, process: p, cfg: c, ends: make(map[vote.Conn]*end)}
	l.secrets.Store(&c.Secrets)
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.cfg.Terms.Voters = slices.Sorted(slices.Values(c.Terms.Voters))
	p.lock()
	defer p.net.mu.Unlock()
	if p.net.ports[c.Bind] != nil {
		l.stop()
		return nil, fmt.Errorf("Bind %q is taken", c.Bind)
	}
	p.net.ports[c.Bind], p.net.names[c.Bind] = l, l.name()
	return l, nil
}

func (p *port) name() vote.NodeID { return p.cfg.Self.Node }

func (p *port) AdvertiseAddr() string { return p.cfg.Bind }

// Dial takes a round trip, as a handshake does.
func (p *port) Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error) {
	ctx, free := p.during(ctx)
	defer free()
	them, err := p.reach(ctx, addr)
	if err != nil {
		return 0, err
	}
	if got := them.name(); got != want {
		p.net.mu.Unlock()
		return 0, &transport.WrongNodeError{Want: want, Got: got}
	}
	if them.cfg.LinkRefusal != nil {
		if text := them.cfg.LinkRefusal(); text != "" {
			p.net.mu.Unlock()
			return 0, &transport.RefusedError{Peer: want, Reason: vote.ReasonNameTaken, Text: text}
		}
	}
	mine, theirs := p.newEnd(them.cfg.Self, p.sent()), them.newEnd(p.cfg.Self, p.sent())
	mine.other, theirs.other = theirs, mine
	p.net.mu.Unlock()
	them.cfg.Handler.Linked(theirs.id, theirs.peer, false, them.isFixed(p))
	p.cfg.Handler.Linked(mine.id, mine.peer, true, p.isFixed(them))
	go theirs.read()
	go mine.read()
	return mine.id, nil
}

// Probe takes a round trip, too.
func (p *port) Probe(ctx context.Context, addr string) (vote.SessionID, error) {
	ctx, free := p.during(ctx)
	defer free()
	them, err := p.reach(ctx, addr)
	if err != nil {
		return vote.SessionID{}, err
	}
	defer p.net.mu.Unlock()
	return them.cfg.Self, nil
}

// during returns a context ended by ctx or by the port's closing, and the function to free the
// context.
func (p *port) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(p.ctx, func() { cancel(transport.ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}

// reach waits until both directions are open, then for a round trip, and then until the answer can
// come; unless it fails, net.mu is held on return. A node cut off or paused doesn't answer. For a
// stopped process the dial is refused, since its machine still answers.
func (p *port) reach(ctx context.Context, addr string) (them *port, err error) {
	n := p.net
	open := func() bool {
		name, ok := n.names[addr]
		if p.process.paused || ok && (n.isCut(p.name(), name) || n.isCut(name, p.name())) {
			return false
		}
		them = n.ports[addr]
		if them != nil && (n.areCut(p, them) || n.areCut(them, p)) {
			return false
		}
		return them == nil || !them.process.paused
	}
	if !n.await(ctx.Done(), open) {
		return nil, context.Cause(ctx)
	}
	if n.latency > 0 {
		n.mu.Unlock()
		if !sleep(ctx.Done(), 2*n.latency) || !n.await(ctx.Done(), open) {
			return nil, context.Cause(ctx)
		}
	}
	if p.introduces(them) {
		// Either process may be paused while it reports its state, as in a handshake.
		n.mu.Unlock()
		theirs, mine := them.sighting(p), p.sighting(them)
		them.reportPeer(mine)
		p.reportPeer(theirs)
		if !n.await(ctx.Done(), open) {
			return nil, context.Cause(ctx)
		}
	}
	if err := p.handshake(ctx, them); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	return them, nil
}

// introduces reports whether both sides of a handshake learn of each other; net.mu is held.
func (p *port) introduces(them *port) bool {
	return them != nil && them != p && p.ctx.Err() == nil &&
		them.acceptsSecretOf(p) && them.cfg.Terms.Mesh == p.cfg.Terms.Mesh
}

// sighting returns the node's report about itself for another node; net.mu isn't held. Where both
// may be linked, though their maximum TTLs or kinds differ, it tells none of that.
func (p *port) sighting(to *port) *vote.Sighting {
	t := p.terms()
	if p.differences(to) == "" {
		t = to.cfg.Terms
	}
	s := &vote.Sighting{Peer: p.cfg.Self, Terms: vote.Terms{Voters: t.Voters, MaxTTL: t.MaxTTL, Dynamic: t.Dynamic, Birth: t.Birth}}
	if p.cfg.Account != nil {
		s.Account = p.cfg.Account()
	}
	s.Addr = p.cfg.Bind
	return s
}

func (p *port) reportPeer(s *vote.Sighting) {
	if p.cfg.Met != nil {
		p.cfg.Met(s)
	}
}

// handshake returns the result of the handshake; net.mu is held.
func (p *port) handshake(ctx context.Context, them *port) error {
	switch {
	case p.ctx.Err() != nil, p.process.dead:
		return transport.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case them == nil:
		return errRefused
	case them == p:
		return transport.ErrSelf
	case !them.acceptsSecretOf(p):
		return &transport.RefusedError{Reason: vote.ReasonSecret, Text: "the secrets differ"}
	}
	if text := p.differences(them); text != "" {
		return &transport.RefusedError{Peer: them.name(), Reason: vote.ReasonTerms, Text: text}
	}
	return nil
}

// versions returns the wire versions that a node speaks.
func (p *port) versions() (low, high uint8) {
	if p.cfg.Versions == nil {
		return transport.OldestVersion, transport.WireVersion
	}
	return p.cfg.Versions()
}

// differences describes why two nodes can't be linked; empty if they can.
func (p *port) differences(them *port) string {
	low, high := p.versions()
	theirLow, theirHigh := them.versions()
	version := min(high, theirHigh)
	if version < max(low, theirLow) {
		return fmt.Sprintf("wire version is %d to %d here and %d to %d there", low, high, theirLow, theirHigh)
	}
	return differences(p.terms(), them.terms(), version)
}

// terms returns what the node offers in a handshake.
func (p *port) terms() transport.Terms {
	t := p.cfg.Terms
	if t.Converting && p.cfg.Converted != nil && p.cfg.Converted() {
		t.Dynamic, t.Converting = true, false
	}
	return t
}

// isFixed reports whether this node is converting and another one's electorate is fixed.
func (p *port) isFixed(them *port) bool {
	t := &them.cfg.Terms
	return p.cfg.Terms.Converting && !t.Dynamic && !t.Converting
}

// differences describes incompatible settings of two nodes that speak a wire version, with both
// values; empty if there are none.
func differences(here, there transport.Terms, version uint8) string {
	var points []string
	differ := func(what string, x, y any) {
		points = append(points, fmt.Sprintf("%s is %v here and %v there", what, x, y))
	}
	if here.Mesh != there.Mesh {
		differ("mesh name", here.Mesh, there.Mesh)
	}
	knows := func(t *transport.Terms) bool { return t.Dynamic || t.Converting }
	decided := version >= transport.DecidedTTLVersion && knows(&here) && knows(&there) && (here.Dynamic || there.Dynamic)
	if here.MaxTTL != there.MaxTTL && !decided {
		differ("MaxTTL", here.MaxTTL, there.MaxTTL)
	}
	points = append(points, here.Birth.Differences(there.Birth, "here", "there")...)
	if here.Birth.Expect > 0 != (there.Birth.Expect > 0) {
		return strings.Join(points, "; ")
	}
	kind := func(t transport.Terms) string {
		if t.Dynamic {
			return "is dynamic"
		}
		return "is fixed"
	}
	if here.Dynamic != there.Dynamic && !here.Converting && !there.Converting {
		points = append(points, fmt.Sprintf("the electorate %s here and %s there", kind(here), kind(there)))
	}
	if !slices.Equal(here.Voters, there.Voters) {
		list := "the list of voters"
		if here.Dynamic && there.Dynamic {
			list = "the list of founders"
		}
		differ(list, here.Voters, there.Voters)
	}
	return strings.Join(points, "; ")
}

// Send encodes m at once, so that the caller may reuse m.
func (p *port) Send(c vote.Conn, m *vote.Message) {
	p.process.lock()
	defer p.net.mu.Unlock()
	if e := p.ends[c]; e != nil && !p.process.dead {
		e.send(m)
	}
}

// Queue sends at once: messages sent at the same instant arrive at the same instant.
func (p *port) Queue(c vote.Conn, m *vote.Message) { p.Send(c, m) }

// Flush has nothing to do.
func (p *port) Flush(vote.Conn, bool) {}

// SetSecrets changes the accepted secrets; the first is sent. Links by a secret that isn't accepted
// any more are closed.
func (p *port) SetSecrets(secrets [][]byte) ([][]byte, error) {
	if len(*p.secrets.Load()) == 0 {
		return nil, transport.ErrPlain
	}
	p.process.lock()
	defer p.net.mu.Unlock()
	p.secrets.Store(&secrets)
	for _, e := range p.ends {
		if !p.accepts(e.secret) {
			e.close()
		}
	}
	return secrets, nil
}

// sent returns the secret that this port sends; nil without one.
func (p *port) sent() []byte {
	if secrets := *p.secrets.Load(); len(secrets) > 0 {
		return secrets[0]
	}
	return nil
}

// accepts reports whether a secret is among those accepted here; nil is none.
func (p *port) accepts(secret []byte) bool {
	secrets := *p.secrets.Load()
	if len(secrets) == 0 || secret == nil {
		return len(secrets) == 0 && secret == nil
	}
	return slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Equal(s, secret) })
}

// keyIDs returns the ids of the accepted secrets.
func (p *port) keyIDs() (ids []string) {
	for _, s := range *p.secrets.Load() {
		ids = append(ids, member.KeyID(s))
	}
	return ids
}

// acceptsSecretOf reports whether the secret that a dialer sends is among those accepted here.
func (p *port) acceptsSecretOf(dialer *port) bool {
	return p.accepts(dialer.sent())
}

// Know has nothing to do: there are no strangers.
func (p *port) Know(netip.Addr) {}

// Stats counts nothing.
func (p *port) Stats() transport.Stats { return transport.Stats{} }

func (p *port) CloseConn(c vote.Conn) {
	p.process.lock()
	defer p.net.mu.Unlock()
	if e := p.ends[c]; e != nil && !p.process.dead {
		e.close()
	}
}

// Finish has nothing to do: messages on the way arrive after Close, too.
func (p *port) Finish() {}

// Close ends all connections. Other nodes notice as soon as messages from this node reach them.
func (p *port) Close() error {
	p.process.lock()
	p.net.mu.Unlock()
	p.stop()
	p.net.change(func() {
		for _, e := range p.ends {
			e.close()
		}
		if p.net.ports[p.cfg.Bind] == p {
			delete(p.net.ports, p.cfg.Bind)
		}
	})
	p.readers.Wait()
	return nil
}
