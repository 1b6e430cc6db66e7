package member

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// errClosed is the error for any send by gossip after the end.
var errClosed = errors.New("gossip has ended")

// A closableTransport stands between memberlist and the transport. It lets nothing in until open is
// called, and can be closed at once.
//
// memberlist listens before it has entered its own node into its list of members. If a message
// about an earlier incarnation of this node arrived in between, memberlist would take the earlier
// incarnation for itself: the other nodes would never learn of this incarnation, and would count
// this node as failed.
//
// memberlist's shutdown doesn't wait for its goroutines, and some of them read from streams for
// seconds. The closableTransport tracks every stream and closes all of them, so that no goroutine
// outlives the end for long.
type closableTransport struct {
	memberlist.Transport
	dialMax time.Duration

	streams chan net.Conn
	packets chan *memberlist.Packet
	opened  chan struct{} // closed by open
	done    chan struct{} // closed by cut
	feeds   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[*closableConn]struct{}
	ahead  map[string]net.Conn // by address: opened by connect, for the next DialTimeout
}

var _ memberlist.Transport = (*closableTransport)(nil)

func newClosableTransport(inner memberlist.Transport, dialMax time.Duration) *closableTransport {
	g := &closableTransport{
		Transport: inner, dialMax: dialMax,
		streams: make(chan net.Conn), packets: make(chan *memberlist.Packet),
		opened: make(chan struct{}), done: make(chan struct{}),
		conns: make(map[*closableConn]struct{}), ahead: make(map[string]net.Conn),
	}
	g.feeds.Go(g.feedStreams)
	g.feeds.Go(g.feedPackets)
	return g
}

// open lets streams and packets in. It is called once.
func (g *closableTransport) open() { close(g.opened) }

// feedPackets passes packets on until the transport is closed.
func (g *closableTransport) feedPackets() {
	feed(g, g.Transport.PacketCh(), func(p *memberlist.Packet) bool {
		select {
		case g.packets <- p:
			return true
		case <-g.done:
			return false
		}
	})
}

// feedStreams passes accepted streams on until the transport is closed.
func (g *closableTransport) feedStreams() {
	feed(g, g.Transport.StreamCh(), func(c net.Conn) bool {
		conn, err := g.keep(c)
		if err != nil {
			return false
		}
		select {
		case g.streams <- conn:
			return true
		case <-g.done:
			conn.Close()
			return false
		}
	})
}

// feed waits until the transport is open, and calls pass for each packet or stream from the
// transport, until the transport is closed or pass returns false.
func feed[T any](g *closableTransport, from <-chan T, pass func(T) bool) {
	select {
	case <-g.opened:
	case <-g.done:
		return
	}
	for {
		select {
		case <-g.done:
			return
		case x, ok := <-from:
			if !ok || !pass(x) {
				return
			}
		}
	}
}

// cut ends all traffic at once, like a crash to other nodes. Further calls do nothing.
func (g *closableTransport) cut() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.closed = true
	close(g.done)
	conns := g.conns
	g.conns = nil
	g.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// Shutdown cuts all traffic, and shuts the transport down.
func (g *closableTransport) Shutdown() error {
	g.cut()
	g.feeds.Wait()
	return g.Transport.Shutdown()
}

// StreamCh returns the incoming streams.
func (g *closableTransport) StreamCh() <-chan net.Conn { return g.streams }

// PacketCh returns the incoming packets.
func (g *closableTransport) PacketCh() <-chan *memberlist.Packet { return g.packets }

// WriteTo sends a packet.
func (g *closableTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	select {
	case <-g.done:
		return time.Time{}, errClosed
	default:
		return g.Transport.WriteTo(b, addr)
	}
}

// connect opens a stream, which the next DialTimeout of the address returns: serf joins one address
// after the other, and would wait for each silent one.
func (g *closableTransport) connect(addr string) error {
	c, err := g.dial(addr, g.dialMax)
	if err != nil {
		return err
	}
	g.discard(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead[addr] = c
	return nil
}

// discard closes the stream that connect has opened, unless DialTimeout has returned it.
func (g *closableTransport) discard(addr string) {
	if c := g.take(addr); c != nil {
		c.Close()
	}
}

// take returns the stream that connect has opened, if there is one, and forgets it.
func (g *closableTransport) take(addr string) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.ahead[addr]
	delete(g.ahead, addr)
	return c
}

// DialTimeout returns the stream that connect has opened to the address, or opens one.
func (g *closableTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if c := g.take(addr); c != nil {
		return c, nil
	}
	return g.dial(addr, timeout)
}

// dial opens a stream, within dialMax, and returns at once when the transport is closed meanwhile.
func (g *closableTransport) dial(addr string, timeout time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() { // ends with the dial, within dialMax
		c, err := g.Transport.DialTimeout(addr, min(timeout, g.dialMax))
		if err != nil {
			dialed <- result{err: err}
			return
		}
		conn, err := g.keep(c)
		if err != nil {
			dialed <- result{err: err}
			return
		}
		dialed <- result{conn: conn}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-g.done:
		return nil, errClosed
	}
}

// keep registers a stream, so that cut closes the stream. If the transport is closed, keep closes
// the stream at once.
func (g *closableTransport) keep(c net.Conn) (net.Conn, error) {
	conn := &closableConn{Conn: c, transport: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		c.Close()
		return nil, errClosed
	}
	g.conns[conn] = struct{}{}
	return conn, nil
}

// closableConn is a stream registered with a closableTransport.
type closableConn struct {
	net.Conn
	transport *closableTransport
}

func (c *closableConn) Close() error {
	c.transport.mu.Lock()
	delete(c.transport.conns, c)
	c.transport.mu.Unlock()
	return c.Conn.Close()
}
