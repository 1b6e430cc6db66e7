package admin

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// boundedListener bounds the number of open connections. The client of a further connection is told
// so, rather than left waiting for a place.
type boundedListener struct {
	net.Listener
	log      *slog.Logger
	places   chan struct{}
	refusals chan struct{} // the refusals under way
	refusing sync.WaitGroup
	crowded  seldom // lines about clients without a place
	failed   seldom // lines about errors of the listener
}

func newBoundedListener(l net.Listener, most int, log *slog.Logger) *boundedListener {
	return &boundedListener{
		Listener: l, log: log, places: make(chan struct{}, most), refusals: make(chan struct{}, min(maxRefusals, most/4+1)),
	}
}

// Accept implements [net.Listener].
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if isTemporary(err) { // the HTTP server tries again
				l.failed.say(func(others int) {
					l.log.Warn("can't accept clients", "at", l.Addr().String(), "error", err, "others", others)
				})
			}
			return nil, err
		}
		select {
		case l.places <- struct{}{}:
			cutVanished(c)
			return &boundedConn{Conn: c, give: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			l.crowded.say(func(others int) {
				l.log.Warn("too many connections: clients are refused", "at", l.Addr().String(), "most", cap(l.places), "others", others)
			})
			l.refuse(c)
		}
	}
}

// isTemporary reports whether a listener's error may be over soon: the process has no file
// descriptor left, say.
func isTemporary(err error) bool {
	te, is := err.(interface{ Temporary() bool })
	return is && te.Temporary()
}

const fullBody = `{"error":"limit","message":"too many connections are open","advice":"try again when others have ended","reasons":["limit"]}`

// full is the answer to a connection without a place.
var full = fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"+
	"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(fullBody), fullBody)

// refuse answers a connection without a place, and closes the connection. The goroutine ends within
// refuseTime.
//
// Many clients take an answer that comes before the request, or the reset of a connection that is
// closed with unread bytes, for a broken server, and never show the answer. So the request is read
// first, unless too many refusals are under way.
func (l *boundedListener) refuse(c net.Conn) {
	select {
	case l.refusals <- struct{}{}:
	default:
		// The system's buffer of a fresh connection has room for the answer; the deadline is for
		// listeners without such a buffer.
		_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = c.Write(full)
		_ = c.Close()
		return
	}
	l.refusing.Go(func() {
		defer func() { <-l.refusals }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(refuseTime))
		readHeader(c)
		_ = c.SetWriteDeadline(time.Now().Add(refuseTime)) // a silent client gets the answer, too
		if _, err := c.Write(full); err != nil {
			return
		}
		if half, is := c.(interface{ CloseWrite() error }); is && half.CloseWrite() == nil {
			buf := make([]byte, 1<<10)
			for n := 0; n < MaxBody; { // until the client closes, or the deadline
				m, err := c.Read(buf)
				if n += m; err != nil {
					return
				}
			}
		}
	})
}

// readHeader reads the header of a request, up to maxHeader bytes and the connection's deadline.
func readHeader(c net.Conn) {
	var header []byte
	buf := make([]byte, 1<<10)
	for len(header) < maxHeader && !bytes.Contains(header, []byte("\r\n\r\n")) {
		n, err := c.Read(buf)
		if header = append(header, buf[:n]...); err != nil {
			return
		}
	}
}

// end waits for the refusals under way, when Accept isn't called any more.
func (l *boundedListener) end() { l.refusing.Wait() }

// boundedConn gives its place back at its Close.
type boundedConn struct {
	net.Conn
	give     func()
	vanished atomic.Bool // see connection
	endless  atomic.Bool // Read has no deadline
	ahead    []byte      // sent by the client during a watch, for the next Read
}

// aheadMost is how many bytes of further requests a connection keeps while a request is handled. A
// client that sends more is cut: behind so many bytes the end of the connection couldn't be
// noticed, and a client that is gone would wait on, and get the key for the whole ttl.
const aheadMost = 16 << 10

var errAhead = fmt.Errorf("admin: the client has sent more than %d bytes behind a request that is being handled", aheadMost)

// Read implements [net.Conn]. While a request is handled, the HTTP server watches the connection by
// a Read of a single byte without a deadline, and gives the watch up when the client sends a byte:
// the request of a client that has sent a line feed too many, and then closed the connection, would
// wait on, and get the key. So Read goes on with a watch, and keeps these bytes for the next Read.
func (c *boundedConn) Read(p []byte) (int, error) {
	for {
		if c.watches(p) && len(c.ahead) > aheadMost {
			c.vanished.Store(true) // the client of a hold may go on until its deadline
			_ = c.Conn.Close()     // Close gives the place back
			return 0, errAhead
		}
		if len(c.ahead) > 0 && !c.watches(p) {
			n := copy(p, c.ahead)
			if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
				c.ahead = nil
			}
			return n, nil
		}
		n, err := c.Conn.Read(p)
		if errors.Is(err, syscall.ETIMEDOUT) {
			c.vanished.Store(true)
		}
		if err != nil || len(c.ahead) == 0 && !c.watches(p) {
			return n, err
		}
		c.ahead = append(c.ahead, p[:n]...)
	}
}

// watches reports whether a Read is the HTTP server's watch. All other reads of the server have a
// deadline, or room for more than a byte.
func (c *boundedConn) watches(p []byte) bool { return len(p) == 1 && c.endless.Load() }

// SetReadDeadline implements [net.Conn].
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.endless.Store(t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *boundedConn) SetDeadline(t time.Time) error {
	c.endless.Store(t.IsZero())
	return c.Conn.SetDeadline(t)
}

// Close implements [net.Conn].
func (c *boundedConn) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// seldom lets a line into the log once in logPause: clients decide how often there is a reason for
// the line.
type seldom struct {
	mu     sync.Mutex
	last   time.Time
	others int // reasons since the last line
}

// say calls log, unless it was called less than logPause ago, with the number of calls of say
// since then.
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
