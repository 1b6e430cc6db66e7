package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

const testPassword = "0123456789-test-password"

// site is a server of a node, served in memory.
type site struct {
	t      *testing.T
	m      *meshtest.Mesh
	server *Server
	l      *pipes.Listener
	stop   func()
}

// newSite serves a node's locks to clients without a password, until stop is called or the test
// ends.
func newSite(t *testing.T, m *meshtest.Mesh, node string, opts ...Option) *site {
	t.Helper()
	opts = append([]Option{WithoutPassword(), WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	s := &site{t: t, m: m, server: New(m.Node(node), opts...)}
	s.l, s.stop = s.listen()
	return s
}

// listen serves a further listener.
func (s *site) listen() (l *pipes.Listener, stop func()) {
	l = pipes.New()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := s.server.Serve(ctx, l); err != nil {
			s.t.Errorf("Serve: %v", err)
		}
	}()
	stop = func() { cancel(); <-stopped }
	s.t.Cleanup(stop)
	return l, stop
}

// client is a connection of a Redis client.
type client struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func (s *site) client() *client { return dialed(s.t, s.l) }

func dialed(t *testing.T, l *pipes.Listener) *client {
	t.Helper()
	nc, err := l.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

func newClient(t *testing.T, nc net.Conn) *client {
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc, r: bufio.NewReader(nc)}
}

// request writes words as RESP has them.
func request(words ...any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		text := fmt.Sprint(w)
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(text), text)
	}
	return b.String()
}

// write sends text; the server may read a part only.
func (c *client) write(text string) {
	go func() { _, _ = io.WriteString(c.nc, text) }()
}

// send sends a request without reading the answer.
func (c *client) send(words ...any) {
	c.t.Helper()
	if _, err := io.WriteString(c.nc, request(words...)); err != nil {
		c.t.Fatal(err)
	}
}

// do sends a request and returns the answer in the notation of show.
func (c *client) do(words ...any) string {
	c.t.Helper()
	c.send(words...)
	return c.read()
}

// read returns the next answer.
func (c *client) read() string {
	c.t.Helper()
	text, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("reading an answer: %v", err)
	}
	return text
}

// isCut reports whether the server has ended the connection.
func (c *client) isCut() bool {
	_, err := c.r.ReadByte()
	return err != nil
}

// want sends a request, and fails the test unless the answer begins with a text.
func (c *client) want(answer string, words ...any) {
	c.t.Helper()
	if got := c.do(words...); got != answer && !(strings.HasSuffix(answer, "…") && strings.HasPrefix(got, strings.TrimSuffix(answer, "…"))) {
		c.t.Errorf("%v: %s; want %s", words, got, answer)
	}
}

// readReply reads an answer: +OK, -ERR text, :1, "text", nil, nil[] or [a b].
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty line")
	}
	switch line[0] {
	case '+', '-', ':':
		return line, nil
	case '_':
		return "null", nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", err
	}
	switch {
	case line[0] == '$' && n < 0:
		return "nil", nil
	case line[0] == '*' && n < 0:
		return "nil[]", nil
	case line[0] == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return strconv.Quote(string(b[:n])), nil
	case line[0] == '*', line[0] == '%':
		if line[0] == '%' {
			n *= 2
		}
		items := make([]string, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(items, " ") + "]", nil
	}
	return "", fmt.Errorf("no answer: %q", line)
}
