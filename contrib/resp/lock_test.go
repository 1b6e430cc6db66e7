package resp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/meshtest"
)

const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

func TestAKeyThatAClientSetsIsALease(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "job", "v1", "NX", "PX", 5000)
		info, err := m.Node("b").Inspect(t.Context(), "job")
		if err != nil || len(info.Holders) != 1 || string(info.Holders[0].Value) != "v1" {
			t.Fatalf("Inspect: %+v, %v", info, err)
		}
		if _, err := m.Node("b").TryLock(t.Context(), "job"); !errors.Is(err, lockmesh.ErrHeld) {
			t.Errorf("TryLock beside a client: %v", err)
		}
		c.want("nil", "SET", "job", "v2", "NX", "PX", 5000)
		c.want(`"v1"`, "GET", "job")
		c.want(":1", "EXISTS", "job")
		c.want(":5000", "PTTL", "job")
		c.want(":5", "TTL", "job")
		c.want("+string", "TYPE", "job")
		c.want(":1", "DEL", "job")
		lease, err := m.Node("b").TryLock(t.Context(), "job")
		if err != nil {
			t.Fatalf("TryLock after DEL: %v", err)
		}
		if lease.Token() <= info.Holders[0].Token {
			t.Error("the tokens don't rise")
		}
	})
}

func TestAKeyEndsWithItsTime(t *testing.T) {
	for _, ms := range []int{50, 1000, 8000, 9800, 10_000} { // the first is less than MinTTL
		meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
			c := newSite(t, m, "a").client()
			began := time.Now()
			c.want("+OK", "SET", "job", "v", "NX", "PX", ms)
			if _, err := m.Node("b").Lock(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			took, length := time.Since(began), time.Duration(ms)*time.Millisecond
			if took < length || took > length+length/50+10*time.Millisecond {
				t.Errorf("a key of %v was free after %v", length, took)
			}
			c.want(`""`, "GET", "job") // of node b, without a value
		})
	}
}

func TestAKeyThatIsHeldElsewhereIsNeverFree(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		lease, err := m.Node("b").Lock(t.Context(), "job", lockmesh.WithValue([]byte("theirs")))
		if err != nil {
			t.Fatal(err)
		}
		c.want(`"theirs"`, "GET", "job")
		c.want(":1", "EXISTS", "job", "other")
		c.want(":2", "EXISTS", "job", "job")
		c.want("nil", "SET", "job", "v", "PX", 1000, "NX")
		c.want("-HELD the key \"job\" is held elsewhere…", "SET", "job", "v", "PX", 1000)
		c.want("-HELD the key \"job\" is held by node b…", "SET", "job", "v", "XX", "PX", 1000)
		c.want("-HELD the key \"job\" is held by node b…", "DEL", "job")
		c.want("-HELD the key \"job\" is held by node b…", "PEXPIRE", "job", 1000)
		c.want("-HELD the key \"job\" is held by node b…", "LOCKMESH.TOKEN", "job")
		c.want(":0", "EVAL", compareAndDelete, 1, "job", "mine")
		c.want("-HELD the key \"job\" is held by node b…", "EVAL", compareAndDelete, 1, "job", "theirs")
		if got := c.do("PTTL", "job"); !strings.HasPrefix(got, ":") || got == ":-2" || got == ":-1" {
			t.Errorf("PTTL of a foreign key: %s", got)
		}
		if lease.Err() != nil {
			t.Fatal("the foreign lease was ended")
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.want("nil", "GET", "job")
		c.want(":-2", "PTTL", "job")
		c.want(":0", "DEL", "job")
	})
}

func TestReadersPermitsAndDelaysKeepAKey(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		if _, err := m.Node("b").RLock(t.Context(), "read"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Node("b").Semaphore("permits", 2).Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease, err := m.Node("b").Lock(t.Context(), "hourly", lockmesh.WithMinHold(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"read", "permits", "hourly"} {
			c.want(":1", "EXISTS", key)
			c.want(`""`, "GET", key)
			if got := c.do("SET", key, "v", "NX", "PX", 1000); got == "+OK" {
				t.Errorf("SET NX of %s: %s", key, got)
			}
		}
	})
}

func TestWithoutAMajorityNothingIsSaid(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c, d := s.client(), s.client()
		c.want("+OK", "SET", "own", "v", "NX", "PX", 10_000)
		d.want("+OK", "SET", "lost", "v", "NX", "PX", 10_000)
		m.Crash("b")
		m.Crash("c")
		c.want("-NOQUORUM…", "DEL", "own")
		for _, words := range [][]any{
			{"GET", "k"}, {"EXISTS", "k"}, {"PTTL", "k"}, {"TTL", "k"}, {"DEL", "k"}, {"SET", "k", "v", "NX", "PX", 1000},
			{"SET", "k", "v", "PX", 1000}, {"PEXPIRE", "k", 1000}, {"EVAL", compareAndDelete, 1, "k", "v"}, {"LPUSH", "k", "1"},
		} {
			c.want("-NOQUORUM…", words...)
		}
		if !d.isCut() { // the last hundredths of ten seconds take a majority
			t.Error("the connection of a lease that has ended early isn't cut")
		}
	})
}

func TestAKeyOutlivesItsServer(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		c.want("+OK", "SET", "job", "v", "NX", "PX", 8000)
		began := time.Now()
		synctest.Wait() // each voter has heard of the key
		m.Crash("a")
		s.stop()
		if !c.isCut() {
			t.Error("the connection outlives the server")
		}
		d := newSite(t, m, "b").client()
		d.want(`"v"`, "GET", "job")
		d.want("nil", "SET", "job", "w", "NX", "PX", 8000)
		d.want("-HELD…", "EVAL", compareAndDelete, 1, "job", "v")
		testwait.Until(t, "the key is free", func() bool { return d.do("SET", "job", "w", "NX", "PX", 8000) == "+OK" })
		if took := time.Since(began); took < 8*time.Second || took > 8_300*time.Millisecond {
			t.Errorf("the key of a crashed server was free after %v", took)
		}
	})
}

// TestAKeyIsntFreeWhileNoVoterCanTell crashes a holder, a voter itself, with the vote of a single
// other voter: the remaining voters need time to tell a held lease from a request.
func TestAKeyIsntFreeWhileNoVoterCanTell(t *testing.T) {
	for _, row := range []struct {
		free  string
		words []any
	}{
		{"nil", []any{"GET", "job"}}, {":0", []any{"EXISTS", "job"}}, {"+OK", []any{"SET", "job", "w", "NX", "PX", 9000}},
	} {
		for _, node := range []string{"b", "c"} {
			meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
				s := newSite(t, m, "a")
				c, other := s.client(), newSite(t, m, node).client()
				m.Cut("a", "c")
				c.want("+OK", "SET", "job", "v", "NX", "PX", 9000)
				began := time.Now()
				m.Crash("a")
				s.stop()
				got := other.do(row.words...)
				if took := time.Since(began); got == row.free || took > 8*time.Second {
					t.Errorf("%v at node %s: %s, after %v", row.words, node, got, took)
				}
			}, meshtest.WithLatency(10*time.Millisecond)) // the report of the grant is lost
		}
	}
}

func TestTheEndOfServeReleasesNothingThatEndsByItself(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		c.want("+OK", "SET", "job", "v", "NX", "PX", 8000)
		c.want(":1", "PEXPIRE", "job", 3000) // by a timer of the server
		s.stop()
		if !c.isCut() {
			t.Error("the connection outlives Serve")
		}
		began := time.Now()
		if _, err := m.Node("b").Lock(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("the key was free after %v", took)
		}
	})
}

func TestPExpireSetsTheEnd(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "job", "v", "NX", "EX", 8)
		time.Sleep(6 * time.Second)
		c.want(":1", "PEXPIRE", "job", 8000)
		c.want(":8000", "PTTL", "job")
		time.Sleep(6 * time.Second)
		c.want(`"v"`, "GET", "job")
		c.want(":1", "EXPIRE", "job", 1) // shorter
		c.want(":1000", "PTTL", "job")
		began := time.Now()
		if _, err := m.Node("b").Lock(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("a shortened key was free after %v", took)
		}
		c.want(":0", "PEXPIRE", "free", 1000)
		c.want("+OK", "SET", "over", "v", "NX", "PX", 1000)
		c.want(":1", "PEXPIRE", "over", -1)
		c.want(":0", "EXISTS", "over")
		c.want("-ERR unknown command 'PERSIST': a key without an end…", "PERSIST", "over")
	})
}

func TestATimeThatTheVotersDontKeepIsRefused(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("-REFUSED 10001 ms is longer than MaxTTL, 10000 ms…", "SET", "job", "v", "NX", "PX", 10_001)
		c.want("-REFUSED…", "SET", "job", "v", "NX", "EX", "4611686018427387")
		c.want("-REFUSED a key without an end…", "SET", "job", "v", "NX")
		c.want("-REFUSED a key without an end…", "SET", "job", "v")
		c.want("-REFUSED a key without an end…", "SETNX", "job", "v")
		c.want("-ERR invalid expire time in 'set' command", "SET", "job", "v", "NX", "PX", 0)
		c.want("-ERR invalid expire time in 'set' command", "SET", "job", "v", "NX", "EX", "9223372036854775807")
		c.want("-ERR value is not an integer or out of range", "SET", "job", "v", "NX", "PX", "soon")
		for _, n := range []string{"+5", "05", "-0", "5_0", " 5", "0x5"} { // as in Redis
			for _, words := range [][]any{
				{"SET", "job", "v", "NX", "EX", n}, {"SET", "job", "v", "PX", n}, {"PSETEX", "job", n, "v"}, {"EXPIRE", "job", n},
				{"GETRANGE", "job", n, 1}, {"GETRANGE", "job", 1, n}, {"EVAL", "return 1", n},
			} {
				c.want("-ERR value is not an integer or out of range", words...)
			}
		}
		c.want("-ERR syntax error", "SET", "job", "v", "NX", "XX", "PX", 1000)
		c.want("-ERR syntax error", "SET", "job", "v", "NX", "PX")
		c.want("-REFUSED SET with GET…", "SET", "job", "v", "NX", "GET", "PX", 1000)
		c.want(":0", "EXISTS", "job")
		c.want("+OK", "SET", "job", "v", "NX", "PX", 2000)
		c.want("-REFUSED 3000 ms is longer than the 2000 ms with which the key was set…", "PEXPIRE", "job", 3000)
		c.want("-REFUSED 3000 ms is longer…", "SET", "job", "v", "PX", 3000)
		c.want(":2000", "PTTL", "job")
	})
}

func TestASmallerMaxTTLCounts(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a", WithMaxTTL(3*time.Second)).client()
		c.want("-REFUSED…", "SET", "job", "v", "NX", "PX", 4000)
		c.want("+OK", "SET", "job", "v", "NX", "PX", 3000)
	})
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client() // with lockmesh.DefaultMaxTTL
		c.want("-REFUSED…", "SET", "job", "v", "NX", "PX", 4000)
		c.want("+OK", "SET", "job", "v", "NX", "PX", 3000)
	}, meshtest.WithMaxTTL(3*time.Second), meshtest.WithDynamicMembership())
}

// TestAMaxTTLLoweredJustNowCounts: a server that hasn't noticed yet that the voters keep keys for
// less time grants and extends none for longer.
func TestAMaxTTLLoweredJustNowCounts(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		before := func() { s.server.decided.at, s.server.decided.ttl = time.Now(), 8*time.Second }
		before()
		c.want("-REFUSED the voters have lowered MaxTTL…", "SET", "job", "v", "NX", "PX", 8000)
		c.want("-REFUSED 8000 ms is longer than MaxTTL…", "SET", "job", "v", "NX", "PX", 8000)
		c.want("+OK", "SET", "job", "v", "NX", "PX", 3000)
		unlock, err := s.server.locks.lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		h := s.server.leases.get("job")
		h.length, h.span = 8*time.Second, 8*time.Second // as if granted before
		unlock()
		time.Sleep(time.Second)
		before()
		c.want("-REFUSED the voters have lowered MaxTTL…", "PEXPIRE", "job", 8000)
		c.want("+OK", "SET", "job", "v", "PX", 2900)
		c.want(":2900", "PTTL", "job")
		began := time.Now()
		m.Crash("a")
		d := newSite(t, m, "b").client()
		testwait.Until(t, "the key is free", func() bool { return d.do("SET", "job", "w", "NX", "PX", 2000) == "+OK" })
		if took := time.Since(began); took < 2900*time.Millisecond {
			t.Errorf("the key was free after %v", took)
		}
	}, meshtest.WithMaxTTL(3*time.Second), meshtest.WithDynamicMembership())
}

func TestAKeyIsOverwrittenByItsHolderOnly(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "job", "v", "PX", 8000) // without NX, of a free key
		c.want("-HELD…", "SET", "job", "w", "PX", 8000)
		time.Sleep(time.Second)
		c.want("+OK", "SET", "job", "v", "PX", 5000) // as node-redlock extends
		c.want(":5000", "PTTL", "job")
		c.want("+OK", "SET", "job", "v", "XX", "PX", 8000)
		c.want("nil", "SET", "free", "v", "XX", "PX", 8000)
		replace := `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("set", KEYS[1], ARGV[2], "PX", 4000) end`
		c.want("+OK", "EVAL", replace, 1, "job", "v", "w")
		c.want(`"w"`, "GET", "job")
		c.want("nil", "EVAL", replace, 1, "job", "v", "x")
		c.want("-HELD…", "EVAL", `return redis.call("set", KEYS[1], "x", "PX", 4000)`, 1, "job")
		info, err := m.Node("b").Inspect(t.Context(), "job")
		if err != nil || len(info.Holders) != 1 || string(info.Holders[0].Value) != "w" {
			t.Errorf("Inspect: %+v, %v", info, err)
		}
	})
}

func TestTokensAreToldToTheHolder(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("nil", "LOCKMESH.TOKEN", "job")
		c.want("+OK", "SET", "job", "v", "NX", "PX", 1000)
		first := c.do("LOCKMESH.TOKEN", "job")
		c.want(first, "LOCKMESH.TOKEN", "job", "v")
		c.want("nil", "LOCKMESH.TOKEN", "job", "w")
		c.want(first, "EVAL", `return redis.call("lockmesh.token", KEYS[1])`, 1, "job")
		c.want(":1", "DEL", "job")
		c.want("+OK", "SET", "job", "w", "NX", "PX", 1000)
		if second := c.do("LOCKMESH.TOKEN", "job"); len(second) != len(first) || second <= first {
			t.Errorf("token %s after %s", second, first)
		}
		c.want("nil", "LOCKMESH.TOKEN", "job", "v") // the late client doesn't get the token of the next
	})
}

func TestLongTimesLastAsLongAsTheNode(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", AllowLongTTL())
		c, d, e := s.client(), s.client(), s.client()
		c.want("+OK", "SET", "hour", "v", "NX", "EX", 3600)
		c.want(":3600000", "PTTL", "hour")
		c.want("-REFUSED…", "SET", "day", "v", "NX", "EX", 86_401)
		d.want("+OK", "SET", "endless", "v", "NX")
		d.want(":-1", "PTTL", "endless")
		e.want("+OK", "SET", "short", "v", "NX", "PX", 5000)
		e.want(":1", "PEXPIRE", "short", 60_000)
		time.Sleep(50 * time.Second)
		c.want(`"v"`, "GET", "hour")
		c.want(`"v"`, "GET", "endless")
		c.want(`"v"`, "GET", "short")
		c.want(":1", "EXPIRE", "endless", 30) // the later end of the old pattern SETNX, EXPIRE
		c.want(":30000", "PTTL", "endless")
		c.want("+OK", "SET", "other", "v", "NX")
		time.Sleep(31 * time.Second)
		c.want(":0", "EXISTS", "endless", "short")
		// The majority is lost, and so are the leases kept up by the node: their connections are
		// cut.
		m.Crash("b")
		m.Crash("c")
		if !c.isCut() {
			t.Error("the connection of a lost lease isn't cut")
		}
		d.want("+PONG", "PING")
		e.want("+PONG", "PING")
	})
}

// TestASetDoesntHideAnEnd: a client that is told OK to a SET without a time holds a key without an
// end, so the SET is refused where the key has got an end.
func TestASetDoesntHideAnEnd(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a", AllowLongTTL()).client()
		for _, later := range [][]any{{"EXPIRE", "job", 2}, {"PEXPIRE", "job", 2000}, {"SET", "job", "v", "PX", 2000}} {
			c.want(":1", "SETNX", "job", "v")
			c.want("+OK", "SET", "job", "v")
			c.want(":-1", "PTTL", "job")
			c.do(later...)
			c.want("-REFUSED the key \"job\" has an end…", "SET", "job", "v")
			c.want("-REFUSED the key \"job\" has an end…", "EVAL",
				`redis.call("get", KEYS[1]) return redis.call("set", KEYS[1], "w")`, 1, "job")
			c.want(":2000", "PTTL", "job")
			c.want(`"v"`, "GET", "job")
			time.Sleep(2 * time.Second)
			c.want("nil", "GET", "job")
		}
	})
}

func TestTheEndOfServeReleasesWhatOnlyTheNodeKeeps(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", AllowLongTTL())
		other, _ := s.listen()
		c, d := s.client(), dialed(t, other)
		c.want("+OK", "SET", "endless", "v", "NX")
		c.want("+OK", "SET", "hour", "v", "NX", "EX", 3600)
		d.want("+OK", "SET", "theirs", "v", "NX", "EX", 3600)
		began := time.Now()
		s.stop()
		if !c.isCut() {
			t.Error("the connection outlives Serve")
		}
		if took := time.Since(began); took < stopGrace {
			t.Errorf("the keys were released after %v, which leaves the client no time", took)
		}
		for _, key := range []string{"endless", "hour"} {
			if _, err := m.Node("b").TryLock(t.Context(), key); err != nil {
				t.Errorf("%s isn't released: %v", key, err)
			}
		}
		d.want(`"v"`, "GET", "theirs") // of the client of another listener
	})
}

func TestAnEvictedClientIsCut(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "job", "v", "NX", "PX", 10_000)
		info, err := m.Node("b").Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Node("b").Evict(t.Context(), "job", info.Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		if !c.isCut() {
			t.Error("the connection of an evicted lease isn't cut")
		}
	})
}

func TestAClientIsntCutByTheEndOfItsTime(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "job", "v", "NX", "PX", 3000)
		c.want("+OK", "SET", "short", "v", "NX", "PX", 20)
		time.Sleep(5 * time.Second)
		c.want("nil", "GET", "job")
		c.want(":0", "EXISTS", "short")
		c.want("+OK", "SET", "job", "w", "NX", "PX", 3000)
	})
}

func TestTheNumberOfKeysIsBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a", WithMaxLeases(2)).client()
		c.want("+OK", "SET", "k1", "v", "NX", "PX", 1000)
		c.want("+OK", "SET", "k2", "v", "NX", "PX", 8000)
		c.want("-ERR too many keys…", "SET", "k3", "v", "NX", "PX", 1000)
		time.Sleep(1500 * time.Millisecond)
		c.want("+OK", "SET", "k3", "v", "NX", "PX", 1000)
		c.want(":2", "DEL", "k2", "k3", "k3")
		c.want("+OK", "SET", "k4", "v", "NX", "PX", 1000)
	})
}

func TestServeNeedsAPassword(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		err := New(m.Node("a")).Serve(context.Background(), pipes.New())
		if err == nil || !strings.Contains(err.Error(), "Password") {
			t.Errorf("Serve: %v", err)
		}
	})
}
