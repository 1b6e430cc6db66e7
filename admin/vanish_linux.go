package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// cutVanished has the system end a TCP connection when its peer hasn't acknowledged what was
// written for vanishTime. Otherwise the system takes a quarter of an hour to find that a machine is
// gone, and a key would be held for it meanwhile.
func cutVanished(c net.Conn) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = wrapped.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // the connection has ended
	}
	// Where the option fails, the system's own time counts.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanishTime.Milliseconds()))
	})
}
