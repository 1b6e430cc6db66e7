//go:build unix

package transport

import (
	"net"
	"syscall"
)

// clampBefore makes a socket announce and send small segments, before the socket is connected or
// listens. Linux applies the option also to connections accepted by a listener. On systems where
// the option is refused at this point, clampAfter tries again.
func clampBefore(_, _ string, c syscall.RawConn) error {
	_ = c.Control(clampSocket)
	return nil // a socket with large segments is better than none
}

// clampAfter makes a connection send small segments. The BSDs, including macOS, allow the option
// only once the connection exists. There each side limits only its own segments.
func clampAfter(c *net.TCPConn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(clampSocket)
	}
}

func clampSocket(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, maxSegment)
}

// segmentsClamped says whether programs can clamp segments on this system. Elsewhere the handshake
// is written in pieces; see writeCut.
const segmentsClamped = true
