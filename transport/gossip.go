package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPacket is the longest gossip packet accepted. This version sends at most 1,048 bytes,
	// earlier versions 1,407.
	maxPacket = 16 << 10
	// maxPackets is how many packets may wait for memberlist, which takes packets at once unless
	// the machine is overloaded. The product of maxPackets and maxPacket bounds the memory that
	// strangers can make this node use.
	maxPackets = 256
)

// gossip is memberlist's transport: packets over the port's UDP socket, streams over its TCP
// listener.
//
// memberlist itself encrypts both when given the GossipKeys. Packets are handed over as received;
// streams additionally use TLS, so that strangers don't reach memberlist's decoder.
type gossip struct {
	port    *Port
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    chan struct{} // closed by Shutdown

	unpacker *unpacker

	advertised atomic.Pointer[advertisedHost] // found by Listen; nil once used

	mu     sync.Mutex
	isDown bool
	open   map[*gossipStream]struct{}
}

var _ memberlist.NodeAwareTransport = (*gossip)(nil)

// Gossip returns the transport for memberlist, the same at each call. The transport serves one
// memberlist, until memberlist shuts it down; the port's links are not affected. Packets and
// streams are dropped until a memberlist takes them.
func (p *Port) Gossip() memberlist.Transport { return p.gossip }

func newGossip(p *Port, u *unpacker) *gossip {
	return &gossip{
		unpacker: u,
		port:     p, packets: make(chan *memberlist.Packet, maxPackets), streams: make(chan net.Conn),
		down: make(chan struct{}), open: map[*gossipStream]struct{}{},
	}
}

// setKeys changes the keys by which packets are inspected.
func (g *gossip) setKeys(keys []*key) error { return g.unpacker.setKeys(keys) }

// FinalAdvertiseAddr implements memberlist.Transport. With an empty host, FinalAdvertiseAddr
// returns the port's own advertised address. A host name is resolved.
func (g *gossip) FinalAdvertiseAddr(host string, port int) (net.IP, int, error) {
	if host == "" {
		var number string
		var err error
		if host, number, err = net.SplitHostPort(g.port.advertise); err != nil {
			return nil, 0, err
		}
		if port, err = strconv.Atoi(number); err != nil {
			return nil, 0, err
		}
	}
	if port == 0 {
		port = int(g.port.addr.Port())
	}
	if found := g.advertised.Swap(nil); found != nil && found.host == host {
		return found.ip, port, nil
	}
	ip, err := lookup(g.port.ctx, host)
	if err != nil {
		return nil, 0, fmt.Errorf("the address to advertise: %w", err)
	}
	return ip, port, nil
}

// advertisedHost is the result of a look-up.
type advertisedHost struct {
	host string
	ip   net.IP
}

// findAdvertised looks up the host of the port's own advertised address, for the first call of
// FinalAdvertiseAddr: memberlist calls it without a context as gossip starts, and again whenever
// the node's tags change.
func (g *gossip) findAdvertised(ctx context.Context) error {
	host, _, err := net.SplitHostPort(g.port.advertise)
	if err != nil {
		return err
	}
	ip, err := lookup(ctx, host)
	if err != nil {
		return fmt.Errorf("the address to advertise: %w", err)
	}
	g.advertised.Store(&advertisedHost{host, ip})
	return nil
}

// lookup resolves host to an address, IPv4 if there is one. A look-up takes handshakeTimeout at
// most.
func lookup(ctx context.Context, host string) (net.IP, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	best := netip.Addr{}
	for _, a := range addrs {
		if a = a.Unmap(); !best.IsValid() || a.Is4() && !best.Is4() {
			best = a
		}
	}
	if !best.IsValid() {
		return nil, fmt.Errorf("%q has no address", host)
	}
	return best.AsSlice(), nil
}

// WriteTo implements memberlist.Transport.
func (g *gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	if g.isShut() {
		return time.Time{}, ErrClosed
	}
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		a, err := net.ResolveUDPAddr("udp", addr)
		if err != nil {
			return time.Time{}, err
		}
		to = a.AddrPort()
	}
	_, err = g.port.udp.WriteToUDPAddrPort(b, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	if err == nil {
		g.port.count.sentPackets.Add(1)
	}
	return time.Now(), err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (g *gossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, a.Addr)
}

// PacketCh implements memberlist.Transport.
func (g *gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }

// StreamCh implements memberlist.Transport.
func (g *gossip) StreamCh() <-chan net.Conn { return g.streams }

// DialTimeout implements memberlist.Transport.
func (g *gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	p := g.port
	if g.isShut() {
		return nil, ErrClosed
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer p.running.Done()
	s, err := p.within(context.Background(), min(timeout, p.build.handshakeTimeout), func(ctx context.Context) (*session, error) {
		return p.connect(ctx, addr, protoGossip, func(*session) error { return nil })
	})
	if err != nil {
		return nil, fmt.Errorf("gossip with %s: %w", addr, err)
	}
	return g.wrap(s, nil)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (g *gossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.DialTimeout(a.Addr, timeout)
}

// Shutdown implements memberlist.Transport. Shutdown ends gossip, closing its streams and dropping
// its packets. The sockets still belong to the port. memberlist calls Shutdown once; further calls
// do nothing.
func (g *gossip) Shutdown() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isDown {
		g.isDown = true
		close(g.down)
	}
	for s := range g.open {
		_ = s.socket.Close()
	}
	return nil
}

func (g *gossip) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isDown
}

// handOver passes an incoming stream to memberlist. A stream that memberlist doesn't accept in time
// is dropped. In either case the caller needn't close the stream.
func (g *gossip) handOver(s *session, v *visitor) bool {
	s.settle()
	stream, err := g.wrap(s, g.port.admitStream(s, v))
	if err != nil {
		return true
	}
	patience := time.NewTimer(g.port.build.handshakeTimeout)
	defer patience.Stop()
	select {
	case g.streams <- stream:
		g.port.count.gossipStreams.Add(1)
		return true
	case <-g.down:
	case <-g.port.ctx.Done():
	case <-patience.C:
	}
	g.port.count.gossipStreamsDropped.Add(1)
	_ = s.socket.Close()
	_ = stream.Close()
	return true
}

// admitStream exchanges a visitor's place in the handshake for a place among the gossip streams.
func (p *Port) admitStream(s *session, v *visitor) *visitor {
	p.admission.remove(v)
	place := &visitor{source: v.source, known: v.known, leave: func() { _ = s.socket.Close() }}
	p.admission.addStream(place)
	return place
}

// gossipStream is a stream owned by memberlist.
type gossipStream struct {
	net.Conn
	socket *net.TCPConn
	owner  *gossip
	place  *visitor // set for an incoming stream
}

// wrap registers a stream with gossip, so that Shutdown closes the stream.
func (g *gossip) wrap(s *session, place *visitor) (net.Conn, error) {
	filter := &streamFilter{Conn: s.stream, refused: func() { g.refusedCompressed(s.socket.RemoteAddr()) }}
	stream := &gossipStream{Conn: filter, socket: s.socket, owner: g, place: place}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDown {
		g.port.forget(s.socket)
		if place != nil {
			g.port.admission.remove(place)
		}
		return nil, ErrClosed
	}
	g.open[stream] = struct{}{}
	return stream, nil
}

// Close implements net.Conn.
func (s *gossipStream) Close() error {
	err := s.Conn.Close()
	s.owner.port.forget(s.socket)
	if s.place != nil {
		s.owner.port.admission.remove(s.place)
	}
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	delete(s.owner.open, s)
	return err
}

// readPackets hands packets to memberlist until the port closes. It never waits for memberlist.
func (g *gossip) readPackets() {
	p := g.port
	defer p.running.Done()
	buf := make([]byte, maxPacket+1)
	pause := acceptPause
	for {
		n, from, err := p.udp.ReadFromUDPAddrPort(buf)
		if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil && n == 0 {
			// On some systems an undeliverable packet that we sent appears as an error of the next
			// read.
			p.log.warn(topicSocket, "can't read packets", "addr", p.addr, "error", err)
			if !p.sleep(pause) {
				return
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPause
		if n > 0 {
			g.deliver(buf[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		}
	}
}

// refusedCompressed counts and logs compressed incoming gossip.
func (g *gossip) refusedCompressed(from any) {
	g.port.count.compressed.Add(1)
	g.port.log.warn(topicPackets, "refused gossip that came in compressed, which no node of a mesh sends", "from", from)
}

// deliver queues a packet for memberlist, or drops the packet.
func (g *gossip) deliver(b []byte, from netip.AddrPort) {
	p := g.port
	if g.isShut() {
		p.count.dropped.Add(1)
		return
	}
	if g.unpacker.refuses(b) {
		g.refusedCompressed(from)
		return
	}
	if len(b) > maxPacket || len(g.packets) == cap(g.packets) {
		p.count.dropped.Add(1)
		p.log.warn(topicPackets, "dropped a packet of gossip", "from", from, "bytes", len(b))
		return
	}
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}
	p.count.receivedPackets.Add(1)
	g.packets <- packet // only this goroutine adds packets, so there is room
}
