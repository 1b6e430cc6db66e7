package resp

import (
	"crypto/sha1" //nolint:gosec // Redis offers it to scripts
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

const (
	// maxAnswer bounds the answer of a script, in bytes, with some bytes counted for each item.
	maxAnswer = 256 << 10

	// maxDepth is how deep tables may be nested in the answer of a script.
	maxDepth = 8
)

var errAnswer = errors.New("the script's answer is too long, or its tables are nested too deep")

// reply converts the result of a script, as Redis does: a number loses its fraction, a table is the
// list up to its first nil.
func (w *world) reply(v lua.LValue) (reply, error) {
	left := maxAnswer
	return convert(v, maxDepth, &left)
}

func convert(v lua.LValue, depth int, left *int) (reply, error) {
	if *left -= 16; *left < 0 || depth == 0 {
		return nil, errAnswer
	}
	switch v := v.(type) {
	case lua.LString:
		if *left -= len(v); *left < 0 {
			return nil, errAnswer
		}
		return bulk(v), nil
	case lua.LNumber:
		return integer(truncate(float64(v))), nil
	case lua.LBool:
		if v {
			return integer(1), nil
		}
		return null{}, nil
	case *lua.LTable:
		for _, field := range []string{"err", "ok"} {
			text, is := v.RawGetString(field).(lua.LString)
			if !is {
				continue
			}
			if *left -= len(text); *left < 0 {
				return nil, errAnswer
			}
			if field == "err" {
				return failf("%s", shorten(string(text))), nil
			}
			return status(text), nil
		}
		all := array{}
		for i := 1; ; i++ {
			item := v.RawGetInt(i)
			if item == lua.LNil {
				return all, nil
			}
			r, err := convert(item, depth-1, left)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return null{}, nil
}

// truncate converts a number as C does on common machines.
func truncate(f float64) int64 {
	if math.IsNaN(f) || f >= math.MaxInt64 || f <= math.MinInt64 {
		return math.MinInt64
	}
	return int64(f)
}

// value converts the answer of a command for a script.
func (w *world) value(r reply) lua.LValue {
	switch r := r.(type) {
	case integer:
		return lua.LNumber(r)
	case bulk:
		return lua.LString(r)
	case status:
		return w.single("ok", string(r))
	case failure:
		return w.single("err", string(r))
	case array:
		t := w.l.CreateTable(len(r), 0)
		for i, item := range r {
			t.RawSetInt(i+1, w.value(item))
		}
		return t
	}
	return lua.LFalse // no string, no array
}

// single returns a table with a single field.
func (w *world) single(name, text string) *lua.LTable {
	t := w.l.NewTable()
	t.RawSetString(name, lua.LString(text))
	return t
}

// redis returns the functions for calls of commands.
func (w *world) redis() *lua.LTable {
	l := w.l
	t := l.NewTable()
	for name, f := range map[string]lua.LGFunction{
		"call": func(l *lua.LState) int {
			r := w.call(l)
			if _, is := r.(failure); is {
				l.Error(w.value(r), 1)
			}
			l.Push(w.value(r))
			return 1
		},
		"pcall": func(l *lua.LState) int {
			l.Push(w.value(w.call(l)))
			return 1
		},
		"error_reply": func(l *lua.LState) int {
			given, is := onlyString(l)
			text := strings.TrimPrefix(given, "-")
			switch {
			case !is:
				text = noString
			case !strings.Contains(text, " "):
				text = w.charged("ERR " + text)
			}
			l.Push(w.single("err", text))
			return 1
		},
		"status_reply": func(l *lua.LState) int {
			if text, is := onlyString(l); is {
				l.Push(w.single("ok", text))
			} else {
				l.Push(w.single("err", noString))
			}
			return 1
		},
		"sha1hex": func(l *lua.LState) int {
			text := checkText(l, 1)
			w.budget.charge(len(text) / 64)
			sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
			l.Push(lua.LString(w.charged(hex.EncodeToString(sum[:]))))
			return 1
		},
		"log": func(*lua.LState) int { return 0 },
		"setresp": func(l *lua.LState) int {
			if l.CheckInt(1) != 2 {
				l.RaiseError("RESP version must be 2 or 3; this server speaks 2")
			}
			return 0
		},
		"replicate_commands": func(l *lua.LState) int {
			l.Push(lua.LTrue)
			return 1
		},
	} {
		t.RawSetString(name, l.NewFunction(f))
	}
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(name, lua.LNumber(i))
	}
	return t
}

// noString is Redis's error for a reply made from something else than one string.
const noString = "ERR wrong number or type of arguments"

// onlyString returns the only argument of a function of Lua, if the argument is a string. Redis
// takes no number for a string here.
func onlyString(l *lua.LState) (text string, is bool) {
	s, is := l.Get(1).(lua.LString)
	return string(s), is && l.GetTop() == 1
}

// call runs a command for a script.
func (w *world) call(l *lua.LState) reply {
	words := make([]string, l.GetTop())
	if len(words) == 0 {
		return failure("ERR Please specify at least one argument for this redis.call() call")
	}
	if len(words) > MaxArgs {
		return failure("ERR too many arguments for a command")
	}
	for i := range words {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			words[i] = string(v)
		case lua.LNumber:
			words[i] = numberText(float64(v))
		default:
			return failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	r := w.run
	w.budget.charge(len(words))
	if err := r.ctx.Err(); err != nil {
		return failf("%s the script took too long, waiting for the voters", codeNoQuorum)
	}
	x := &call{s: r.x.s, conn: r.x.conn, ctx: r.ctx, args: words[1:], run: r}
	if wrong := x.lookUp(words[0]); wrong != nil {
		return wrong
	}
	if x.cmd.outside {
		return failure("ERR This Redis command is not allowed from script")
	}
	for _, key := range x.keys() {
		if !r.keys[key] {
			return refused("the script uses the key %q without having it in KEYS: the server locks the keys of a script before it runs", clip(key))
		}
	}
	return x.do()
}

// numberText writes a number as an argument of a command.
func numberText(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e17 {
		return strconv.FormatInt(int64(f), 10)
	}
	return formatNumber(f, 17)
}

// luaText returns a value as a string, as Lua does: a number has up to 14 digits.
func luaText(v lua.LValue) string {
	if n, is := v.(lua.LNumber); is {
		return formatNumber(float64(n), 14)
	}
	return lua.LVAsString(v)
}

// checkText returns an argument of a function: a string, or a number as a string.
func checkText(l *lua.LState, n int) string {
	if v, is := l.Get(n).(lua.LNumber); is {
		return luaText(v)
	}
	return l.CheckString(n)
}

// formatNumber writes a number as the verb %g of C.
func formatNumber(f float64, digits int) string {
	switch {
	case math.IsNaN(f) && math.Signbit(f):
		return "-nan"
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'g', digits, 64)
}
