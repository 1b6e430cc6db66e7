// Package freeport finds ports for the tests that start processes.
package freeport

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports are taken from below the range from which systems take the ports of outgoing connections
// and of listeners that don't ask for one (on Linux from 32768 on). So no other process is given a
// port between the choice of the port and the start of the test's process, or while the process
// restarts.
const low, count = 12_000, 18_000

var given atomic.Uint32

// Address returns an address of loopback, host:port, at which no process listens, neither for TCP
// nor for UDP. Each call of a test process returns another address, and two test processes begin at
// different ports. Address fails the test if all ports are taken.
func Address(tb testing.TB) string {
	tb.Helper()
	for range count {
		port := low + (os.Getpid()*97+int(given.Add(1)))%count
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if isFree(address) {
			return address
		}
	}
	tb.Fatalf("all %d ports from %d on are taken", count, low)
	return ""
}

func isFree(address string) bool {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer tcp.Close() // no connection was accepted
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	_ = udp.Close()
	return true
}
