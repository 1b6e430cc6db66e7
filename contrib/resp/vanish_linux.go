package resp

import (
	"net"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the system end a TCP connection when its peer hasn't acknowledged written
// bytes, probes of an idle connection included, for vanishTime.
func setUserTimeout(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // the connection has ended
	}
	// Where the option fails, the system's own time counts.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanishTime.Milliseconds()))
	})
}
