//go:build !linux

package resp

import "net"

// setUserTimeout does nothing: the system's own time counts.
func setUserTimeout(*net.TCPConn) {}
