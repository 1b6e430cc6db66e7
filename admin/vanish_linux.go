package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// cutVanished has the system end a TCP connection after vanishTime without the peer's
// acknowledgement of written data. Otherwise the system takes a quarter of an hour to notice the
// loss of a machine, and a key would be held for the lost client meanwhile.
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
