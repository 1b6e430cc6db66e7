package resp

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/meshtest"
)

func TestSignals(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c, d := s.client(), s.client()
		c.want(":1", "LPUSH", "signal", "1")
		c.want(":3", "LPUSH", "signal", "2", "3")
		c.want(":1", "EXISTS", "signal")
		c.want("+list", "TYPE", "signal")
		c.want(":-1", "PTTL", "signal")
		c.want("-WRONGTYPE…", "GET", "signal")
		c.want("nil", "SET", "signal", "v", "NX", "PX", 1000)
		c.want("-REFUSED…", "SET", "signal", "v", "PX", 1000)
		c.want(`["signal" "3"]`, "BLPOP", "signal", 1)
		c.want(`"2"`, "LPOP", "signal")
		c.want(":1", "PEXPIRE", "signal", 500)
		c.want(":500", "PTTL", "signal")
		time.Sleep(500 * time.Millisecond)
		c.want(":0", "EXISTS", "signal")
		c.want("nil", "LPOP", "signal")

		began := time.Now()
		c.want("nil[]", "BLPOP", "signal", "0.25")
		c.want("-ERR timeout is negative", "BLPOP", "signal", "1e300")
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("BLPOP waited for %v", took)
		}
		c.send("BLPOP", "signal", 0)
		synctest.Wait()
		c.send("PING") // is answered afterwards
		d.want("-WRONGTYPE…", "BLPOP", mustSet(d), 1)
		d.want(":1", "LPUSH", "signal", "now")
		if got := c.read() + c.read(); got != `["signal" "now"]+PONG` {
			t.Error(got)
		}
		d.want(":0", "EXISTS", "signal")
		d.want(":1", "LPUSH", "signal", "x")
		d.want(":1", "DEL", "signal")
		d.want("-ERR timeout is negative", "BLPOP", "signal", -1)
		d.want("-ERR timeout is not a float or out of range", "BLPOP", "signal", "x")
		d.want("-REFUSED BLPOP of several keys…", "BLPOP", "s1", "s2", 1)
		d.want("-REFUSED the item has…", "LPUSH", "signal", strings.Repeat("x", maxSignalLen+1))
		d.want("-WRONGTYPE…", "LPUSH", mustSet(d), 1)
	})
}

// mustSet sets a key, and returns its name.
func mustSet(c *client) string {
	key := fmt.Sprint("string-", time.Now().UnixNano())
	c.want("+OK", "SET", key, "v", "NX", "PX", 1000)
	c.want(":1", "PEXPIRE", key, 999)
	time.Sleep(time.Millisecond)
	return key
}

// TestAWaiterIsWokenByTheUnlock has clients lock as python-redis-lock does.
func TestAWaiterIsWokenByTheUnlock(t *testing.T) {
	const unlock = `
		if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 end
		redis.call("del", KEYS[2])
		redis.call("lpush", KEYS[2], 1)
		redis.call("pexpire", KEYS[2], ARGV[2])
		redis.call("del", KEYS[1])
		return 0`
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c, d := s.client(), s.client()
		c.want("+OK", "SET", "lock:k", "c", "NX", "PX", 8000)
		d.want("nil", "SET", "lock:k", "d", "NX", "PX", 8000)
		d.send("BLPOP", "lock-signal:k", 8)
		time.Sleep(time.Second)
		c.want(":1", "EVAL", unlock, 2, "lock:k", "lock-signal:k", "other", 1000)
		c.want(":0", "EVAL", unlock, 2, "lock:k", "lock-signal:k", "c", 1000)
		if got := d.read(); got != `["lock-signal:k" "1"]` {
			t.Fatal(got)
		}
		d.want("+OK", "SET", "lock:k", "d", "NX", "PX", 8000)
	})
}

func TestSignalsAreBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		for i := range maxSignals + 10 {
			c.want(":1", "LPUSH", fmt.Sprint("signal-", i), "1")
		}
		if n := s.server.signals.count(); n != maxSignals {
			t.Errorf("%d lists", n)
		}
		c.want(":0", "EXISTS", "signal-0")
		c.want(":1", "EXISTS", fmt.Sprint("signal-", maxSignals+9))
		for range 2 * maxSignalItems {
			c.do("LPUSH", "signal-100", "x")
		}
		n := 0
		for c.do("LPOP", "signal-100") != "nil" {
			n++
		}
		if n != maxSignalItems {
			t.Errorf("%d items", n)
		}
	})
}
