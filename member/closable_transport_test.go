package member

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// TestNothingComesInBeforeTheTransportIsOpen: before the transport is open, memberlist has no
// member yet, and would apply to itself a message about an earlier incarnation of its node.
func TestNothingComesInBeforeTheTransportIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := newFakeNet().listen(addr(1))
		g := newClosableTransport(port, time.Second)
		here, there := net.Pipe()
		defer there.Close()
		go func() { port.packets <- &memberlist.Packet{Buf: []byte("p")} }()
		go func() { port.streams <- here }()
		synctest.Wait()
		select {
		case <-g.PacketCh():
			t.Error("a packet came in")
		case <-g.StreamCh():
			t.Error("a stream came in")
		default:
		}
		g.open()
		if p := <-g.PacketCh(); string(p.Buf) != "p" {
			t.Errorf("the packet is %q", p.Buf)
		}
		(<-g.StreamCh()).Close()
		if err := g.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // closed without having been opened
		g := newClosableTransport(newFakeNet().listen(addr(1)), time.Second)
		if err := g.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}
