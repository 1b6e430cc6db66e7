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
func (t *closableTransport) open() { close(t.opened) }

// feedPackets passes packets on until the transport is closed.
func (t *closableTransport) feedPackets() {
	feed(t, t.Transport.PacketCh(), func(p *memberlist.Packet) bool {
		select {
		case t.packets <- p:
			return true
		case <-t.done:
			return false
		}
	})
}

// feedStreams passes accepted streams on until the transport is closed.
func (t *closableTransport) feedStreams() {
	feed(t, t.Transport.StreamCh(), func(c net.Conn) bool {
		conn, err := t.keep(c)
		if err != nil {
			return false
		}
		select {
		case t.streams <- conn:
			return true
		case <-t.done:
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
func (t *closableTransport) cut() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.closed = true
	close(t.done)
	conns := t.conns
	t.conns = nil
	t.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// Shutdown cuts all traffic, and shuts the transport down.
func (t *closableTransport) Shutdown() error {
	t.cut()
	t.feeds.Wait()
	return t.Transport.Shutdown()
}

// StreamCh returns the incoming streams.
func (t *closableTransport) StreamCh() <-chan net.Conn { return t.streams }

// PacketCh returns the incoming packets.
func (t *closableTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// WriteTo sends a packet.
func (t *closableTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	select {
	case <-t.done:
		return time.Time{}, errClosed
	default:
		return t.Transport.WriteTo(b, addr)
	}
}

// connect opens a stream, which the next DialTimeout of the address returns: serf joins one address
// after the other, and would wait for each silent one.
func (t *closableTransport) connect(addr string) error {
	c, err := t.dial(addr, t.dialMax)
	if err != nil {
		return err
	}
	t.discard(addr)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead[addr] = c
	return nil
}

// discard closes the stream that connect has opened, unless DialTimeout has returned it.
func (t *closableTransport) discard(addr string) {
	if c := t.take(addr); c != nil {
		c.Close()
	}
}

// take returns the stream that connect has opened, if there is one, and forgets it.
func (t *closableTransport) take(addr string) net.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.ahead[addr]
	delete(t.ahead, addr)
	return c
}

// DialTimeout returns the stream that connect has opened to the address, or opens one.
func (t *closableTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if c := t.take(addr); c != nil {
		return c, nil
	}
	return t.dial(addr, timeout)
}

// dial opens a stream, within dialMax, and returns at once when the transport is closed meanwhile.
func (t *closableTransport) dial(addr string, timeout time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() { // ends with the dial, within dialMax
		c, err := t.Transport.DialTimeout(addr, min(timeout, t.dialMax))
		if err != nil {
			dialed <- result{err: err}
			return
		}
		conn, err := t.keep(c)
		if err != nil {
			dialed <- result{err: err}
			return
		}
		dialed <- result{conn: conn}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-t.done:
		return nil, errClosed
	}
}

// keep registers a stream, so that cut closes the stream. If the transport is closed, keep closes
// the stream at once.
func (t *closableTransport) keep(c net.Conn) (net.Conn, error) {
	conn := &closableConn{Conn: c, transport: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return nil, errClosed
	}
	t.conns[conn] = struct{}{}
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
