package transport

import (
	"net"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// sendsAtMost returns the largest size of a segment sent by this end.
func sendsAtMost(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		size, sockErr = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG)
	}); err != nil || sockErr != nil {
		t.Fatal(err, sockErr)
	}
	return size
}

// socketsOpen returns all sockets of a port's connections.
func (s *side) socketsOpen() (all []*net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		all = append(all, c)
	}
	return all
}

// Paths that drop packets of more than 1,200 bytes, or 1,100, must carry the segments of both
// sides.
func TestSegmentsOfBothSidesFitIntoATunnel(t *testing.T) {
	for _, bind := range []string{"127.0.0.1:0", "[::1]:0"} {
		cfgA, cfgB := config("a", secretA), config("b", secretA)
		cfgA.Bind, cfgB.Bind = bind, bind
		if l, err := net.Listen("tcp", bind); err != nil {
			t.Logf("no %s on this machine: %v", bind, err)
			continue
		} else {
			_ = l.Close()
		}
		a, b := open(t, cfgA), open(t, cfgB)
		if _, err := a.Dial(t.Context(), b.at, "b"); err != nil {
			t.Fatal(err)
		}
		get(t, a.linked, "the link at a")
		get(t, b.linked, "the link at b")
		stream, err := a.Gossip().DialTimeout(b.at, patience)
		if err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "both ends have two sockets", func() bool { return len(a.socketsOpen()) == 2 && len(b.socketsOpen()) == 2 })
		for _, s := range []*side{a, b} {
			for _, c := range s.socketsOpen() {
				// 60 bytes are the headers of IPv6 and TCP.
				if size := sendsAtMost(t, c); size > 1100-60 || size < 500 {
					t.Errorf("%v sends segments of %d bytes", c.LocalAddr(), size)
				}
			}
		}
		_ = stream.Close()
	}
}
