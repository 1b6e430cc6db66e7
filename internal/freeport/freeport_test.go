package freeport

import (
	"net"
	"testing"
)

// A port is returned once, and a port with a listener, for either protocol, isn't returned.
func TestAPortIsGivenOnceAndFree(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		address := Address(t)
		if seen[address] {
			t.Fatalf("%s is given twice", address)
		}
		seen[address] = true
	}
	tcp, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, taken := range []string{tcp.Addr().String(), udp.LocalAddr().String()} {
		if isFree(taken) {
			t.Errorf("%s is taken", taken)
		}
	}
}
