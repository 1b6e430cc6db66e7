package peer

import "net"

// echoBuffer is large enough for everything sent meanwhile by a thousand callers.
const echoBuffer = 256 << 10

// ServeEcho sends back all input, on loopback, until the process ends, and returns the address.
func ServeEcho() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go echo(c)
		}
	}()
	return l.Addr().String(), nil
}

func echo(c net.Conn) {
	buf := make([]byte, echoBuffer)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
