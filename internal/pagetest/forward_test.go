//go:build hunt

package pagetest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// forward leads connections from a port to a unix socket, until the test ends or calls the result.
func forward(t *testing.T, port net.Listener, socket string) (cut func()) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	ended := false
	keep := func(c net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
		return !ended
	}
	all.Go(func() {
		for {
			from, err := port.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("the forwarded port: %v", err)
				}
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil || !keep(from) || !keep(to) {
				from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() {
					_, _ = io.Copy(way[1], way[0]) // the test shows the end of either side
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	cut = sync.OnceFunc(func() {
		port.Close()
		mu.Lock()
		ended = true
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	t.Cleanup(cut)
	return cut
}
