package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// Server serves locks of a mesh to Redis lock clients, see [New]. A Server may be used from any
// goroutine.
type Server struct {
	mesh *lockmesh.Mesh
	log  *slog.Logger

	password  *[32]byte // the digest of the password; nil without a password
	open      bool
	allowLong bool
	maxTTL    time.Duration
	maxConns  int

	locks   keyLocks
	leases  leases
	slots   gauge // for the leases, and for waiting requests
	signals signals
	scripts scripts
	decided decidedTTL
	ids     counter
	begun   time.Time

	crowded seldom // lines about clients without a place
	failing seldom // lines about errors of listeners
}

// New returns a server of a node's locks. The application owns the mesh, to be closed after
// [Server.Serve] has returned. New panics if mesh is nil.
func New(mesh *lockmesh.Mesh, opts ...Option) *Server {
	if mesh == nil {
		panic("resp: New was called with a nil mesh")
	}
	s := &Server{
		mesh: mesh, log: slog.Default(), maxTTL: lockmesh.DefaultMaxTTL, maxConns: DefaultMaxConns, begun: time.Now(),
		slots: gauge{limit: DefaultMaxLeases},
	}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Serve answers clients on a listener until ctx ends, and then returns nil; or until the listener
// fails, and then returns the error. In any case Serve closes the listener, cuts its connections,
// and returns only when no command runs any more. Serve may be called for several listeners at the
// same time: their clients share the keys.
//
// A listener made by [admin.Listen] is open to its owner only, and its clients need no password. On
// another listener the server needs [WithPassword] or [WithoutPassword]: without either, Serve
// returns an error at once. For TLS pass a listener of package crypto/tls.
//
// Keys outlive the connections of their clients, as in Redis, and the end of Serve: each key lasts
// until its time is over, since its client can't be told more than the end of the connection. A
// key without such an end, or kept up beyond MaxTTL ([AllowLongTTL]), is released a second after
// the connections were cut. End ctx before the mesh is closed. [lockmesh.Mesh.Stop] and Leave would
// release all keys at once, before clients know: call Drain first, or Close instead.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	_, ownerOnly := l.(*admin.Socket)
	return s.serve(ctx, l, ownerOnly)
}

func (s *Server) serve(ctx context.Context, l net.Listener, ownerOnly bool) error {
	defer l.Close()
	if !ownerOnly && s.password == nil && !s.open {
		return errors.New("resp: Serve needs WithPassword, or WithoutPassword, on a listener not made by admin.Listen: otherwise any process " +
			"that reaches the address could take locks")
	}
	serving, cancel := context.WithCancelCause(context.Background())
	set := &conns{open: make(map[*conn]struct{})}
	failed := make(chan error, 1)
	go func() { failed <- s.accept(serving, l, set, ownerOnly) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		if err = l.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		<-failed //nolint:errcheck // the server ends by the line above
	}
	cancel(errStopping)
	set.end()
	s.afterServe(set)
	return err
}

var errStopping = errors.New("the server stops")

// accept serves the connections of a listener until an error or the close.
func (s *Server) accept(serving context.Context, l net.Listener, set *conns, ownerOnly bool) error {
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err != nil {
			if isTemporary(err) {
				// Out of file descriptors, say: ended connections give some back.
				s.failing.say(func(others int) {
					s.log.Warn("can't accept clients", "at", l.Addr().String(), "err", err, "others", others)
				})
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				time.Sleep(pause)
				continue
			}
			return err
		}
		pause = 0
		cutVanished(nc)
		c := s.newConn(serving, nc, set, ownerOnly)
		if !set.add(c, s.maxConns) {
			s.crowded.say(func(others int) {
				s.log.Warn("too many connections: clients are refused", "at", l.Addr().String(), "most", s.maxConns, "others", others)
			})
			// The system's buffer of a fresh connection has room for the answer; the deadline is
			// for listeners without such a buffer.
			_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
			_, _ = nc.Write(c.proto.appendReply(nil, errFull))
			c.cut()
			continue
		}
		go func() {
			defer set.remove(c)
			c.run()
		}()
	}
}

// isTemporary reports whether a listener's error may be over soon.
func isTemporary(err error) bool {
	te, is := err.(interface{ Temporary() bool })
	return is && te.Temporary()
}

// conns are the connections of a call of Serve.
type conns struct {
	mu    sync.Mutex
	open  map[*conn]struct{}
	ended bool
	wg    sync.WaitGroup
}

func (s *conns) add(c *conn, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.open) >= most {
		return false
	}
	s.open[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *conns) remove(c *conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.wg.Done()
}

func (s *conns) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// end cuts all connections, and waits until no command runs.
func (s *conns) end() {
	s.mu.Lock()
	s.ended = true
	for c := range s.open {
		c.cut()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// afterServe releases the keys kept up by this node for clients of a call of Serve. The clients
// have lost their connection, and so their keys; they are given a moment to notice.
func (s *Server) afterServe(set *conns) {
	var kept []*held
	for _, h := range s.leases.all() {
		if h.isKeptFor(set) {
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 {
		return
	}
	time.Sleep(stopGrace)
	var wg sync.WaitGroup
	for _, h := range kept {
		wg.Go(func() {
			s.atTimer(h, func(ctx context.Context) {
				if h.isKeptFor(set) { // else a client of another listener has extended the key
					_ = s.release(ctx, h)
				}
			})
		})
	}
	wg.Wait()
}

// decidedTTL remembers for a second the maximum TTL decided by the voters.
type decidedTTL struct {
	mu  sync.Mutex
	at  time.Time
	ttl time.Duration // zero if the voters have decided on none
}

// forget has the next call ask the node again.
func (d *decidedTTL) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
}

// longest returns the longest time for which the voters keep a key also after a crash of this node.
func (s *Server) longest() time.Duration {
	d := &s.decided
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) > time.Second {
		// A status takes time in proportion to the leases of the node.
		d.at, d.ttl = now, s.mesh.Status().Electorate.MaxTTL
	}
	if d.ttl > 0 {
		return min(d.ttl, s.maxTTL)
	}
	return s.maxTTL
}

// patience returns how long a command waits for the voters.
func (s *Server) patience() time.Duration { return s.longest()/2 + leastPatience }

// counter is a number shared by goroutines.
type counter struct {
	mu sync.Mutex
	n  int64
}

// add adds to the number, and returns the sum.
func (c *counter) add(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	return c.n
}

// seldom lets a line into the log once in logPause: clients decide how often there is a reason for
// the line.
type seldom struct {
	mu     sync.Mutex
	last   time.Time
	others int // reasons since the last line
}

// say calls log, unless the last line is younger than logPause, with the number of reasons since
// then.
func (s *seldom) say(log func(others int)) {
	s.mu.Lock()
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < logPause {
		s.others++
		s.mu.Unlock()
		return
	}
	others := s.others
	s.last, s.others = now, 0
	s.mu.Unlock()
	log(others)
}
