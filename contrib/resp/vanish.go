package resp

import "net"

// cutVanished has the system end the TCP connection of a client on a lost machine: otherwise the
// connection would keep its place for hours.
func cutVanished(nc net.Conn) {
	if wrapped, is := nc.(interface{ NetConn() net.Conn }); is { // TLS
		nc = wrapped.NetConn()
	}
	tcp, is := nc.(*net.TCPConn)
	if !is {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive})
	setUserTimeout(tcp)
}
