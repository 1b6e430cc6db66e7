//go:build hunt

package clients

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// wire is a connection for requests and answers as they are.
type wire struct {
	nc net.Conn
	r  *bufio.Reader
}

func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &wire{nc: nc, r: bufio.NewReader(nc)}
}

// do sends a request and returns the answer in a line: +OK, -ERR text, :1, "text", nil, [a b].
func (w *wire) do(words ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if err := w.nc.SetDeadline(time.Now().Add(longTime)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(w.nc, b.String()); err != nil {
		return "", err
	}
	return w.read()
}

func (w *wire) read() (string, error) {
	line, err := w.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if strings.IndexByte("+-:", line[0]) >= 0 {
		return line, nil
	}
	n, err := strconv.Atoi(line[1:])
	switch {
	case err != nil:
		return "", err
	case n < 0:
		return "nil", nil
	case line[0] == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(w.r, b)
		return strconv.Quote(string(b[:n])), err
	}
	items := make([]string, n)
	for i := range items {
		if items[i], err = w.read(); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(items, " ") + "]", nil
}

// need skips a test without its program, with a loud message.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("!!!! NOT TRIED: %v", err)
		}
	}
}

// newRedisServer starts a Redis without files, on a port of loopback, and returns its address.
func newRedisServer(t *testing.T) (addr string) {
	t.Helper()
	need(t, "redis-server")
	addr = freeport.Address(t)
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testwait.Until(t, "redis-server listens", func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			_ = nc.Close()
		}
		return err == nil
	})
	return addr
}
