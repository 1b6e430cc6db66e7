package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
)

// call is a command run for a client, alone or within a script.
type call struct {
	s    *Server
	conn *conn
	ctx  context.Context // ends with the connection, and with the time of the command
	cmd  *command
	args []string // the words behind the command's name
	run  *run     // the calling script; nil outside of scripts
}

// command is a command known to the server.
type command struct {
	name string
	// arity is the number of words, the name included; if negative, the least number.
	arity int
	// first and last are the places of the keys among the words, as in Redis's COMMAND; a last of
	// -1 is the last word. Zero without keys.
	first, last int
	flags       []string // as Redis has them
	// outside keeps scripts from calling the command.
	outside bool
	// stranger lets clients call the command before the password.
	stranger bool
	// unlocked leaves the locks of the keys to the command.
	unlocked bool
	do       func(x *call) reply
}

var (
	reads  = []string{"readonly", "fast"}
	writes = []string{"write", "denyoom"}
	other  = []string{"noscript", "loading", "stale", "fast"}
)

// commands are all commands by their names, in small letters.
var commands map[string]*command

func init() {
	list := []*command{
		{name: "get", arity: 2, first: 1, last: 1, flags: reads, do: doGet},
		{name: "getrange", arity: 4, first: 1, last: 1, flags: reads, do: doGetRange},
		{name: "strlen", arity: 2, first: 1, last: 1, flags: reads, do: doStrLen},
		{name: "exists", arity: -2, first: 1, last: -1, flags: reads, do: doExists},
		{name: "type", arity: 2, first: 1, last: 1, flags: reads, do: doType},
		{name: "pttl", arity: 2, first: 1, last: 1, flags: reads, do: doPTTL},
		{name: "ttl", arity: 2, first: 1, last: 1, flags: reads, do: doTTL},
		{name: "set", arity: -3, first: 1, last: 1, flags: writes, do: doSet},
		{name: "setnx", arity: 3, first: 1, last: 1, flags: writes, do: doSetNX},
		{name: "setex", arity: 4, first: 1, last: 1, flags: writes, do: doSetEX},
		{name: "psetex", arity: 4, first: 1, last: 1, flags: writes, do: doPSetEX},
		{name: "del", arity: -2, first: 1, last: -1, flags: writes, do: doDel},
		{name: "unlink", arity: -2, first: 1, last: -1, flags: writes, do: doDel},
		{name: "expire", arity: -3, first: 1, last: 1, flags: writes, do: doExpire},
		{name: "pexpire", arity: -3, first: 1, last: 1, flags: writes, do: doPExpire},
		{name: "lpush", arity: -3, first: 1, last: 1, flags: writes, do: doLPush},
		{name: "lpop", arity: -2, first: 1, last: 1, flags: writes, do: doLPop},
		{name: "blpop", arity: -3, first: 1, last: -2, flags: writes, outside: true, unlocked: true, do: doBLPop},
		{name: "lockmesh.token", arity: -2, first: 1, last: 1, flags: reads, do: doToken},

		{name: "eval", arity: -3, flags: other, outside: true, do: doEval},
		{name: "evalsha", arity: -3, flags: other, outside: true, do: doEvalSHA},
		{name: "script", arity: -2, flags: other, outside: true, do: doScript},

		{name: "ping", arity: -1, flags: other, do: doPing},
		{name: "echo", arity: 2, flags: other, do: doEcho},
		{name: "auth", arity: -2, flags: other, outside: true, stranger: true, do: doAuth},
		{name: "hello", arity: -1, flags: other, outside: true, stranger: true, do: doHello},
		{name: "quit", arity: -1, flags: other, outside: true, stranger: true, do: doQuit},
		{name: "reset", arity: 1, flags: other, outside: true, stranger: true, do: doReset},
		{name: "select", arity: 2, flags: other, outside: true, do: doSelect},
		{name: "client", arity: -2, flags: other, outside: true, do: doClient},
		{name: "info", arity: -1, flags: other, outside: true, do: doInfo},
		{name: "command", arity: -1, flags: other, outside: true, do: doCommand},
		{name: "config", arity: -2, flags: other, outside: true, do: doConfig},
	}
	commands = make(map[string]*command, len(list))
	for _, c := range list {
		commands[c.name] = c
	}
}

// answer runs a client's request. The request's words are valid during the call only.
func (s *Server) answer(c *conn, args [][]byte, inline bool) reply {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	x := &call{s: s, conn: c, ctx: c.ctx, args: words[1:]}
	if r := x.lookUp(words[0]); r != nil {
		if inline { // HTTP of a browser, say: a page may have chosen the lines that follow
			c.quit = true
		}
		return r
	}
	if !c.known && !x.cmd.stranger {
		return errNoAuth
	}
	r := x.do()
	if e, is := r.(failure); is && s.log.Enabled(c.ctx, slog.LevelDebug) {
		c.log("a request is refused", slog.String("command", x.cmd.name), slog.String("answer", shorten(string(e))))
	}
	return r
}

// lookUp looks up the command by its name. It returns the answer if there is no such command, or
// the number of words is wrong.
func (x *call) lookUp(name string) reply {
	x.cmd = commands[strings.ToLower(name)]
	switch {
	case x.cmd == nil && x.run != nil:
		return failf("ERR Unknown Redis command called from script: %s", why(name))
	case x.cmd == nil:
		return failf("ERR unknown command '%s': %s", clip(name), why(name))
	case x.cmd.arity > 0 && len(x.args)+1 != x.cmd.arity, len(x.args)+1 < -x.cmd.arity:
		if x.run != nil {
			return failure("ERR Wrong number of args calling Redis command from script")
		}
		return failf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	return nil
}

// why says why a command isn't offered.
func why(name string) string {
	if text := whyNot[strings.ToLower(name)]; text != "" {
		return text
	}
	return "lockmesh offers what locks need, and is no store; see docs/redis-clients.md"
}

// whyNot says why well-known commands aren't offered.
var whyNot = map[string]string{
	"multi":            transactions,
	"exec":             transactions,
	"discard":          transactions,
	"watch":            transactions,
	"unwatch":          transactions,
	"subscribe":        channels,
	"publish":          channels,
	"psubscribe":       channels,
	"zadd":             semaphores,
	"zcard":            semaphores,
	"zremrangebyscore": semaphores,
	"hset":             hashes,
	"hincrby":          hashes,
	"hexists":          hashes,
	"time":             "a script has no clock here; the server keeps the ends of keys",
	"persist":          "a key without an end would stay locked after a crash of its client; extend the key with PEXPIRE",
	"flushall":         "the keys are locks, and other clients hold them",
	"flushdb":          "the keys are locks, and other clients hold them",
	"keys":             "use the command lockmesh, or package admin, to list keys",
	"scan":             "use the command lockmesh, or package admin, to list keys",
}

const (
	transactions = "transactions aren't offered; compare and delete in a script (EVAL)"
	channels     = "channels aren't offered; have the client poll, or wait with BLPOP"
	semaphores   = "sorted sets, and so Redis semaphores, aren't offered; package lockmesh has semaphores"
	hashes       = "hashes, and so re-entrant Redis locks as those of Redisson, aren't offered"
)

// clip bounds a word of a client for the text of an error, and leaves printable characters.
func clip(word string) string {
	const most = 64
	word = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, word)
	if len(word) > most {
		word = strings.ToValidUTF8(word[:most], "") + "…"
	}
	return word
}

// do runs the command under the locks of its keys.
func (x *call) do() reply {
	keys := x.keys()
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	if len(keys) == 0 || x.run != nil || x.cmd.unlocked {
		return x.cmd.do(x)
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.s.patience())
	defer cancel()
	x.ctx = ctx
	unlock, err := x.s.locks.lock(x.ctx, keys...)
	if err != nil {
		return x.given(err)
	}
	defer unlock()
	return x.cmd.do(x)
}

// keys returns the keys among the words.
func (x *call) keys() []string {
	if x.cmd.first == 0 {
		return nil
	}
	last := x.cmd.last
	if last < 0 {
		last += len(x.args) + 1
	}
	if last < x.cmd.first {
		return nil
	}
	return x.args[x.cmd.first-1 : last]
}

// given returns the answer to a call after a failure, or after too long a wait for its turn.
func (x *call) given(err error) reply {
	var mesh *lockmesh.Error
	switch {
	case errors.Is(err, errStopping):
		return failure("ERR the server stops; connect again when it is back")
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &mesh):
		return failf("%s earlier commands on the key still wait for the voters", codeNoQuorum)
	}
	return failed(err)
}

// millis writes a time as clients give it.
func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
