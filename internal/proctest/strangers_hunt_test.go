//go:build hunt

package proctest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// besiege keeps a number of connections open to an address, from four addresses of loopback, the
// mesh's own address among them. Each connection sends the words and then nothing, and is opened
// again when closed, until the test ends.
func besiege(t *testing.T, addr string, many int, words string) {
	t.Helper()
	stop := make(chan struct{})
	var mu sync.Mutex
	var open []net.Conn
	var work sync.WaitGroup
	for i := range many {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%4))}
		work.Go(func() {
			for {
				c, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", addr)
				mu.Lock()
				select {
				case <-stop:
					mu.Unlock()
					if err == nil {
						_ = c.Close()
					}
					return
				default:
				}
				// The process is being restarted, or the system has no loopback address but
				// 127.0.0.1.
				if err != nil {
					mu.Unlock()
					from = nil
					time.Sleep(10 * time.Millisecond)
					continue
				}
				open = append(open, c)
				mu.Unlock()
				_, _ = io.WriteString(c, words)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		})
	}
	t.Cleanup(func() {
		mu.Lock()
		close(stop)
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
}

// Silent strangers hold as many connections to each voter as possible, indefinitely. A restarted
// voter and a new node get in nevertheless, and the voters log the strangers' addresses.
func TestStrangersKeepNoMemberOut(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc)
	for _, name := range abc {
		besiege(t, m.addrs[name], 400, "")
	}
	for _, name := range abc {
		m.procs[name].awaitLog("did not complete the handshake", "displaced=", "127.0.0.")
	}
	m.procs["a"].lock("before")
	m.procs["c"].kill()
	m.start("c", m.addrs["c"]).reached("ready")
	for _, name := range abc {
		m.procs["c"].awaitVoter(name, "reachable")
	}
	d := launch(t, "d", secret, append(m.args(), "-bind", "127.0.0.1:0")...)
	d.reached("ready")
	d.lock("of the new one")
	m.procs["c"].lock("of the restarted one")
	for _, name := range []string{"a", "b"} {
		m.procs[name].tell("status")
		if handshakes := m.procs[name].awaitEvent("status", "").Status.Handshakes; handshakes.Displaced == 0 {
			t.Errorf("%s counts %+v", name, handshakes)
		}
	}
}
