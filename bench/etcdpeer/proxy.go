package etcdpeer

import (
	"io"
	"net"
	"sync"
)

// proxy is a client's proxy to the server: the gate forwards bytes, or keeps the bytes while shut.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond // signaled when blocked or closed changes
	closed  bool
	blocked bool
	conns   map[net.Conn]struct{}
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	g.changed = sync.NewCond(&g.mu)
	g.work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			g.work.Go(func() { g.serve(in) })
		}
	})
	return g, nil
}

func (g *proxy) addr() string { return g.listener.Addr().String() }

// serve forwards bytes in both directions until either end closes its connection.
func (g *proxy) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer out.Close()
	if !g.add(in, out) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			defer in.Close()
			defer out.Close()
			_, _ = io.Copy(&gatedWriter{g, way[1]}, way[0])
		})
	}
	both.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

func (g *proxy) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = struct{}{}
	}
	return !g.closed
}

func (g *proxy) setBlocked(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocked = on
	g.changed.Broadcast()
}

func (g *proxy) close() error {
	err := g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		c.Close()
	}
	g.changed.Broadcast()
	g.mu.Unlock()
	g.work.Wait()
	return err
}

// gatedWriter writes while the gate is open.
type gatedWriter struct {
	g  *proxy
	to net.Conn
}

func (d *gatedWriter) Write(b []byte) (int, error) {
	d.g.mu.Lock()
	for d.g.blocked && !d.g.closed {
		d.g.changed.Wait()
	}
	d.g.mu.Unlock()
	return d.to.Write(b)
}
