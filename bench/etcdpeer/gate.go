package etcdpeer

import (
	"io"
	"net"
	"sync"
)

// gate is one client's way to the server: it hands on bytes, or keeps them for as long as it is shut.
type gate struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	moved  *sync.Cond // closed or conns has changed, or it was shut or opened
	closed bool
	isShut bool
	conns  map[net.Conn]struct{}
}

func newGate(target string) (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	g.moved = sync.NewCond(&g.mu)
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

func (g *gate) addr() string { return g.listener.Addr().String() }

// serve hands on what comes, both ways, until either end hangs up.
func (g *gate) serve(in net.Conn) {
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
			_, _ = io.Copy(&doorway{g, way[1]}, way[0])
		})
	}
	both.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

func (g *gate) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = struct{}{}
	}
	return !g.closed
}

func (g *gate) shut(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = on
	g.moved.Broadcast()
}

func (g *gate) close() error {
	err := g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		c.Close()
	}
	g.moved.Broadcast()
	g.mu.Unlock()
	g.work.Wait()
	return err
}

// doorway writes while the gate is open.
type doorway struct {
	g  *gate
	to net.Conn
}

func (d *doorway) Write(b []byte) (int, error) {
	d.g.mu.Lock()
	for d.g.isShut && !d.g.closed {
		d.g.moved.Wait()
	}
	d.g.mu.Unlock()
	return d.to.Write(b)
}
