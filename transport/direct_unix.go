//go:build unix

package transport

import (
	"net"
	"syscall"
)

// direct writes to a socket without ever blocking, so that the goroutine sending a message can
// write the message itself. One goroutine at a time uses a direct.
type direct struct {
	conn syscall.RawConn
	try  func(fd uintptr) bool

	b   []byte
	n   int
	err error
}

func newDirect(c *net.TCPConn) *direct {
	d := &direct{}
	d.conn, d.err = c.SyscallConn()
	d.try = func(fd uintptr) bool { // made once: a closure for each write would be an allocation
		for {
			d.n, d.err = syscall.Write(int(fd), d.b)
			if d.err != syscall.EINTR {
				return true // never false, since RawConn.Write would then block
			}
		}
	}
	return d
}

// write writes as much as the socket accepts now, and returns the number of bytes written.
func (d *direct) write(b []byte) (int, error) {
	if d.conn == nil {
		return 0, d.err
	}
	d.b = b
	err := d.conn.Write(d.try)
	d.b = nil
	switch {
	case err != nil:
		return 0, err
	case d.err == syscall.EAGAIN:
		return 0, nil
	}
	return max(d.n, 0), d.err
}
