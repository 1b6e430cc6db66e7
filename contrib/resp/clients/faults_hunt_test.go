//go:build hunt

package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

const release = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

// TestAKilledAgent kills the agent of a holder: the key stays locked for its time, and is free
// afterwards, for the other agents and for the restarted agent.
func TestAKilledAgent(t *testing.T) {
	agents := startAgents(t)
	a, b := agents[0], agents[1]
	c, d := newRedis(t, a.addr), newRedis(t, b.addr)
	ctx := t.Context()
	const length = 8 * time.Second
	began := time.Now()
	if ok, err := c.SetNX(ctx, "job", "v", length).Result(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	first, err := c.Do(ctx, "LOCKMESH.TOKEN", "job", "v").Uint64()
	if err != nil {
		t.Fatal(err)
	}
	a.kill()
	// The vote of the killed voter is missing, so the other voters take their time to be sure.
	patient := redis.NewClient(&redis.Options{Addr: b.addr, ReadTimeout: longTime})
	defer patient.Close()
	asked := time.Since(began)
	v, err := patient.Get(ctx, "job").Result()
	t.Logf("GET, asked after %v, was answered after %v", asked, time.Since(began))
	if v != "v" || err != nil {
		t.Fatal(v, err)
	}
	testwait.Until(t, "the key is free", func() bool {
		ok, err := d.SetNX(ctx, "job", "w", length).Result()
		return ok && err == nil
	})
	if took := time.Since(began); took < length-length/100 {
		t.Errorf("the key of a killed agent was free after %v", took)
	} else {
		t.Logf("the key of a killed agent was free after %v", took)
	}
	second, err := d.Do(ctx, "LOCKMESH.TOKEN", "job", "w").Uint64()
	if err != nil || second <= first {
		t.Fatal(second, first, err)
	}
	a.start()
	a.ready()
	e := newRedis(t, a.addr)
	if ok, err := e.SetNX(ctx, "job", "x", length).Result(); ok || err != nil {
		t.Fatal("beside a holder:", ok, err)
	}
	// A clean end leaves the key to its time, too: the client can't be notified.
	if ok, err := e.SetNX(ctx, "other", "x", length).Result(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	began = time.Now()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait()
	testwait.Until(t, "the key is free", func() bool {
		ok, err := d.SetNX(ctx, "other", "w", length).Result()
		return ok && err == nil
	})
	if took := time.Since(began); took < length-length/100-time.Second {
		t.Errorf("the key of an ended agent was free after %v", took)
	}
}

// TestOneHolderWhileAgentsAreKilled has clients contend for a key through agents that are killed
// and restarted. A client counts as a holder until the release of the key or the end of its time.
func TestOneHolderWhileAgentsAreKilled(t *testing.T) {
	agents := startAgents(t, "-max-ttl", "3s")
	const length = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	var mu sync.Mutex
	var until time.Time // when the newest holder's time is over
	var newest uint64
	grants := make(map[int]int)
	var wg sync.WaitGroup
	for i := range 9 {
		agent := i % 3
		c := redis.NewClient(&redis.Options{Addr: agents[agent].addr, MaxRetries: -1})
		defer c.Close()
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				value := fmt.Sprintf("%d-%d", i, n)
				asked := time.Now()
				if ok, err := c.SetNX(ctx, "job", value, length).Result(); !ok || err != nil {
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
					continue
				}
				now := time.Now()
				token, err := c.Do(ctx, "LOCKMESH.TOKEN", "job", value).Uint64()
				mu.Lock()
				// Redis's clients count from before the request, less a hundredth for clocks.
				if now.Before(until) {
					t.Errorf("%s holds the key %v before the end of another holder's time", value, until.Sub(now))
				}
				until = asked.Add(length - length/100)
				if err == nil {
					if token <= newest {
						t.Errorf("token %d after %d", token, newest)
					}
					newest = token
				}
				grants[agent]++
				mine := until
				mu.Unlock()
				time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
				// From the release on, the client doesn't work under the lock, whatever the answer
				// is.
				mu.Lock()
				if until.Equal(mine) {
					until = time.Now()
				}
				mu.Unlock()
				_ = c.Eval(ctx, release, []string{"job"}, value).Err()
			}
		})
	}
	kills := 0
	for ctx.Err() == nil {
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
			continue
		}
		a := agents[kills%3]
		a.kill()
		kills++
		a.start()
		a.ready() // the node is quiet for MaxTTL
	}
	wg.Wait()
	t.Logf("%d kills; grants by agent: %v", kills, grants)
	if len(grants) < 3 || kills < 3 {
		t.Error("too little has happened")
	}
}

// TestTenThousandConnections has so many clients of one agent, each with a key, and one key
// requested by all.
func TestTenThousandConnections(t *testing.T) {
	const n = 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < n+1000 {
		t.Skipf("!!!! NOT TRIED: %d file descriptors are allowed, and %d needed", limit.Cur, n+1000)
	}
	a := startAgents(t)[0]
	before := a.memory()
	conns := make([]*wire, n)
	for i := range conns {
		conns[i] = dialWire(t, a.addr)
	}
	each := func(what string, words func(i int) []string) map[string]int {
		began := time.Now()
		answers := make(map[string]int)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i, c := range conns {
			wg.Go(func() {
				answer, err := c.do(words(i)...)
				if err != nil {
					answer = err.Error()
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			})
		}
		wg.Wait()
		t.Logf("%s: %v after %v; the agent has %d MiB, and had %d", what, answers, time.Since(began).Round(time.Millisecond), a.memory(), before)
		return answers
	}
	if got := each("PING", func(int) []string { return []string{"PING"} }); got["+PONG"] != n {
		t.Error(got)
	}
	own := func(i int) []string { return []string{"SET", fmt.Sprint("own-", i), "v", "NX", "PX", "10000"} }
	if got := each("SET of keys of their own", own); got["+OK"] != n {
		t.Error(got)
	}
	one := func(i int) []string { return []string{"SET", "one", fmt.Sprint(i), "NX", "PX", "10000"} }
	if got := each("SET of one key", one); got["+OK"] != 1 || got["nil"] != n-1 {
		t.Error(got)
	}
	more := make([]net.Conn, 0, 200)
	defer func() {
		for _, nc := range more {
			_ = nc.Close()
		}
	}()
	testwait.Until(t, "a connection is refused", func() bool {
		nc, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, nc)
		_ = nc.SetDeadline(time.Now().Add(100 * time.Millisecond))
		text, err := io.ReadAll(nc)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return false // served
		}
		return string(text) == "-ERR max number of clients reached\r\n"
	})
	for _, c := range conns[:n/2] {
		_ = c.nc.Close()
	}
	testwait.Until(t, "a new client is served", func() bool {
		nc, err := net.Dial("tcp", a.addr)
		if err != nil {
			return false
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(nc, "PING\r\n"); err != nil {
			return false
		}
		b := make([]byte, 7)
		_, err = io.ReadFull(nc, b)
		return err == nil && string(b) == "+PONG\r\n"
	})
}
