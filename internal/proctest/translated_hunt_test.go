//go:build hunt

package proctest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
)

// translate has a free address of loopback stand for another, as address translation does: data
// sent to the free address arrives at the other, from an address that no node has. translate
// returns the free address.
func translate(t *testing.T, to string) string {
	t.Helper()
	at := freeport.Address(t)
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []io.Closer
	closed := false
	keep := func(c io.Closer) { // until the test ends
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, c); closed {
			_ = c.Close()
		}
	}
	keep(tcp)
	keep(udp)
	t.Cleanup(func() {
		mu.Lock()
		closed = true
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	carry := func(from, to net.Conn) {
		running.Go(func() {
			_, _ = io.Copy(to, from) // ends with either side
			_, _ = to.Close(), from.Close()
		})
	}
	running.Go(func() {
		for {
			in, err := tcp.Accept()
			if err != nil {
				return
			}
			keep(in)
			running.Go(func() {
				out := reach(to)
				if out == nil {
					_ = in.Close()
					return
				}
				keep(out)
				carry(in, out)
				carry(out, in)
			})
		}
	})
	running.Go(func() {
		packet := make([]byte, 1<<16)
		ways := make(map[string]net.Conn) // by sender
		for {
			n, from, err := udp.ReadFrom(packet)
			if err != nil {
				return
			}
			way := ways[from.String()]
			if way == nil {
				if way, err = net.Dial("udp", to); err != nil {
					t.Error(err)
					return
				}
				ways[from.String()] = way
				keep(way)
				back := way
				running.Go(func() {
					answer := make([]byte, 1<<16)
					for {
						n, err := back.Read(answer)
						switch {
						case err == nil:
							_, _ = udp.WriteTo(answer[:n], from) // a packet may be lost
						case strings.Contains(err.Error(), "refused"):
							// The node isn't up.
						default:
							return
						}
					}
				})
			}
			_, _ = way.Write(packet[:n])
		}
	})
	return at
}

// reach connects to a node that may be starting; nil if the node is down. (Translation in a kernel
// refuses such a connection; a listener can't.)
func reach(addr string) net.Conn {
	for range 20 {
		if c, err := net.Dial("tcp", addr); err == nil {
			return c
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil
}

// Nodes behind address translation are known by addresses other than their own listen addresses:
// each node learns its public address from Advertise. The nodes find each other, lock, survive the
// restart of a node, and log no false claim about other nodes.
func TestNodesBehindAddressTranslation(t *testing.T) {
	// Not in parallel: the test's process carries all messages of the nodes, and the other tests
	// keep both processors busy.
	m := newMesh(t, abc)
	bind := make(map[string]string)
	for _, name := range abc {
		bind[name] = m.addrs[name]
		m.addrs[name] = translate(t, bind[name])
	}
	start := func(name string) *process { return m.start(name, bind[name], "-advertise", m.addrs[name]) }
	for _, name := range abc {
		start(name)
	}
	for _, name := range abc {
		m.procs[name].reached("settled")
	}
	for _, name := range abc {
		for _, other := range abc {
			m.procs[name].awaitVoter(other, "reachable")
		}
	}
	quietly := func(what string, most int) {
		t.Helper()
		for _, name := range abc {
			var loud []string
			for _, line := range m.procs[name].said() {
				if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
					loud = append(loud, line)
				}
			}
			if len(loud) > most {
				t.Errorf("%s: %s complained %d times, at most %d were expected:\n%s", what, name, len(loud), most, strings.Join(loud, "\n"))
			}
		}
	}
	quietly("a first start", 2) // none on a quiet machine
	a, b := m.procs["a"], m.procs["b"]
	held := a.lock("k")
	b.queued("k")
	a.renewed("k", 50) // ten TTLs: gossip has probed all nodes many times meanwhile
	a.tell("unlock k")
	larger(t, b.awaitEvent("granted", "k"), held)
	a.none("lost")
	// There are none on a quiet machine; the fault in question logs two a second.
	quietly("a lease of ten TTLs", 3)

	m.procs["c"].kill()
	a.awaitLog("doesn't count", "voter=c")
	c := start("c")
	c.reached("settled")
	for _, name := range []string{"a", "b"} {
		m.procs[name].awaitVoter("c", "reachable")
	}
	c.lock("after a restart")
	// The lines are about the voter that doesn't count, and perhaps about its address, where
	// connections are accepted and closed.
	quietly("a restart", 4)
}
