//go:build hunt && unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// status returns a number of the agent's /proc/PID/status: kilobytes, or a count.
func (b *openBench) status(field string) (n int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.agent.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if got, _ := fmt.Sscanf(line, field+": %d", &n); got == 1 {
			return n
		}
	}
	return 0
}

// crowd has clients of all ways, each with the next of the habits of its way.
type crowd struct {
	t     *testing.T
	mu    sync.Mutex
	conns []net.Conn
	said  map[string]int
}

// join makes n connections over a way, some at a time, each with a habit: the text sent by the
// client, and the start of the expected answer; an empty answer stands for none.
func (c *crowd) join(w *way, n int, habits ...[2]string) {
	var all sync.WaitGroup
	places := make(chan struct{}, 32)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			habit := habits[i%len(habits)]
			answer := "can't connect"
			conn, err := net.DialTimeout(w.network, w.address, patience)
			if err == nil {
				answer = talk(conn, fmt.Sprintf(habit[0], i), habit[1])
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if conn != nil {
				c.conns = append(c.conns, conn)
			}
			c.said[w.name+": "+answer]++
		})
	}
	all.Wait()
}

// talk sends a text, and reads as many bytes as the expected answer has.
func talk(conn net.Conn, text, want string) string {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		return err.Error()
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err.Error()
	}
	return string(got)
}

// TestTenThousandConnections: idle connections, unfinished requests, holds over connections and
// keys of Redis clients, 10,000 together, leave room for other clients and for the mesh.
func TestTenThousandConnections(t *testing.T) {
	const n = 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < n+5000 {
		t.Skipf("!!!! NOT TRIED: %d open files are allowed, and %d needed", limit.Cur, n+5000)
	}
	b := newOpenBench(t, 0, "--name", "a", "--voters", "a", "--max-ttl", brief)
	w := b.watch()
	memory := b.status("VmRSS")
	c := &crowd{t: t, said: make(map[string]int)}
	ways := b.ways()
	const ok = "HTTP/1.1 200 OK"
	began := time.Now()
	for i, way := range ways[:2] {
		c.join(way, n/3,
			[2]string{"PUT /v1/hold/" + fmt.Sprint(i) + "-%d HTTP/1.1\r\n" + auth + "\r\n", ok},
			[2]string{"GET /v1/access?x=%d HTTP/1.1\r\n" + auth + "\r\n", "HTTP/1.1 400 Bad"},
			[2]string{"GET /v1/status?key=%d", ""})
	}
	hello := "AUTH " + openPassword + "\r\n"
	c.join(ways[2], n-2*(n/3),
		[2]string{hello + "SET own-%d v NX PX 10000\r\n", "+OK\r\n+OK\r\n"},
		[2]string{hello + "PING %d\r\n", "+OK\r\n$"},
		[2]string{hello + "*2\r\n$3\r\nGET\r\n$%d", "+OK\r\n"})
	t.Logf("%v after %v", c.said, time.Since(began).Round(time.Millisecond))
	peak := b.status("VmRSS")
	t.Logf("the agent had %d MiB and %d files, and has %d MiB, %d files and %d threads", memory>>10, w.before, peak>>10, b.agent.openFiles(), b.status("Threads"))
	for said, times := range c.said {
		if times < n/10 {
			t.Errorf("%d clients: %s", times, said)
		}
	}
	// A connection of net/http with a request takes some 40 KiB.
	if most := memory + n*100; peak > most {
		t.Errorf("the agent has %d KiB, more than %d", peak, most)
	}
	for _, way := range ways {
		g := b.guest(way)
		if way.name == "RESP" {
			if line, err := g.command("SET more v NX PX 1000"); err != nil || line != "+OK" {
				t.Errorf("%s: %s %v", way.name, line, err)
			}
		} else if status, body, err := g.request("PUT /v1/locks/more-"+way.network+"?ttl=1s", ""); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s %v", way.name, status, body, err)
		}
		g.Close()
	}
	join := b.command("--join", b.address(), "--voters", "a", "--max-ttl", brief, "run", "k", "--", "true")
	if code := join.run(); code != 0 {
		t.Errorf("a node that joins beside the crowd ends with %d: %s", code, join.err.String())
	}
	for _, conn := range c.conns {
		conn.Close()
	}
	w.check()
	t.Logf("afterwards: %d MiB and %d files", b.status("VmRSS")>>10, b.agent.openFiles())
}

// TestSlowClients: the agent cuts off clients that send a byte a second, or read nothing, while
// such clients keep their connections.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, 0, "--expect", "1", "--max-ttl", calm)
	w := b.watch()
	ways := b.ways()
	var all sync.WaitGroup
	// slowly sends a text, a byte a second, until the agent has ended the connection.
	slowly := func(way *way, first, text string) {
		g := b.guest(way)
		_, _ = io.WriteString(g, first)
		all.Go(func() {
			began := time.Now()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, g)
			}()
			for i := 0; ; i++ {
				select {
				case <-ended:
					t.Logf("%s: %.20q was cut after %v", way.name, first+text, time.Since(began).Round(time.Second))
					return
				case <-time.After(time.Second):
				}
				if time.Since(began) > patience {
					t.Errorf("%s: %.20q is still read", way.name, first+text)
					return
				}
				_, _ = g.Write([]byte{text[i%len(text)]})
			}
		})
	}
	for _, way := range ways[:2] {
		slowly(way, "GET /v1/status HTTP/1.1\r\n"+auth, "X: 1\r\n")
		slowly(way, "POST /v1/locks/k/revoke HTTP/1.1\r\n"+auth+"Content-Length: 1000\r\n\r\n", "{     ")
	}
	slowly(ways[2], "*2\r\n$3\r\nGET\r\n$1000\r\n", "k")
	// deaf sends requests, and reads nothing.
	for _, way := range ways {
		g := b.guest(way)
		if tcp, is := g.Conn.(*net.TCPConn); is {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		request := "GET /v1/locks HTTP/1.1\r\n" + auth + "\r\n"
		if way.name == "RESP" {
			request = "ECHO 0123456789012345678901234567890123456789\r\n"
		}
		all.Go(func() {
			began := time.Now()
			for time.Since(began) < patience {
				_ = g.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(g, request); err != nil && !os.IsTimeout(err) {
					t.Logf("%s: a deaf client was cut after %v: %v", way.name, time.Since(began).Round(time.Second), err)
					return
				}
			}
			t.Errorf("%s: a deaf client is still served", way.name)
		})
	}
	// Watchers that read nothing, and more events than all buffers take.
	var watchers []*guest
	for _, way := range ways[:2] {
		g := b.guest(way)
		if tcp, is := g.Conn.(*net.TCPConn); is {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		_, _ = io.WriteString(g, "GET /v1/watch HTTP/1.1\r\n"+auth+"\r\n")
		watchers = append(watchers, g)
	}
	g := b.guest(ways[2])
	noise := ""
	for i := range 500 {
		noise += fmt.Sprintf("SET noise-%d %0500d NX PX 20000\r\nDEL noise-%d\r\n", i, i, i)
	}
	began := time.Now()
	for b.agent.openFiles() > w.before+1 && time.Since(began) < 2*patience { // the noisy client stays
		_ = g.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(g, noise); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err := g.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d open files after %v, and %d MiB", b.agent.openFiles(), time.Since(began).Round(time.Second), b.status("VmRSS")>>10)
	g.Close()
	all.Wait()
	w.check() // all files are closed, though the watchers have kept their connections
	for _, g := range watchers {
		g.Close()
	}
}
