package resp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/meshtest"
)

func TestScriptsAnswerAsInRedis(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "k", "v", "NX", "PX", 9000)
		for _, row := range []struct{ script, answer string }{
			{`return 1`, ":1"},
			{`return 3.99`, ":3"},
			{`return -3.99`, ":-3"},
			{`return "text"`, `"text"`},
			{`return true`, ":1"},
			{`return false`, "nil"},
			{`return nil`, "nil"},
			{`return`, "nil"},
			{``, "nil"},
			{`return {1, "two", {3}, nil, 5}`, `[:1 "two" [:3]]`},
			{`return {}`, "[]"},
			{`return redis.status_reply("FINE")`, "+FINE"},
			{`return redis.error_reply("MINE too bad")`, "-MINE too bad"},
			{`return redis.error_reply("bad")`, "-ERR bad"},
			{`return redis.error_reply()`, "-ERR wrong number or type of arguments"},
			{`return redis.status_reply(1/3)`, "-ERR wrong number or type of arguments"},
			{`return redis.status_reply("a", "b").err`, `"ERR wrong number or type of arguments"`},
			{`return {ok = "FINE"}`, "+FINE"},
			{`return {err = "MINE bad"}`, "-MINE bad"},
			{`return redis.sha1hex("")`, `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`},
			{`return redis.call("get", KEYS[1])`, `"v"`},
			{`return redis.call("GET", KEYS[2])`, "nil"},
			{`return redis.call("get", KEYS[2]) == false`, ":1"},
			{`return redis.call("set", KEYS[1], "w", "NX", "PX", 1000) == false`, ":1"},
			{`return redis.call("set", KEYS[1], "v", "PX", 9000).ok`, `"OK"`},
			{`return redis.call("setnx")`, "-ERR Wrong number of args calling Redis command from script"},
			{`return redis.pcall("setnx").err`, `"ERR Wrong number of args calling Redis command from script"`},
			{`return redis.call()`, "-ERR Please specify…"},
			{`return redis.call("get", {})`, "-ERR Lua redis lib command arguments must be strings or integers"},
			{`return redis.call("zadd", KEYS[1], 1, "m")`, "-ERR Unknown Redis command called from script: sorted sets…"},
			{`return redis.call("eval", "return 1", 0)`, "-ERR This Redis command is not allowed from script"},
			{`return redis.call("time")`, "-ERR Unknown Redis command called from script: a script has no clock…"},
			{`return redis.call("get", "other")`, "-REFUSED the script uses the key \"other\" without having it in KEYS…"},
			{`return redis.call("exists", KEYS[1], "other")`, "-REFUSED…"},
			{`return redis.call("pttl", KEYS[1]) + ARGV[1]`, ":9002"},
			{`return ARGV[1] .. "-" .. #KEYS .. "-" .. tostring(nil)`, `"2-2-nil"`},
			{`local n = 0 for i, key in ipairs(KEYS) do n = n + redis.call("exists", key) end return n`, ":1"},
			{`return {tonumber("10"), tonumber("0x10"), tonumber("1.5") * 2, tonumber("ff", 16), tonumber("x")}`, "[:10 :16 :3 :255]"},
			{`return string.format("%d %5.2f %s %x %%", 7.9, 1.234, "s", 255)`, `"7  1.23 s ff %"`},
			{`return ("AbC"):lower() .. string.upper("abc") .. string.rep("x", 3) .. string.sub("hello", 2, -2)`, `"abcABCxxxell"`},
			{`return {string.find("a.b", ".", 1, true)}`, "[:2 :2]"},
			{`return {1/3 .. "", 1e15 .. "", 1e14 .. "", 2^53 .. "", 123456 .. "", 1e-5 .. "", 0.1 .. "", -1/3 .. ""}`,
				`["0.33333333333333" "1e+15" "1e+14" "9.007199254741e+15" "123456" "1e-05" "0.1" "-0.33333333333333"]`},
			{`return {tostring(1/3), tostring(-1/0), table.concat({1/3, 2^60}, ","), string.rep(1/3, 2), string.upper(1e20)}`,
				`["0.33333333333333" "-inf" "0.33333333333333,1.1529215046068e+18" "0.333333333333330.33333333333333" "1E+20"]`},
			{`return {string.len(1/3), string.sub(1/3, -3, -1), string.byte(1/3), string.reverse(1/3), string.find(1/3, "33", 1, true)}`,
				`[:16 "333" :48 "33333333333333.0" :3 :4]`},
			{`return {string.format("%s %g %G %.3g %5.0g|%f", 1/3, 1/3, 1e-10, 1/3, 1/3, 1/0), redis.sha1hex(1/3)}`,
				`["0.33333333333333 0.333333 1E-10 0.333   0.3|inf" "84910dc3dc7e0d7252c72e18174a1bee6d2077b8"]`},
			{`return string.format("%x %X %o %u %x %+x % x %#x", -1, -255, -1, -1, 2^63, 1, 1, 255)`,
				`"ffffffffffffffff FFFFFFFFFFFFFF01 1777777777777777777777 18446744073709551615 8000000000000000 1 1 0xff"`},
			{`return {redis.call("echo", 1/3), redis.call("echo", 1e15), redis.call("echo", 1e20)}`,
				`["0.33333333333333331" "1000000000000000" "1e+20"]`},
			{`return string.format("%q", '"\\a\0é')`, `"\"\\\"\\\\a\\000é\""`},
			{`return table.concat({1, 2, "three"}, ",")`, `"1,2,three"`},
			{`local t = {3, 1, 2} table.sort(t) table.insert(t, 4) table.remove(t, 1) return t`, "[:2 :3 :4]"},
			{`local t = {1, 2, 3} table.sort(t, function(a, b) return a > b end) return t`, "[:3 :2 :1]"},
			{`return {math.floor(1.5), math.max(1, 2), select("#", 1, 2), unpack({5, 6})}`, "[:1 :2 :2 :5 :6]"},
			{`local function f(...) local a, b = ... return {select("#", ...), a, b, (...), ...} end return f(7, 8)`, "[:2 :7 :8 :7 :7 :8]"},
			{`return (function(...) return ... end)(1, 2)`, ":1"},
			{`local t = {[1] = "a", [40] = "b", c = 1} t[2] = "c" t.x = 2 return {t[1], t[2], t[40] .. t.x, #{...}}`, `["a" "c" "b2" :0]`},
			{`local ok, err = pcall(error, "oh", 0) return err`, `"oh"`},
			{`local ok, err = pcall(redis.call, "setnx") return err.err`, `"ERR Wrong number…`},
			{`error("oh")`, "-ERR user_script:1: oh"},
			{`error({err = "MINE oh"})`, "-MINE oh"},
			{`return redis.call(`, "-ERR Error compiling script…"},
			{`x = 1`, "-ERR user_script:1: Attempt to modify a readonly table"},
			{`redis.call = 1`, "-ERR user_script:1: Attempt to modify a readonly table"},
			{`return x`, "-ERR user_script:1: Script attempted to access nonexistent global variable 'x'"},
			{`redis.log(redis.LOG_WARNING, "x") redis.setresp(2) return redis.replicate_commands()`, ":1"},
			{`return redis.call("ping").ok .. redis.call("echo", "!")`, `"PONG!"`},
			{`return redis.call("blpop", KEYS[2], 1)`, "-ERR This Redis command is not allowed from script"},
		} {
			c.want(row.answer, "EVAL", row.script, 2, "k", "free", 2)
		}
	})
}

// TestAScriptReachesNothingElse looks for everything that Lua, Redis or gopher-lua offer beyond the
// functions for scripts.
func TestAScriptReachesNothingElse(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		for _, name := range []string{
			"os", "io", "debug", "package", "coroutine", "channel", "require", "module", "load", "loadstring", "loadfile", "dofile",
			"print", "collectgarbage", "getfenv", "setfenv", "getmetatable", "setmetatable", "rawset", "rawget", "newproxy", "_printregs",
			"string.dump", "string.gfind", "math.random", "math.randomseed", "table.setn", "cjson", "cmsgpack", "bit", "struct", "_GOPHER_LUA_VERSION",
		} {
			script := fmt.Sprintf(`local ok, v = pcall(function() return %s end) return ok and v ~= nil`, name)
			c.want("nil", "EVAL", script, 0)
		}
		for _, script := range []string{
			`return ("x"):gsub("x", "y")`, `return string.match("x", "x")`, `for w in ("x"):gmatch("x") do end`, `return ("x"):find("x-")`,
		} {
			c.want("-ERR user_script:1: patterns aren't offered…", "EVAL", script, 0)
		}
		// No script changes the environment of the next script, not even by the names of the
		// package's own functions.
		for _, script := range []string{
			`string.len = nil`, `table.concat = nil`, `KEYS = nil`, `_G.x = 1`, `_G["\0concat"] = function() return "mine" end`,
			`function string.len() return 0 end`, `pcall = nil`, `table.insert(string, 1)`, `table.insert(table, 1, "x")`,
			`table.insert(math, 1)`, `table.insert(redis, 1)`, `table.insert(_G, 1)`,
		} {
			c.want("-ERR user_script:1: Attempt to modify a readonly table", "EVAL", script, 0)
		}
		c.want(":1", "EVAL", `KEYS[1] = "x" ARGV[1] = "y" return 1`, 0)
		c.want("[:0 :0 :0 :0 :0]", "EVAL", `return {#string, #table, #math, #redis, #_G}`, 0)
		c.want(`["x" "y"]`, "EVAL", `local t = {"y"} table.insert(t, 1, "x") return t`, 0)
		c.want("[:0 :0 :1]", "EVAL", `return {#KEYS, #ARGV, string.len("x")}`, 0)
		c.want(`"table"`, "EVAL", `return tostring({})`, 0) // no address
	})
}

func TestAScriptIsBounded(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		for name, script := range map[string]string{
			"a loop":                "while true do end",
			"goto":                  "::again:: goto again",
			"a loop that catches":   "while true do pcall(function() while true do end end) end",
			"recursion":             "local function f() return f() + 1 end return f()",
			"tail calls":            "local function f() return f() end return f()",
			"doubling":              `local s = "x" while true do s = s .. s end`,
			"doubling in calls":     `local s = "x" while true do s = table.concat({s, s}) end`,
			"doubling by rep":       `local s = "x" while true do s = s:rep(2) end`,
			"rep":                   `return string.rep("x", 1e9)`,
			"rep of long texts":     `local t = {} for i = 1, 1000 do t[i] = string.rep("x", 16000) end`,
			"format":                `return string.format("%1000000000d", 1)`,
			"format of long texts":  `local s = string.rep("x", 9000) return string.format("%s%s", s, s)`,
			"a far place":           `local t = {} t[67108863] = 1`,
			"a far place in braces": `local t = {[67108863] = 1}`,
			"a far place by name":   `local t, n = {}, 67108863 t[n] = 1`,
			"a far place, nested":   `local t, n = {{}}, 67108863 t[1][n], n = 1, 2`,
			"far places":            `local all = {} for i = 1, 1e6 do local t = {} t[1000] = 1 all[1] = t end`,
			"copies of arguments":   `local function f(...) for i = 1, 1e6 do local t = {...} end end local a = {} for i = 1, 900 do a[i] = i end f(unpack(a))`,
			"insert":                `local t = {} for i = 1, 1e6 do table.insert(t, i) end`,
			"insert in front":       `local t = {} for i = 1, 1e6 do table.insert(t, 1, i) end`,
			"sorting":               `local t = {} for i = 1, 1000 do t[i] = -i end while true do table.sort(t) end`,
			"unpack":                `return unpack({}, 1, 1e8)`,
			"many results":          `return string.byte(string.rep("x", 16000), 1, -1)`,
			"a cyclic answer":       `local t = {} t[1] = t return t`,
			"a large answer":        `local s, t = string.rep("x", 16000), {} for i = 1, 1000 do t[i] = s end return t`,
			"large states":          `local s, t = redis.status_reply(string.rep("x", 16000)), {} for i = 1, 20 do t[i] = s end return t`,
			"the same states":       `local t = {} for i = 1, 20 do t[i] = {ok = string.rep("x", 4000)} end return {t, t, t, t}`,
			"large errors":          `local e, t = {err = string.rep("x", 16000)}, {} for i = 1, 20 do t[i] = e end return t`,
			"many calls":            `while true do redis.call("ping") end`,
			"many arguments":        `local t = {} for i = 1, 2000 do t[i] = "x" end return redis.call("exists", unpack(t))`,
		} {
			if got := c.do("EVAL", script, 0); !strings.HasPrefix(got, "-ERR") {
				t.Errorf("%s: %s", name, got)
			}
		}
		c.want("-ERR Error compiling script…", "EVAL", "return '"+strings.Repeat("x", MaxScript)+"'", 0)
		c.want(":1", "EVAL", "return 1", 0)
	})
}

func TestDeepScriptsAreAnswered(t *testing.T) {
	nested := func(before, inner, after string) string {
		n := (MaxScript - 100) / (len(before) + len(after))
		return "return " + strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		for _, script := range []string{
			nested("(", "1", ")"), nested("{", "1", "}"), nested("not ", "1", ""), nested("- ", "1", ""), nested("#", "'x'", ""), nested("1 ..", "1", ""),
			nested("1 + ", "1", ""), nested("2 ^ ", "1", ""), nested("(function() return ", "1", " end)()"), nested("a.", "b", ""), nested("a[", "1", "]"),
			nested("pcall(", "1", ")"), nested("1 and ", "1", ""), "local " + strings.Repeat("a, ", 4000) + "a = 1", strings.Repeat("if 1 then ", 500),
			"return {" + strings.Repeat("{}, ", 4000) + "}", strings.Repeat("local a = 1 ", 1000) + "return a", "return '" + strings.Repeat("\\1", 5000) + "'",
		} {
			if got := c.do("EVAL", script, 0); got == "" {
				t.Errorf("%.40q: no answer", script)
			}
		}
		c.want(":1", "EVAL", "return 1", 0)
	})
}

func TestScriptsAreKnownByTheirDigests(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		digest := digestOf(compareAndDelete)
		c.want("-NOSCRIPT No matching script. Please use EVAL.", "EVALSHA", digest, 1, "k", "v")
		c.want("[:0]", "SCRIPT", "EXISTS", digest)
		c.want(fmt.Sprintf("%q", digest), "SCRIPT", "LOAD", compareAndDelete)
		c.want("[:1 :0]", "SCRIPT", "EXISTS", strings.ToUpper(digest), "0")
		c.want(":0", "EVALSHA", strings.ToUpper(digest), 1, "k", "v")
		c.want("-ERR SCRIPT FLUSH only support SYNC|ASYNC option", "SCRIPT", "FLUSH", "LATER")
		c.want("+OK", "SCRIPT", "FLUSH", "ASYNC")
		c.want("-NOSCRIPT…", "EVALSHA", digest, 1, "k", "v")
		c.want(":0", "EVAL", compareAndDelete, 1, "k", "v") // is remembered, too
		c.want(":0", "EVALSHA", digest, 1, "k", "v")
		for i := range MaxScripts {
			c.want(fmt.Sprintf(":%d", i), "EVAL", fmt.Sprintf("return %d", i), 0)
		}
		c.want("-NOSCRIPT…", "EVALSHA", digest, 1, "k", "v")
		c.want(":0", "EVALSHA", digestOf("return 0"), 0)
		c.want("-ERR Error compiling script…", "SCRIPT", "LOAD", "(")
		c.want("-NOTBUSY…", "SCRIPT", "KILL")
		c.want("-ERR unknown subcommand…", "SCRIPT", "DEBUG", "YES")
		c.want("-ERR Number of keys can't be greater than number of args", "EVAL", "return 1", 1)
		c.want("-ERR Number of keys can't be negative", "EVAL", "return 1", -1)
		c.want("-ERR value is not an integer or out of range", "EVAL", "return 1", "one")
	})
}

// lockAll is node-redlock's script to lock several keys.
const lockAll = `
	for i, key in ipairs(KEYS) do if redis.call("exists", key) == 1 then return 0 end end
	for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
	return #KEYS`

func TestAScriptTakesAllKeysOrNone(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		lease, err := m.Node("b").Lock(t.Context(), "k2")
		if err != nil {
			t.Fatal(err)
		}
		c.want(":0", "EVAL", lockAll, 3, "k1", "k2", "k3", "v", 5000)
		c.want(":1", "EXISTS", "k1", "k2", "k3")
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.want(":3", "EVAL", lockAll, 3, "k1", "k2", "k3", "v", 5000)
		c.want(":3", "EXISTS", "k1", "k2", "k3")
		c.want(":3", "DEL", "k3", "k2", "k1")
		// A failed script has locked nothing.
		fail := `redis.call("set", KEYS[1], "v", "PX", 1000) redis.call("set", KEYS[2], "v", "PX", 1000) error("oh")`
		c.want("-ERR user_script:1: oh", "EVAL", fail, 2, "k1", "k2")
		c.want(":0", "EXISTS", "k1", "k2")
	})
}

// TestAScriptThatIsOvertakenRunsAnew has another node acquire the last key between the reads and
// the writes of a script: the latency makes both take time.
func TestAScriptThatIsOvertakenRunsAnew(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.send("EVAL", lockAll, 3, "k1", "k2", "k3", "v", 5000)
		time.Sleep(35 * time.Millisecond) // three reads of 20 ms each; a request at 35 ms is first
		if _, err := m.Node("b").TryLock(t.Context(), "k3"); err != nil {
			t.Fatal(err)
		}
		if got := c.read(); got != ":0" {
			t.Errorf("the script answers %s", got)
		}
		c.want(":1", "EXISTS", "k1", "k2", "k3")
	}, meshtest.WithLatency(10*time.Millisecond))
}

func TestScriptsOnTheSameKeysRunOneAfterTheOther(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		answers := make(chan string)
		const n = 16
		for i := range n {
			c := s.client()
			keys := []any{"k1", "k2"}
			if i%2 == 1 {
				keys = []any{"k2", "k1"}
			}
			go func() { answers <- c.do(append([]any{"EVAL", lockAll, 2}, append(keys, "v", 5000)...)...) }()
		}
		won := 0
		for range n {
			if a := <-answers; a == ":2" {
				won++
			} else if a != ":0" {
				t.Errorf("an answer: %s", a)
			}
		}
		if won != 1 {
			t.Errorf("%d scripts have taken the keys", won)
		}
	}, meshtest.WithLatency(time.Millisecond))
}
