package resp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestThePasswordComesFirst(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", WithPassword(testPassword))
		c := s.client()
		for _, words := range [][]any{{"PING"}, {"SET", "k", "v", "NX", "PX", 1000}, {"EVAL", "return 1", 0}, {"INFO"}, {"COMMAND"}} {
			c.want("-NOAUTH…", words...)
		}
		c.want("-NOAUTH…", "HELLO", 2)
		c.want("-WRONGPASS…", "AUTH", testPassword+"x")
		c.want("-WRONGPASS…", "AUTH", "")
		c.want("-WRONGPASS…", "AUTH", "admin", testPassword)
		c.want("-WRONGPASS…", "HELLO", 2, "AUTH", "default", "wrong")
		c.want("-NOAUTH…", "PING")
		c.want("+OK", "AUTH", testPassword)
		c.want("+PONG", "PING")
		c.want("+RESET", "RESET")
		c.want("-NOAUTH…", "PING")
		c.want("+OK", "AUTH", "default", testPassword)
		c.want("+PONG", "PING")
		d := s.client()
		d.want(`["server" "lockmesh"…`, "HELLO", 2, "AUTH", "default", testPassword, "SETNAME", "d")
		d.want(`"d"`, "CLIENT", "GETNAME")
		e := newSite(t, m, "b").client() // without a password
		e.want("-ERR AUTH <password> called without any password…", "AUTH", testPassword)
		e.want("+OK", "AUTH", "default", testPassword)
	})
}

func TestPasswordsAreChecked(t *testing.T) {
	for _, p := range []string{"", "short", "0123456789 with a blank", "0123456789-not-äscii"} {
		if err := CheckPassword(p); err == nil || p != "" && strings.Contains(err.Error(), p) {
			t.Errorf("%q: %v", p, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("WithPassword(%q) doesn't panic", p)
				}
			}()
			WithPassword(p)
		}()
	}
}

func TestAStrangerIsBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", WithPassword(testPassword))
		c := s.client()
		c.write(request("AUTH", strings.Repeat("x", maxStrangerRequest)))
		if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error: invalid bulk length") || !c.isCut() {
			t.Error(got)
		}
		words := make([]any, maxStrangerArgs+1)
		for i := range words {
			words[i] = "x"
		}
		c = s.client()
		c.write(request(words...))
		if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error: invalid multibulk length") {
			t.Error(got)
		}
		c = s.client()
		began := time.Now()
		if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error") || !c.isCut() || time.Since(began) != requestTime {
			t.Errorf("a silent stranger is told %s after %v", got, time.Since(began))
		}
		// Neither empty requests nor commands that need the password make the time longer.
		for _, text := range []string{"*0\r\n", request("PING"), request("AUTH", "wrong"), request("RESET"), "x"} {
			for _, was := range []string{"a stranger", "a client that was known"} {
				c := s.client()
				if was != "a stranger" {
					c.want("+OK", "AUTH", testPassword)
					time.Sleep(time.Minute)
					c.want("+RESET", "RESET")
				}
				began, ended := time.Now(), make(chan struct{})
				if err := c.nc.SetReadDeadline(began.Add(2 * requestTime)); err != nil {
					t.Fatal(err)
				}
				go func() {
					for {
						if _, err := io.WriteString(c.nc, text); err != nil {
							close(ended)
							return
						}
						time.Sleep(requestTime / 4)
					}
				}()
				if _, _ = io.Copy(io.Discard, c.r); time.Since(began) != requestTime {
					t.Errorf("%s who sends %q is cut after %v", was, text, time.Since(began))
				}
				c.nc.Close()
				<-ended
			}
		}
	})
}

func TestWhatClientsAskAtTheirBeginning(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("-NOPROTO…", "HELLO", 4)
		c.want(`["server" "lockmesh" "version" "0.0.0" "proto" :3 "id" :1 "mode" "standalone" "role" "master" "modules" []]`, "HELLO", 3)
		for _, words := range [][]any{{"GET", "k"}, {"BLPOP", "k", "0.01"}, {"EVAL", "return false", 0}, {"CLIENT", "GETNAME"}} {
			c.want("null", words...)
		}
		c.want(`["k" "v"]`, "EVAL", `redis.call("lpush", KEYS[1], "v") return {KEYS[1], redis.call("lpop", KEYS[1])}`, 1, "k")
		c.want(`["server" "lockmesh" "version" "0.0.0" "proto" :2 "id" :1 "mode" "standalone" "role" "master" "modules" []]`, "HELLO", 2)
		c.want(`["server"…`, "HELLO")
		c.want("-ERR Syntax error in HELLO option 'X'", "HELLO", 2, "X")
		c.want("+OK", "CLIENT", "SETINFO", "LIB-NAME", "x")
		c.want("+OK", "CLIENT", "SETNAME", "mine")
		c.want(`"mine"`, "CLIENT", "GETNAME")
		c.want("-ERR Client names…", "CLIENT", "SETNAME", "with blank")
		c.want(":1", "CLIENT", "ID")
		c.want("-ERR unknown subcommand…", "CLIENT", "KILL", "x")
		c.want("+OK", "SELECT", 0)
		c.want("-REFUSED there is one database…", "SELECT", 9)
		c.want("[]", "CONFIG", "GET", "save")
		c.want("-REFUSED…", "CONFIG", "SET", "save", "")
		c.want(`"x"`, "PING", "x")
		c.want(`"x"`, "ECHO", "x")
		info := c.do("INFO")
		for _, line := range []string{"lockmesh_node:a", "loading:0", "role:master", "connected_clients:1", "keys=0"} {
			if !strings.Contains(info, line) {
				t.Errorf("INFO lacks %s: %s", line, info)
			}
		}
		c.want(`"# Persistence\r\nloading:0\r\n"`, "INFO", "persistence")
		c.want(fmt.Sprintf(":%d", len(commands)), "COMMAND", "COUNT")
		c.want(`[["get" :2 [+readonly +fast] :1 :1 :1 []] nil[]]`, "COMMAND", "INFO", "GET", "zadd")
		c.want(`[["auth" :-2…`, "COMMAND")
		c.want("[]", "COMMAND", "DOCS", "get")
		c.want("-ERR wrong number of arguments for 'get' command", "GET")
		c.want("-ERR wrong number of arguments for 'get' command", "GET", "a", "b")
		c.want("-ERR unknown command 'FLUSHALL': the keys are locks…", "FLUSHALL")
		c.want("-ERR unknown command 'MULTI': transactions aren't offered…", "MULTI")
		c.want("-ERR unknown command 'NOSUCH': lockmesh offers what locks need…", "NOSUCH", "x")
		c.want("+OK", "QUIT")
		if !c.isCut() {
			t.Error("QUIT doesn't end the connection")
		}
	})
}

func TestRequestsByHandAndByBrowsers(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		c.write("ping\r\n\r\nset k \"a b\" nx px 1000\r\nGET k\n")
		for _, want := range []string{"+PONG", "+OK", `"a b"`} {
			if got := c.read(); got != want {
				t.Errorf("%s; want %s", got, want)
			}
		}
		for _, line := range []string{"POST / HTTP/1.1", "OPTIONS / HTTP/1.1", "GET / HTTP/1.1"} {
			c := s.client()
			c.write(line + "\r\nHost: localhost\r\n\r\nSET http v NX PX 1000\r\n")
			if got := c.read(); !strings.HasPrefix(got, "-ERR") || !c.isCut() {
				t.Errorf("%s: %s, and the connection goes on", line, got)
			}
		}
		s.client().want("nil", "GET", "http")
		c = s.client()
		c.write(strings.Repeat("x", maxInline))
		if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error: too big inline request") || !c.isCut() {
			t.Error(got)
		}
	})
}

func TestAPipelineIsAnsweredInOrder(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		var b strings.Builder
		const n = 5000
		for i := range n {
			b.WriteString(request("ECHO", i))
		}
		c.write(b.String())
		for i := range n {
			if got := c.read(); got != fmt.Sprintf("%q", fmt.Sprint(i)) {
				t.Fatalf("answer %d: %s", i, got)
			}
		}
	})
}

func TestARequestWithoutEndIsBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, text := range []string{
			"*1\r\n$9223372036854775807\r\nx", "*9223372036854775807\r\n", "*1\r\n$65537\r\n", "*1025\r\n", "*2\r\n$3\r\nGET\r\n$-1\r\n",
			"*1\r\n$1\r\nxyz", "*1\r\n:1\r\n", "*x\r\n", "*1\n", "*" + strings.Repeat("1", 30), "*1\r\n$" + strings.Repeat("0", 30), "$5\r\nhello\r\n",
			"*+1\r\n",
		} {
			c := s.client()
			c.write(text)
			if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error") || !c.isCut() {
				t.Errorf("%q: %s", text, got)
			}
		}
		// A request without an end: by time, from its first byte.
		c := s.client()
		c.want("+PONG", "PING")
		time.Sleep(time.Hour) // an idle client may stay
		c.want("+PONG", "PING")
		began := time.Now()
		go func() {
			for _, b := range []byte(request("SET", "k", strings.Repeat("v", 4000), "NX", "PX", 1000)) {
				if _, err := c.nc.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		if got := c.read(); !strings.HasPrefix(got, "-ERR Protocol error: the request didn't arrive") || !c.isCut() || time.Since(began) != requestTime {
			t.Errorf("%s, after %v", got, time.Since(began))
		}
	})
}

func TestASlowReaderIsCut(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		began := time.Now()
		c.send("PING") // and never reads: the pipe has no buffer
		synctest.Wait()
		time.Sleep(writeTime)
		synctest.Wait()
		if _, err := c.nc.Write([]byte("x")); err == nil {
			t.Errorf("a client that doesn't read is still connected after %v", time.Since(began))
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		log := new(bytes.Buffer)
		s := newSite(t, m, "a", WithMaxConns(2), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		c, d := s.client(), s.client()
		c.want("+PONG", "PING")
		d.want("+PONG", "PING")
		for range 3 {
			if e := s.client(); e.read() != "-ERR max number of clients reached" || !e.isCut() {
				t.Error("a third connection is served")
			}
		}
		if synctest.Wait(); strings.Count(log.String(), "too many connections") != 1 {
			t.Errorf("the log has not one line: %s", log)
		}
		c.nc.Close()
		testwait.Until(t, "a place is free", func() bool {
			nc, err := s.l.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(time.Second))
			if _, err := nc.Write([]byte("PING\r\n")); err != nil {
				return false
			}
			b := make([]byte, 7)
			n, err := nc.Read(b)
			return err == nil && string(b[:n]) == "+PONG\r\n"
		})
	})
}

func TestAClientThatVanishesLeavesNothingBehind(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		c.send("BLPOP", "signal", 0)
		synctest.Wait()
		if n := s.server.signals.count(); n != 1 {
			t.Fatalf("%d lists with a waiter", n)
		}
		c.nc.Close()
		synctest.Wait()
		if n := s.server.signals.count(); n != 0 {
			t.Errorf("%d lists after the end of the waiter", n)
		}
		// In the middle of a SET: the key ends at its time.
		d := s.client()
		m.Partition([]string{"a"}, []string{"b", "c"})
		d.send("SET", "job", "v", "NX", "PX", 3000)
		synctest.Wait()
		d.nc.Close()
		m.Heal()
		began := time.Now()
		if _, err := m.Node("b").Lock(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the key was free after %v", took)
		}
	})
}

func TestKeysOfTheServerAreForgotten(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		c := s.client()
		for i := range 100 {
			key := fmt.Sprint("k", i)
			c.want("+OK", "SET", key, "v", "NX", "PX", 1000)
			if i%2 == 0 {
				c.want(":1", "DEL", key)
			}
		}
		time.Sleep(2 * time.Second)
		s.server.locks.mu.Lock()
		defer s.server.locks.mu.Unlock()
		if n, used, places := s.server.leases.count(), len(s.server.locks.inUse), s.server.slots.n; n+used+places != 0 {
			t.Errorf("%d leases, %d locks and %d places are left", n, used, places)
		}
	})
}

func TestHostileKeys(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		for _, key := range []string{"", "\x00", "a\x00b", "a\nb", "a\r\n+OK", "\x7f", "\xff\xfe", "\xed\xa0\x80", "a\u0085b", strings.Repeat("x", 513)} {
			for _, words := range [][]any{
				{"SET", key, "v", "NX", "PX", 1000}, {"GET", key}, {"EXISTS", "ok", key}, {"DEL", key}, {"PEXPIRE", key, 1},
				{"EVAL", compareAndDelete, 1, key, "v"}, {"LPUSH", key, "1"}, {"BLPOP", key, 1}, {"LOCKMESH.TOKEN", key},
			} {
				c.want("-REFUSED the key…", words...)
			}
		}
		for _, key := range []string{"%s%n", "../../etc/passwd", "{a}", "*", "a b", "ключ", "\U0001F512", strings.Repeat("x", 512), "KEYS[1]", "\"'`$("} {
			c.want("+OK", "SET", key, "v\r\n\x00\xff", "NX", "PX", 1000)
			c.want(`"v\r\n\x00\xff"`, "GET", key)
			c.want(":1", "EVAL", compareAndDelete, 1, key, "v\r\n\x00\xff")
		}
		// A client's words come back in a single line, truncated.
		c.want("-ERR unknown command 'a??+OK'…", "a\r\n+OK")
		if got := c.do(strings.Repeat("x", 10_000)); len(got) > 2*maxErrorText {
			t.Errorf("an error of %d bytes", len(got))
		}
		c.want("-REFUSED the value has 4097 bytes…", "SET", "k", strings.Repeat("v", 4097), "NX", "PX", 1000)
	})
}
