//go:build hunt

package clients

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/contrib/resp"
)

// The scripts of clients, each with the number of its keys.
var scripts = []struct {
	keys int
	text string
}{
	{1, `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`},
	{1, `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`},
	{1, `if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.status_reply("OK") end
		local offset = tonumber(ARGV[3])
		if redis.call("getrange", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then
			return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) end`},
	{1, `local val = redis.call("GET", KEYS[1])
		if val == ARGV[1] then return redis.call("DEL", KEYS[1]) elseif val == false then return -1 else return 0 end`},
	{1, `local token = redis.call('get', KEYS[1])
		if not token or token ~= ARGV[1] then return 0 end
		local expiration = redis.call('pttl', KEYS[1])
		if not expiration then expiration = 0 end
		if expiration < 0 then return 0 end
		redis.call('pexpire', KEYS[1], expiration - 1)
		return 1`},
	{2, `for i, key in ipairs(KEYS) do if redis.call("exists", key) == 1 then return 0 end end
		for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
		return #KEYS`},
	{3, `for i, key in ipairs(KEYS) do if redis.call("get", key) ~= ARGV[1] then return 0 end end
		for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
		return #KEYS`},
	{2, `local count = 0
		for i, key in ipairs(KEYS) do
			if redis.call("get", key) == ARGV[1] then redis.pcall("del", key) count = count + 1 end
		end
		return count`},
	{2, `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 end
		redis.call("del", KEYS[2]) redis.call("lpush", KEYS[2], 1) redis.call("pexpire", KEYS[2], ARGV[2]) redis.call("del", KEYS[1])
		return 0`},
	{1, `return {redis.call("get", KEYS[1]), redis.call("exists", KEYS[1]), redis.call("type", KEYS[1]), redis.call("pttl", KEYS[1]) > 0}`},
	{1, `return redis.pcall("get", KEYS[1], "more")`},
	{1, `return redis.call("blpop", KEYS[1], 0)`},
	{0, `return {1.9, -1.9, "a", true, {ok = "fine"}, {err = "MINE bad"}, tostring(1.5), tostring(10), 10 / 4 .. "", #"abc"}`},
	{0, `return {1/3 .. "", 1e15 .. "", 2^53 .. "", tostring(-1/0), string.len(1/3), ARGV[2] / 7 .. "", table.concat({ARGV[3] / 3, 2^60}, ",")}`},
	{0, `return string.format("%s %g %x %u %o %5.1f %q", ARGV[2] / 7, ARGV[2] / 7, -ARGV[2], -ARGV[3], ARGV[2], ARGV[2] / 7, ARGV[1])`},
	{0, `return {redis.call("echo", ARGV[2] / 7), redis.call("echo", 1e15), redis.sha1hex(1/3)}`},
	{0, `return redis.error_reply("one two")`},
	{0, `return redis.error_reply("-one two")`},
	{0, `return redis.error_reply()`},
	{0, `return redis.status_reply(1/3)`},
	{0, `return redis.status_reply("a", "b").err`},
	{0, `return redis.status_reply("one two")`},
	{0, `local t = {} for i = 1, 5 do t[#t + 1] = i * ARGV[2] end return table.concat(t, ",")`},
}

// TestTheSameAnswersAsRedis sends random sequences of the commands of lock clients to this server
// and to a Redis. A command refused by this server isn't sent to Redis, so both stay in the same
// state; a refusal must be listed in docs/redis-clients.md.
func TestTheSameAnswersAsRedis(t *testing.T) {
	redisAddr := newRedisServer(t)
	m := newMesh(t)
	addr := served(t, m, "a", resp.AllowLongTTL())
	seed := rand.Uint64()
	if s := os.Getenv("LOCKMESH_DIFFERENTIAL"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("again: LOCKMESH_DIFFERENTIAL=%d go test -tags hunt -run TheSameAnswers ./...", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ours, theirs := dialWire(t, addr), dialWire(t, redisAddr)
	const steps = 20_000
	refused := 0
	var last []string
	for step := range steps {
		words := draw(rng)
		last = append(last, fmt.Sprintf("%q", words))
		if len(last) > 30 {
			last = last[1:]
		}
		mine, err := ours.do(words...)
		if err != nil {
			t.Fatalf("step %d: %q: %v", step, words, err)
		}
		if strings.HasPrefix(mine, "-REFUSED") || strings.HasPrefix(mine, "-HELD") {
			if !isListed(mine) {
				t.Fatalf("step %d: %q is refused for a reason that isn't listed: %s", step, words, mine)
			}
			refused++
			continue
		}
		other, err := theirs.do(words...)
		if err != nil {
			t.Fatal(err)
		}
		if !same(words, mine, other) {
			t.Fatalf("step %d: %q\n lockmesh: %s\n redis:    %s\nbefore:\n%s", step, words, mine, other, strings.Join(last, "\n"))
		}
	}
	if refused > steps/4 {
		t.Errorf("%d of %d commands were refused, so little was compared", refused, steps)
	}
	t.Logf("%d commands, %d of them refused", steps, refused)
}

// isListed reports whether a refusal is among the documented differences.
func isListed(answer string) bool {
	for _, text := range []string{
		"is held with another value: use NX",      // a blind SET
		"has an end, which a SET can't take away", // SET without a time
		"is a list of signals; delete it first",   // SET of a list
		"is longer than the longest possible",
	} {
		if strings.Contains(answer, text) {
			return true
		}
	}
	return false
}

var where = regexp.MustCompile(` script: .*$|user_script:\d+: `)

// same compares two answers. Times may differ by a moment; in errors from scripts, the position
// added by Redis is left out.
func same(words []string, mine, other string) bool {
	if mine == other {
		return true
	}
	switch strings.ToLower(words[0]) {
	case "pttl", "ttl":
		a, err1 := strconv.ParseInt(strings.TrimPrefix(mine, ":"), 10, 64)
		b, err2 := strconv.ParseInt(strings.TrimPrefix(other, ":"), 10, 64)
		return err1 == nil && err2 == nil && a > 0 && b > 0 && max(a-b, b-a) <= 2000
	}
	return where.ReplaceAllString(mine, "") == where.ReplaceAllString(other, "")
}

// draw returns a random command.
func draw(rng *rand.Rand) []string {
	key := func() string { return fmt.Sprintf("k%d", rng.IntN(5)) }
	value := func() string { return []string{"v", "w", "vv", ""}[rng.IntN(4)] }
	// Long enough that no key ends by itself between the two queries, and short enough for later
	// extensions.
	ms := func() string { return strconv.Itoa(1_000_000 + rng.IntN(80_000_000)) }
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	switch rng.IntN(24) {
	case 0, 1, 2:
		return []string{"SET", key(), value(), "NX", "PX", ms()}
	case 3:
		return []string{pick("set", "SET"), key(), value(), "PX", ms()}
	case 4:
		return []string{"SET", key(), value(), pick("XX", "NX", "nx"), pick("EX", "ex"), strconv.Itoa(1000 + rng.IntN(80_000))}
	case 5:
		return []string{pick("SETNX", "setnx", "SET"), key(), value()}
	case 6:
		return []string{pick("PSETEX", "psetex"), key(), ms(), value()}
	case 7, 8:
		return []string{"GET", key()}
	case 9:
		return []string{"EXISTS", key(), key()}
	case 10:
		return []string{pick("DEL", "UNLINK"), key(), key()}
	case 11:
		return []string{pick("PTTL", "TTL"), key()}
	case 12:
		return []string{"PEXPIRE", key(), pick(ms(), ms(), ms(), "0", "-1")}
	case 13:
		return []string{"EXPIRE", key(), strconv.Itoa(1000 + rng.IntN(80_000))}
	case 14:
		return []string{"GETRANGE", key(), strconv.Itoa(rng.IntN(9) - 4), strconv.Itoa(rng.IntN(9) - 4)}
	case 15:
		return []string{pick("TYPE", "STRLEN"), key()}
	case 16:
		return []string{"LPUSH", key(), value(), "x"}
	case 17:
		return []string{"LPOP", key()}
	case 18:
		return []string{"BLPOP", key(), "0.001"}
	case 19: // broken commands
		return [][]string{
			{"GET"}, {"SET", "k1"}, {"SET", "k1", "v", "PX"}, {"SET", "k1", "v", "PX", "x"}, {"SET", "k1", "v", "PX", "0"}, {"SET", "k1", "v", "EX", "-1"},
			{"SET", "k1", "v", "NX", "XX"}, {"PEXPIRE", "k1", "x"}, {"GETRANGE", "k1", "x", "1"}, {"EVAL", "return 1"}, {"EVAL", "return 1", "1"},
			{"EVAL", "return 1", "-1"}, {"EVAL", "return 1", "x"}, {"EVALSHA", "0", "0"}, {"BLPOP", "k1", "x"}, {"BLPOP", "k1", "-1"}, {"PSETEX", "k1", "0", "v"},
			{"EXPIRE", "k1", "9223372036854775807"}, {"SET", "k1", "v", "EX", "9223372036854775807"}, {"PING", "a", "b"}, {"ECHO"}, {"SETNX", "k1"},
			{"SET", "k1", "v", "EX", "+5000"}, {"SET", "k1", "v", "EX", "05000"}, {"EXPIRE", "k1", "+5000"}, {"PSETEX", "k1", "0x5", "v"},
			{"GETRANGE", "k1", "00", "1"}, {"EVAL", "return 1", "+0"},
		}[rng.IntN(28)]
	}
	s := scripts[rng.IntN(len(scripts))]
	words := []string{"EVAL", s.text, strconv.Itoa(s.keys)}
	if rng.IntN(2) == 0 {
		sum := sha1.Sum([]byte(s.text))
		words[0], words[1] = "EVALSHA", hex.EncodeToString(sum[:])
	}
	for i, first := 0, rng.IntN(5); i < s.keys; i++ {
		words = append(words, fmt.Sprintf("k%d", (first+i)%5))
	}
	return append(words, value(), ms(), strconv.Itoa(rng.IntN(3)))
}
