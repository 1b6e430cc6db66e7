package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// conn is a client's connection. Its goroutine runs the commands in the order of their arrival;
// only cut is called by others.
type conn struct {
	s         *Server
	nc        net.Conn
	set       *conns
	id        int64
	ctx       context.Context // ends with the connection
	end       context.CancelFunc
	closeOnce sync.Once

	reader reader
	out    []byte // answers not yet written

	free  bool      // the client needs no password
	known bool      // the client has sent the password, or needs none
	limit time.Time // when an unknown client is cut
	name  string
	proto protocol
	quit  bool
}

func (s *Server) newConn(serving context.Context, nc net.Conn, set *conns, ownerOnly bool) *conn {
	free := ownerOnly || s.password == nil
	c := &conn{s: s, nc: nc, set: set, id: s.ids.add(1), free: free, reader: reader{nc: nc}, proto: resp2}
	c.ctx, c.end = context.WithCancel(serving)
	c.estrange()
	return c
}

// estrange makes the client one that has to send the password, unless the client needs none.
func (c *conn) estrange() { c.known, c.limit = c.free, time.Now().Add(requestTime) }

// cut ends the connection. Any goroutine may call it.
func (c *conn) cut() {
	c.closeOnce.Do(func() {
		c.end()
		_ = c.nc.Close()
	})
}

// run answers requests until the connection ends.
func (c *conn) run() {
	defer c.cut()
	for !c.quit {
		args, inline, err := c.reader.next(c.bounds())
		if err != nil {
			c.refuse(err)
			return
		}
		if args == nil {
			if c.flush() != nil {
				return
			}
			if err := c.reader.fill(c.patience()); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					c.refuse(broken("the request didn't arrive within %v", requestTime))
				}
				return
			}
			continue
		}
		c.out = c.proto.appendReply(c.out, c.s.answer(c, args, inline))
		if len(c.out) >= flushLen && c.flush() != nil {
			return
		}
	}
	_ = c.flush()
}

// bounds returns the limits of the client's requests.
func (c *conn) bounds() bounds {
	if c.known {
		return memberBounds
	}
	return strangerBounds
}

// patience returns until when the client may begin a request; zero is any time. An unknown client
// gets no more time by requests other than the password.
func (c *conn) patience() time.Time {
	if c.known {
		return time.Time{}
	}
	return c.limit
}

// flush writes the answers. A client without a reader is cut.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := c.nc.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > flushLen {
		c.out = nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.log("a client doesn't read its answers")
	}
	return err
}

// refuse answers a broken request. The connection ends afterwards.
func (c *conn) refuse(err error) {
	if !errors.Is(err, errProtocol) {
		return
	}
	c.log("a broken request", slog.Any("err", err))
	c.out = c.proto.appendReply(c.out, failf("ERR %v", err))
	_ = c.flush()
}

func (c *conn) log(text string, attrs ...slog.Attr) {
	c.s.log.LogAttrs(c.ctx, slog.LevelDebug, text, append(attrs, slog.String("client", c.nc.RemoteAddr().String()))...)
}

// whileConnected calls f with a context that also ends with the client's connection. The bytes of
// further requests are kept for the time after. A client that sends more than MaxRequest meanwhile
// is cut: behind so many bytes the end of the connection couldn't be noticed, and the call of a
// client that is gone would go on.
func (c *conn) whileConnected(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for c.reader.w-c.reader.r <= MaxRequest {
			if err := c.reader.more(); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					cancel()
				}
				return
			}
		}
		c.log("a client sends too much behind a call that waits")
		cancel()
		c.cut()
	}()
	f(ctx)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends the goroutine's read
	<-watched
	_ = c.nc.SetReadDeadline(time.Time{})
	c.reader.timed = false
}
