package resp

import (
	"context"
	"errors"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

const (
	// maxTable is the largest number for a place in a table, and so bounds the
	// memory of the table's array: as many as a request has words.
	maxTable = MaxArgs

	// maxCalls is how deep functions of a script may call each other.
	maxCalls = 64

	// maxRegistry is how many values the calls of a script may have at a time: arguments, local
	// variables and results.
	maxRegistry = 8192

	// valuesPerInstruction is how many values a function handles in the time of an instruction, and
	// so how fast a script can fill memory with values.
	valuesPerInstruction = 32

	// contextPause is how many instructions run between two looks at the context of the call.
	contextPause = 256
)

// world is a Lua state for a script at a time: the functions offered to scripts, and nothing else.
// It has no files, clock, random numbers or network, loads no code, and no script can change the
// world of the next script: everything shared is read-only, and metatables aren't offered.
type world struct {
	l        *lua.LState
	shared   *lua.LTable // the global variables
	env      *lua.LTable // the view of a script
	sortFunc lua.LValue  // of gopher-lua
	budget   budget
	run      *run
}

// worlds are states for scripts to come. A state isn't used again after a failed script.
var worlds = sync.Pool{New: func() any { return newWorld() }}

func newWorld() *world {
	w := &world{l: lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: maxCalls, MinimizeStackMemory: true,
		RegistrySize: 256, RegistryGrowStep: 256, RegistryMaxSize: maxRegistry,
	})}
	l := w.l
	w.shared = w.library(lua.OpenBase, "",
		[]string{"assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "select", "type", "unpack"},
		map[string]lua.LGFunction{
			"tonumber": toNumber, "tostring": w.toString, concatName: w.concat, indexName: w.index, spreadName: w.spread,
		})
	w.count(w.shared, "select", "unpack")
	texts := w.library(lua.OpenString, lua.StringLibName, []string{"byte", "char", "len", "sub"}, map[string]lua.LGFunction{
		"find": find, "format": w.format, "lower": w.lower, "rep": w.rep, "reverse": w.reverse, "upper": w.upper,
		"gmatch": noPatterns, "gsub": noPatterns, "match": noPatterns,
	})
	w.count(texts, "byte")
	for _, name := range []string{"byte", "len", "sub"} {
		do := texts.RawGetString(name).(*lua.LFunction).GFunction
		texts.RawSetString(name, l.NewFunction(func(l *lua.LState) int {
			if n, is := l.Get(1).(lua.LNumber); is {
				l.Replace(1, lua.LString(luaText(n))) // gopher-lua would write more digits
			}
			return do(l)
		}))
	}
	tables := w.library(lua.OpenTable, lua.TabLibName, []string{"getn", "remove"}, map[string]lua.LGFunction{
		"concat": w.tableConcat, "insert": tableInsert, "sort": w.tableSort,
	})
	w.sortFunc = w.library(lua.OpenTable, lua.TabLibName, []string{"sort"}, nil).RawGetString("sort")
	numbers := w.library(lua.OpenMath, lua.MathLibName,
		[]string{"abs", "ceil", "floor", "fmod", "huge", "max", "min", "mod", "modf", "pi", "pow", "sqrt"}, nil)
	for name, lib := range map[string]*lua.LTable{"string": texts, "table": tables, "math": numbers, "redis": w.redis()} {
		w.shared.RawSetString(name, w.readOnly(lib, false))
	}
	w.env = w.readOnly(w.shared, true)
	w.shared.RawSetString("_G", w.env)
	w.shared.RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	methods := l.NewTable() // of strings: s:len()
	methods.RawSetString("__index", texts)
	l.SetMetatable(lua.LString(""), methods)
	l.SetContext(&w.budget)
	return w
}

// library returns a table with some functions of a library, and with functions of this package.
func (w *world) library(open lua.LGFunction, name string, theirs []string, own map[string]lua.LGFunction) *lua.LTable {
	l := w.l
	l.Push(l.NewFunction(open))
	l.Push(lua.LString(name))
	l.Call(1, 1)
	all := l.CheckTable(-1)
	l.Pop(1)
	lib := l.NewTable()
	for _, f := range theirs {
		lib.RawSetString(f, all.RawGetString(f))
	}
	for f, do := range own {
		lib.RawSetString(f, l.NewFunction(do))
	}
	return lib
}

// count has functions of a library charge for many returned values.
func (w *world) count(lib *lua.LTable, names ...string) {
	for _, name := range names {
		do := lib.RawGetString(name).(*lua.LFunction).GFunction
		lib.RawSetString(name, w.l.NewFunction(func(l *lua.LState) int {
			n := do(l)
			w.budget.charge(n / valuesPerInstruction)
			return n
		}))
	}
}

// errReadOnly is the text of Redis.
const errReadOnly = "Attempt to modify a readonly table"

// readOnly returns an unchangeable view of another table. With strict, reading an absent value is
// an error, as with the global variables of Redis.
func (w *world) readOnly(shown *lua.LTable, strict bool) *lua.LTable {
	l := w.l
	if strict {
		absent := l.NewTable()
		absent.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
			l.RaiseError("Script attempted to access nonexistent global variable '%s'", clip(lua.LVAsString(l.Get(2))))
			return 0
		}))
		shown.Metatable = absent
	}
	meta := l.NewTable()
	meta.RawSetString("__index", shown)
	meta.RawSetString("__newindex", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError(errReadOnly)
		return 0
	}))
	shows := l.NewTable()
	shows.Metatable = meta
	return shows
}

// run runs the script with keys and arguments.
func (s *script) run(r *run, keys, argv []string) reply {
	w := worlds.Get().(*world)
	l := w.l
	w.run = r
	w.budget.reset(r.ctx)
	w.shared.RawSetString("KEYS", w.listOf(keys))
	w.shared.RawSetString("ARGV", w.listOf(argv))
	f := l.NewFunctionFromProto(s.proto)
	f.Env = w.env
	l.Push(f)
	if err := l.PCall(0, 1, nil); err != nil {
		w.run = nil
		return w.failureOf(err)
	}
	answer, err := w.reply(l.Get(-1))
	l.SetTop(0)
	w.run = nil
	if err != nil {
		return failf("ERR %v", err)
	}
	w.budget.reset(context.Background())
	w.shared.RawSetString("KEYS", lua.LNil)
	w.shared.RawSetString("ARGV", lua.LNil)
	worlds.Put(w)
	return answer
}

// listOf returns words as a table.
func (w *world) listOf(words []string) *lua.LTable {
	t := w.l.CreateTable(len(words), 0)
	for i, word := range words {
		t.RawSetInt(i+1, lua.LString(word))
	}
	return t
}

// failureOf returns the answer to a failed script.
func (w *world) failureOf(err error) failure {
	if e := w.budget.Err(); e != nil && !errors.Is(e, context.Canceled) {
		return failf("ERR the script was ended: %v", e)
	}
	var why *lua.ApiError
	if !errors.As(err, &why) {
		return failf("ERR %v", err)
	}
	if t, is := why.Object.(*lua.LTable); is {
		if text, is := t.RawGetString("err").(lua.LString); is {
			return failf("%s", text)
		}
		return failure("ERR the script has failed with a table")
	}
	if why.Object != nil && why.Object != lua.LNil {
		return failf("ERR %s", lua.LVAsString(why.Object))
	}
	return failf("ERR the script has failed: %v", err)
}

var errTooLong = errors.New("it ran more instructions than a script of a lock takes, see resp.MaxInstructions")

// budget is the context of a Lua state. The state asks for Done before each instruction, and so
// instructions are counted; gopher-lua offers no other count. A used-up budget stays so: a script
// that catches the error gets the error again with its next instruction.
type budget struct {
	context.Context
	left  int
	pause int // instructions until the next look at the context
	err   error
}

var usedUp = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (b *budget) reset(ctx context.Context) {
	*b = budget{Context: ctx, left: MaxInstructions, pause: contextPause}
}

// Done implements [context.Context]. A nil channel is never ready.
func (b *budget) Done() <-chan struct{} {
	b.left--
	if b.pause--; b.pause <= 0 && b.err == nil {
		b.pause = contextPause
		b.err = b.Context.Err()
	}
	if b.left < 0 && b.err == nil {
		b.err = errTooLong
	}
	if b.err != nil {
		return usedUp
	}
	return nil
}

// Err implements [context.Context].
func (b *budget) Err() error { return b.err }

// charge counts the work of a function as n instructions.
func (b *budget) charge(n int) { b.left -= n }
