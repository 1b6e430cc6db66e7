package member

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// A fakeNet carries packets and streams between fakePorts of a process, without goroutines; a
// packet arrives at once or never.
type fakeNet struct {
	mu    sync.Mutex
	ports map[string]*fakePort
	cut   func(from, to string) bool // nil: every port reaches every other
}

func newFakeNet() *fakeNet { return &fakeNet{ports: make(map[string]*fakePort)} }

// partition makes cut decide which ports reach each other, and breaks the streams across the cut.
func (n *fakeNet) partition(cut func(from, to string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	for _, p := range n.ports {
		for c := range p.conns {
			if cut != nil && (cut(p.addr, c.peer) || cut(c.peer, p.addr)) {
				c.Conn.Close()
			}
		}
	}
}

// find returns the port at an address as seen from another; silent means that the network drops all
// packets.
func (n *fakeNet) find(from, to string) (port *fakePort, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut != nil && (n.cut(from, to) || n.cut(to, from)) {
		return nil, true
	}
	return n.ports[to], false
}

// fakePort is a memberlist.Transport.
type fakePort struct {
	net     *fakeNet
	addr    string
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	sent    atomic.Int64       // packets
	most    atomic.Int64       // bytes of the longest packet
	conns   map[*fakeConn]bool // guarded by net.mu
	closed  bool               // guarded by net.mu
}

func (n *fakeNet) listen(addr string) *fakePort {
	p := &fakePort{
		net: n, addr: addr, packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn),
		done: make(chan struct{}), conns: make(map[*fakeConn]bool),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[addr] != nil {
		panic(addr + " is taken")
	}
	n.ports[addr] = p
	return p
}

func (p *fakePort) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	parsed := net.ParseIP(ip)
	if parsed == nil {
		return nil, 0, fmt.Errorf("%q is no IP address", ip)
	}
	return parsed, port, nil
}

func (p *fakePort) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	p.sent.Add(1)
	p.most.Store(max(p.most.Load(), int64(len(b))))
	if to, _ := p.net.find(p.addr, addr); to != nil {
		from, err := net.ResolveUDPAddr("udp", p.addr)
		if err != nil {
			return now, err
		}
		select {
		case to.packets <- &memberlist.Packet{Buf: append([]byte(nil), b...), From: from, Timestamp: now}:
		default: // a full socket buffer
		}
	}
	return now, nil
}

func (p *fakePort) PacketCh() <-chan *memberlist.Packet { return p.packets }
func (p *fakePort) StreamCh() <-chan net.Conn           { return p.streams }

func (p *fakePort) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, silent := p.net.find(p.addr, addr)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	switch {
	case silent:
		select {
		case <-timer.C:
			return nil, os.ErrDeadlineExceeded
		case <-p.done:
			return nil, net.ErrClosed
		}
	case to == nil:
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	here, there := p.keep(a, addr), to.keep(b, p.addr)
	select {
	case to.streams <- there:
		return here, nil
	case <-to.done:
	case <-p.done:
	case <-timer.C:
	}
	here.Close()
	there.Close()
	return nil, errors.New("connection refused")
}

func (p *fakePort) keep(c net.Conn, peer string) *fakeConn {
	conn := &fakeConn{Conn: c, port: p, peer: peer}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.closed {
		c.Close()
	} else {
		p.conns[conn] = true
	}
	return conn
}

func (p *fakePort) Shutdown() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	close(p.done)
	delete(p.net.ports, p.addr)
	for c := range p.conns {
		c.Conn.Close()
	}
	return nil
}

type fakeConn struct {
	net.Conn
	port *fakePort
	peer string
}

func (c *fakeConn) RemoteAddr() net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", c.peer)
	if err != nil {
		panic(err)
	}
	return addr
}

func (c *fakeConn) Close() error {
	c.port.net.mu.Lock()
	delete(c.port.conns, c)
	c.port.net.mu.Unlock()
	return c.Conn.Close()
}
