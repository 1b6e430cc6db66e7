//go:build !unix

package transport

import (
	"net"
	"syscall"
)

// Windows has no option to clamp segments. A Windows node is protected by the other side, if the
// other side's system has the option. Between two nodes without the option, the handshake is cut
// into small writes, and later traffic depends on the system's own black-hole detection.

func clampBefore(_, _ string, _ syscall.RawConn) error { return nil }

func clampAfter(*net.TCPConn) {}

const segmentsClamped = false
