package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"github.com/lockmesh/lockmesh/meshtest"
)

// FuzzRequest has the parser read any bytes: all at once, and singly. Both ways yield the same
// requests, within the bounds; and redcon's parser, not made for hostile bytes, reads the accepted
// requests in the same way.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		request("GET", "k"), request("SET", "k", "v\r\n", "NX", "PX", 1000) + request("PING"), request(), "PING\r\n", "set k \"a b\"\r\n", "\r\n", "*0\r\n",
		"*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n$9223372036854775807\r\nabc", "*9223372036854775807\r\n", "*1\r\n$3\r\nabcd\r", "*2\r\n$1\r\na\r\n", "+OK\r\n", "$1 a\r\n",
		"\"\r\n", "'a'b\r\n", "a\\\"b\r\n", "POST / HTTP/1.1\r\nHost: x\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, err := parseAll(data)
		single, errSingle := parseSlowly(data)
		if (err == nil) != (errSingle == nil) || !slices.EqualFunc(whole, single, slices.Equal[[]string]) {
			t.Fatalf("%q: at once %q, %v; slowly %q, %v", data, whole, err, single, errSingle)
		}
		for _, words := range whole {
			if len(words) > MaxArgs {
				t.Fatalf("%d words", len(words))
			}
			var b []byte
			b = redcon.AppendArray(b, len(words))
			for _, w := range words {
				b = redcon.AppendBulkString(b, w)
			}
			if len(b) > 2*MaxRequest {
				t.Fatalf("a request of %d bytes", len(b))
			}
			cmd, err := redcon.NewReader(bytes.NewReader(b)).ReadCommand()
			if err != nil || len(cmd.Args) != len(words) {
				t.Fatalf("%q: redcon reads %q, %v", words, cmd.Args, err)
			}
			for i := range words {
				if words[i] != string(cmd.Args[i]) {
					t.Fatalf("%q: redcon reads %q", words, cmd.Args)
				}
			}
		}
	})
}

// parseAll returns the requests at the beginning of data.
func parseAll(data []byte) (all [][]string, err error) {
	for len(data) > 0 {
		args, length, need, err := parseRequest(data, memberBounds)
		switch {
		case err != nil:
			return all, err
		case args == nil:
			if need <= len(data) {
				panic("a request is incomplete and needs no more")
			}
			return all, nil
		}
		all = append(all, stringsOf(args)...)
		data = data[length:]
	}
	return all, nil
}

// parseSlowly is parseAll for bytes arriving singly.
func parseSlowly(data []byte) (all [][]string, err error) {
	start, need := 0, 0
	for end := 1; end <= len(data); end++ {
		for start < end && end-start >= need {
			args, length, more, err := parseRequest(data[start:end], memberBounds)
			if err != nil {
				return all, err
			}
			if args == nil {
				need = more
				break
			}
			all = append(all, stringsOf(args)...)
			start, need = start+length, 0
		}
	}
	_, _, _, err = parseRequest(data[start:], memberBounds) // so far the rest was left for more bytes to come
	return all, err
}

func stringsOf(args [][]byte) [][]string {
	if len(args) == 0 {
		return nil
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	return [][]string{words}
}

// FuzzScript runs scripts without keys: each script ends, allocates no more than its instructions
// allow, and leaves no trace for the next script.
func FuzzScript(f *testing.F) {
	for _, text := range []string{
		compareAndDelete, lockAll, `return {KEYS, ARGV, 1.5, "a" .. "b", redis.call("ping"), redis.pcall("get", "k")}`,
		`local t = {} for i = 1, 9 do t[i] = i .. "" end table.sort(t) return table.concat(t, ",")`,
		`local function f(...) return select("#", ...), ... end return {f(unpack({1, 2, 3}))}`,
		`while true do pcall(error, {err = "x"}) end`, `goto a ::a:: return string.format("%5.1f %s %q", 1, "x", "y")`,
		`return tostring(nil) .. #"x" .. tonumber("0x1f") .. ("x"):rep(3):upper():reverse():sub(1, -1):byte()`,
		`local s = "x" while true do s = s .. s end`, `local t = {} t[67108863] = 1`, `return ((((((((((1))))))))))`, `a.b.c = d[e].f:g(h)`,
		`string.rep = nil`, `for k, v in pairs(_G) do k() end`, `return next({}), type(print), math.huge, -math.huge, 0/0`, "#!lua\nreturn 1",
	} {
		f.Add(text, "v")
	}
	s := &Server{log: slog.New(slog.DiscardHandler)}
	c := &conn{s: s, ctx: context.Background(), proto: resp2}
	f.Fuzz(func(t *testing.T, text, arg string) {
		compiled, err := compile(digestOf(text), text)
		if err != nil {
			return
		}
		x := &call{s: s, conn: c, ctx: c.ctx}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer := compiled.run(newRun(c.ctx, x, nil), nil, []string{arg})
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 128<<20 {
			t.Errorf("the script has made %d MiB", made>>20)
		}
		if b := resp2.appendReply(nil, answer); len(b) > 2*maxAnswer {
			t.Errorf("an answer of %d bytes", len(b))
		}
		const check = `return {#KEYS, #ARGV, string.len("x"), type(redis.call), tostring(1), "a" .. "b", math.floor(1.5)}`
		after2, err := compile("check", check)
		if err != nil {
			t.Fatal(err)
		}
		got := string(resp2.appendReply(nil, after2.run(newRun(c.ctx, x, nil), nil, nil)))
		if want := "*7\r\n:0\r\n:0\r\n:1\r\n$8\r\nfunction\r\n$1\r\n1\r\n$2\r\nab\r\n:1\r\n"; got != want {
			t.Errorf("the next script answers %q", got)
		}
	})
}

// FuzzCommands runs commands with any words, from a stranger and from a client with the password,
// in both protocols: each command has exactly one reply, and no word gets into the framing of the
// replies.
func FuzzCommands(f *testing.F) {
	for name := range commands {
		f.Add(true, false, name)
		f.Add(true, true, strings.ToUpper(name)+"\x00k")
		f.Add(false, true, name+"\x00k\x001\x00v")
	}
	for _, text := range []string{
		"SET\x00k\x00v\x00NX\x00PX\x001000", "SET\x00k\x00v\x00XX\x00KEEPTTL\x00GET", "SET\x00k\x00v\x00EX\x009223372036854775807", "SET\x00k\x00v\x00PXAT\x00-1",
		"SET\x00\r\n+OK\r\n\x00v\x00PX\x001", "SET\x00\xff\x00v\x00PX\x001", "NOSUCH\r\n+OK\x00k", "EVAL\x00return {ok='a\\r\\n+b'}\x000",
		"EVAL\x00return redis.error_reply('x\\r\\n:1')\x000", "EVAL\x00return {KEYS,ARGV}\x00-1", "EVAL\x00return KEYS[1]\x001\x00k\r\n\x00v",
		"EVAL\x00return redis.call('set',KEYS[1],ARGV[1],'px','10')\x001\x00k\x00v", "EVALSHA\x00" + digestOf("x") + "\x000", "SCRIPT\x00LOAD\x00return 1",
		"SCRIPT\x00EXISTS\x00a\x00b", "LPUSH\x00l\x00" + strings.Repeat("x", maxSignalLen+1), "BLPOP\x00l\x000.001", "BLPOP\x00l\x00-1", "BLPOP\x00l\x00nan",
		"BLPOP\x00l\x00m\x000", "LPOP\x00l\x00-1", "GETRANGE\x00k\x00-9223372036854775808\x009223372036854775807", "PEXPIRE\x00k\x009223372036854775807\x00GT",
		"EXPIRE\x00k\x00-9223372036854775808", "HELLO\x003\x00AUTH\x00default\x00x\x00SETNAME\x00a", "AUTH\x00\r\n", "CLIENT\x00SETNAME\x00a\nb", "CLIENT\x00SETINFO\x00a\x00b",
		"COMMAND\x00INFO\x00\r\n", "COMMAND\x00GETKEYS\x00SET", "CONFIG\x00GET\x00*", "INFO\x00\r\n", "ECHO\x00\r\n+OK\r\n", "PING\x00$3\r\nabc\r\n", "SELECT\x001\r\n",
	} {
		f.Add(true, false, text)
		f.Add(true, true, text)
	}
	// The voter is quiet for MaxTTL before its first answer.
	m := meshtest.New(f, 1, meshtest.WithMaxTTL(time.Second))
	m.Ready()
	s := New(m.Node("a"), WithPassword(testPassword), WithLogger(slog.New(slog.DiscardHandler)))
	set := &conns{open: make(map[*conn]struct{})}
	f.Fuzz(func(t *testing.T, known, third bool, text string) {
		var args [][]byte
		for word := range strings.SplitSeq(text, "\x00") {
			args = append(args, []byte(word))
		}
		if len(text) > MaxRequest || len(args) > MaxArgs {
			return // refused
		}
		there, here := net.Pipe()
		there.Close() // so that no command waits for long: the client is gone
		c := s.newConn(t.Context(), here, set, false)
		defer c.cut()
		c.known = known
		if third {
			c.proto = resp3
		}
		answer := s.answer(c, args, false)
		if _, is := answer.(failure); !known && !is && c.known {
			t.Errorf("%q lets a stranger in", text)
		}
		b := c.proto.appendReply(nil, answer)
		if n, err := replyLen(b); err != nil || n != len(b) {
			t.Errorf("%q is answered with %d bytes, the first reply of which has %d: %q, %v", text, len(b), n, b, err)
		}
	})
}

// replyLen returns the length of the reply at the beginning of b.
func replyLen(b []byte) (int, error) {
	line, _, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) == 0 {
		return 0, errors.New("no line")
	}
	if bytes.ContainsAny(line, "\r\n") {
		return 0, errors.New("half a line's end")
	}
	length := len(line) + 2
	switch line[0] {
	case '+', '-', ':', '_':
		return length, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch {
	case err != nil || n < -1:
		return 0, fmt.Errorf("the line %q", line)
	case n == -1:
		return length, nil
	case line[0] == '$':
		if len(b) < length+n+2 || string(b[length+n:length+n+2]) != "\r\n" {
			return 0, errors.New("a string without its end")
		}
		return length + n + 2, nil
	case line[0] == '%':
		n *= 2
	case line[0] != '*':
		return 0, fmt.Errorf("the line %q", line)
	}
	for range n {
		item, err := replyLen(b[length:])
		if err != nil {
			return 0, err
		}
		length += item
	}
	return length, nil
}
