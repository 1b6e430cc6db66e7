package resp

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The functions here stand for functions of Lua's libraries without a bound of time or memory. Each
// string made by a script is charged to the script.

// charge counts n bytes of a string to be made, and ends the script if there are too many.
func (w *world) charge(n int) {
	if n > MaxString {
		w.l.RaiseError("a string of %d bytes is longer than %d", n, MaxString)
	}
	w.budget.charge(n / 256)
	if w.run == nil {
		return
	}
	if w.run.memory -= n; w.run.memory < 0 {
		w.l.RaiseError("the script makes more than %d bytes of strings", MaxScriptMemory)
	}
}

// charged counts a made string.
func (w *world) charged(s string) string {
	w.charge(len(s))
	return s
}

// concat is the operator "..".
func (w *world) concat(l *lua.LState) int {
	n := l.GetTop()
	parts := make([]string, n)
	size := 0
	for i := range parts {
		v := l.Get(i + 1)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("attempt to concatenate a %s value", v.Type())
		}
		parts[i] = luaText(v)
		size += len(parts[i])
	}
	w.charge(size)
	l.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// index returns its argument, a place in a table, unless the table would be too large. The array up
// to there may have to be made.
func (w *world) index(l *lua.LState) int {
	v := l.CheckAny(1)
	if n, is := v.(lua.LNumber); is && n > valuesPerInstruction {
		if n > maxTable {
			l.RaiseError("a table has more than %d items", maxTable)
		}
		w.budget.charge(int(n) / valuesPerInstruction)
	}
	l.Push(v)
	return 1
}

// spread returns its arguments: the values of "..." where there may be several.
func (w *world) spread(l *lua.LState) int {
	w.budget.charge(l.GetTop() / valuesPerInstruction)
	return l.GetTop()
}

func (w *world) toString(l *lua.LState) int {
	switch v := l.CheckAny(1).(type) {
	case lua.LString:
		l.Push(v)
	case lua.LNumber:
		l.Push(lua.LString(w.charged(luaText(v))))
	case *lua.LTable, *lua.LFunction, *lua.LUserData: // an address would tell something about the process
		l.Push(lua.LString(v.Type().String()))
	default:
		l.Push(lua.LString(w.charged(v.String())))
	}
	return 1
}

// toNumber is tonumber: a number in decimal or 0x notation, or a whole number with a base.
func toNumber(l *lua.LState) int {
	v := l.CheckAny(1)
	if base := l.Get(2); base != lua.LNil && base != lua.LNumber(10) {
		b := l.CheckInt(2)
		if b < 2 || b > 36 {
			l.ArgError(2, "base out of range")
		}
		n, err := strconv.ParseInt(strings.TrimSpace(l.CheckString(1)), b, 64)
		if err != nil {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(n))
		return 1
	}
	switch v := v.(type) {
	case lua.LNumber:
		l.Push(v)
	case lua.LString:
		if n, ok := parseLua(string(v)); ok {
			l.Push(lua.LNumber(n))
			return 1
		}
		l.Push(lua.LNil)
	default:
		l.Push(lua.LNil)
	}
	return 1
}

func parseLua(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if len(text) > 64 || strings.ContainsAny(text, "_pPnNiI") {
		return 0, false
	}
	if digits := strings.ToLower(strings.TrimLeft(text, "+-")); strings.HasPrefix(digits, "0x") {
		n, err := strconv.ParseInt(strings.Replace(strings.ToLower(text), "0x", "", 1), 16, 64)
		return float64(n), err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil || math.IsInf(n, 0)
}

func (w *world) rep(l *lua.LState) int {
	s, n := checkText(l, 1), max(l.CheckInt(2), 0)
	if len(s) > 0 && n > MaxString/len(s) {
		l.RaiseError("a string is longer than %d bytes", MaxString)
	}
	if len(s) == 0 {
		n = 0
	}
	w.charge(len(s) * n)
	l.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func (w *world) lower(l *lua.LState) int { return w.mapped(l, 'A', 'Z', 'a'-'A') }
func (w *world) upper(l *lua.LState) int { return w.mapped(l, 'a', 'z', 'A'-'a'+256) }

// mapped returns its argument with the bytes from first to last moved.
func (w *world) mapped(l *lua.LState, first, last byte, by int) int {
	b := []byte(w.charged(checkText(l, 1)))
	for i, c := range b {
		if first <= c && c <= last {
			b[i] = byte(int(c) + by)
		}
	}
	l.Push(lua.LString(b))
	return 1
}

func (w *world) reverse(l *lua.LState) int {
	s := w.charged(checkText(l, 1))
	b := make([]byte, len(s))
	for i := range len(s) {
		b[len(s)-1-i] = s[i]
	}
	l.Push(lua.LString(b))
	return 1
}

// find is string.find for plain texts.
func find(l *lua.LState) int {
	s, what, from := checkText(l, 1), checkText(l, 2), l.OptInt(3, 1)
	if !lua.LVAsBool(l.Get(4)) && strings.ContainsAny(what, "^$*+?.([%-") {
		return noPatterns(l)
	}
	if from < 0 {
		from = max(len(s)+from+1, 1)
	}
	from = max(from, 1) - 1
	if from > len(s) {
		l.Push(lua.LNil)
		return 1
	}
	at := strings.Index(s[from:], what)
	if at < 0 {
		l.Push(lua.LNil)
		return 1
	}
	l.Push(lua.LNumber(from + at + 1))
	l.Push(lua.LNumber(from + at + len(what)))
	return 2
}

// noPatterns stands for the functions with patterns: a pattern can take time without end in an
// instruction, and no lock client is known to need patterns.
func noPatterns(l *lua.LState) int {
	l.RaiseError("patterns aren't offered to scripts; string.find with a plain text is, and string.sub")
	return 0
}

// format is string.format with the verbs of Lua, and widths of up to two digits.
func (w *world) format(l *lua.LState) int {
	pattern := checkText(l, 1)
	var b strings.Builder
	arg := 1
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		if i++; i < len(pattern) && pattern[i] == '%' {
			b.WriteByte('%')
			continue
		}
		start := i
		for i < len(pattern) && strings.IndexByte("-+ #0", pattern[i]) >= 0 {
			i++
		}
		for range 2 {
			if i < len(pattern) && '0' <= pattern[i] && pattern[i] <= '9' {
				i++
			}
		}
		if i < len(pattern) && pattern[i] == '.' {
			i++
			for range 2 {
				if i < len(pattern) && '0' <= pattern[i] && pattern[i] <= '9' {
					i++
				}
			}
		}
		if i >= len(pattern) || i-start > 8 {
			l.RaiseError("invalid format (width or precision too long, or no verb)")
		}
		arg++
		verb, flags := pattern[i], "%"+pattern[start:i]
		switch verb {
		case 'd', 'i':
			fmt.Fprintf(&b, flags+"d", truncate(float64(l.CheckNumber(arg))))
		case 'u', 'x', 'X', 'o':
			if verb == 'u' {
				verb = 'd'
			}
			flags = strings.NewReplacer("+", "", " ", "").Replace(flags) // an unsigned number has no sign
			fmt.Fprintf(&b, flags+string(verb), unsigned(float64(l.CheckNumber(arg))))
		case 'c':
			b.WriteByte(byte(l.CheckInt(arg)))
		case 'e', 'E', 'f', 'g', 'G':
			f := float64(l.CheckNumber(arg))
			if math.IsInf(f, 0) || math.IsNaN(f) {
				b.WriteString(formatNumber(f, 1))
				break
			}
			if verb|0x20 == 'g' && !strings.Contains(flags, ".") {
				flags += ".6"
			}
			fmt.Fprintf(&b, flags+string(verb), f)
		case 's':
			fmt.Fprintf(&b, flags+"s", checkText(l, arg))
		case 'q':
			b.WriteString(`"` + quoted.Replace(checkText(l, arg)) + `"`)
		default:
			l.RaiseError("invalid option '%%%s' to 'format'", clip(string(verb)))
		}
		if b.Len() > MaxString {
			break
		}
	}
	l.Push(lua.LString(w.charged(b.String())))
	return 1
}

// quoted writes a string as the verb %q of Lua.
var quoted = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`)

// unsigned converts a number as C does on common machines: a negative number becomes a large one.
func unsigned(f float64) uint64 {
	if f >= 1<<63 && f < 1<<64 {
		return uint64(f)
	}
	return uint64(truncate(f))
}

func (w *world) tableConcat(l *lua.LState) int {
	t, sep := l.CheckTable(1), l.OptString(2, "")
	from, to := l.OptInt(3, 1), l.OptInt(4, t.Len())
	if to > maxTable || from < 1 {
		l.RaiseError("a table has more than %d items", maxTable)
	}
	var parts []string
	size := 0
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		text := luaText(v)
		if size += len(text) + len(sep); size > MaxString+len(sep) {
			break
		}
		parts = append(parts, text)
	}
	w.budget.charge(len(parts))
	w.charge(max(size-len(sep), 0))
	l.Push(lua.LString(strings.Join(parts, sep)))
	return 1
}

// tableInsert is table.insert. The tables that scripts share have metatables, and a script's own
// have none.
func tableInsert(l *lua.LState) int {
	t := l.CheckTable(1)
	if t.Metatable != lua.LNil {
		l.RaiseError(errReadOnly)
	}
	n := t.Len()
	if n >= maxTable {
		l.RaiseError("a table has more than %d items", maxTable)
	}
	switch l.GetTop() {
	case 2:
		t.Append(l.Get(2))
	case 3:
		at := l.CheckInt(2)
		if at < 1 || at > n+1 {
			l.ArgError(2, "position out of bounds")
		}
		t.Insert(at, l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

// tableSort is table.sort. It takes as long as so many instructions, also where no function of the
// script compares.
func (w *world) tableSort(l *lua.LState) int {
	t := l.CheckTable(1)
	n := t.Len()
	w.budget.charge(n * 4)
	l.Insert(w.sortFunc, 1)
	l.Call(l.GetTop()-1, 0)
	return 0
}
