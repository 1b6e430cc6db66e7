package explore

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/explore/internal/deep"
)

// TestLookingUpIsLivingThrough takes random walks in explored worlds, and has real nodes make the
// same steps: the explorer's outcomes must match the nodes. A mismatch shows that the encoder
// leaves out a field that matters.
func TestLookingUpIsLivingThrough(t *testing.T) {
	sampled.Computes(t)
	clocks := map[string]time.Duration{"a": ahead}
	for name, o := range map[string]Options{
		"apart":    {Locks: []int{2, 1}, Ticks: 8, Breaks: 3, Crashes: 2, Late: 4, SeparateClients: true, Crash: []string{"a", "b", "x"}, Abandon: true, Try: true},
		"prompt":   {Locks: []int{2, 2}, Ticks: 9, Breaks: 3, Crashes: 3, Late: 4, Prompt: true, Crash: []string{"a", "b", "c"}, Abandon: true, Try: true},
		"clocks":   {Locks: []int{2, 2}, Ticks: 9, Breaks: 3, Crashes: 3, Late: 4, Prompt: true, SeparateClients: true, Wall: clocks},
		"two keys": {Keys: 2, Locks: []int{2, 3}, Ticks: 9, Breaks: 3, Crashes: 3, Late: 4, Prompt: true, Abandon: true, Try: true},
		"five":     {Voters: 5, Locks: []int{2, 2}, Ticks: 9, Breaks: 3, Crashes: 3, Late: 4, Prompt: true},
		"shared": {
			Locks: []int{3, 3, 2}, Modes: readers, Ticks: 9, Breaks: 3, Crashes: 3, Late: 4, Prompt: true, Abandon: true, Try: true, Upgrade: true, Downgrade: true,
		},
		"permits":    {Locks: []int{2, 2, 2}, Modes: permits, Permits: 2, Ticks: 9, Breaks: 3, Crashes: 2, Late: 4, Abandon: true, Try: true, SeparateClients: true},
		"lengths":    {Locks: []int{2, 2}, Length: 2 * Tick, Delay: Tick, MinHold: Tick, Ticks: 9, Breaks: 3, Crashes: 2, Late: 4, Prompt: true},
		"from birth": {Locks: []int{1, 1}, Ticks: 9, Breaks: 2, Crashes: 1, Late: 3, Prompt: true, Cold: true},
	} {
		t.Run(name, func(t *testing.T) {
			walks := sampled.Count(10, 40)
			o.MaxStates = 1000
			if sampled.Raced {
				walks, o.MaxStates = 4, 100
			}
			x, err := newExplorer(o)
			if err != nil {
				t.Fatal(err)
			}
			first, err := x.begin()
			if err != nil {
				t.Fatal(err)
			}
			x.search(first)
			if x.report.Violation != nil {
				t.Fatal(x.report.Violation)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			inputs := 0
			for range walks {
				inputs += x.walkWithShadows(t, first, rng, 50)
			}
			if inputs < 35*walks {
				t.Errorf("only %d inputs were compared", inputs)
			}
		})
	}
}

func (x *explorer) walkWithShadows(t *testing.T, s state, rng *rand.Rand, length int) (compared int) {
	shadows := map[uint8]*host{}
	for n, st := range s.nodes {
		if st != 0 {
			shadows[uint8(n)] = x.locals.copy(st)
		}
	}
	x.watch = func(o input, found *outcome) {
		compared++
		h, lived := x.act(shadows[o.node], o)
		shadows[o.node] = h
		lived.next = x.locals.intern(h, occurrence{on: o})
		if !reflect.DeepEqual(lived, found) {
			t.Fatalf("%s: input %+v: looked up %+v, lived through %+v", x.names[o.node], o, found, lived)
		}
	}
	defer func() { x.watch = nil }()
	for length > 0 {
		todo := x.steps(&s, nil)
		if p, ok := x.prompt(&s); ok {
			todo = []Step{p}
			if s.late > 0 && rng.IntN(10) == 0 {
				todo[0] = x.delay(&s, p)
			}
		} else {
			length--
		}
		if len(todo) == 0 {
			break
		}
		st := todo[rng.IntN(len(todo))]
		if again := todo[rng.IntN(len(todo))]; st.kind == stepBreak || st.kind == stepCrash || st.kind == stepTick {
			st = again // these steps are many, and use up their limits too early
		}
		if wrong := x.apply(&s, st); wrong != "" {
			t.Fatal(wrong)
		}
		if st.kind == stepCrash {
			delete(shadows, st.a)
		}
	}
	return compared
}

// spaces are small, and together contain every kind of step.
var spaces = map[string]Options{
	"orders":        {Locks: []int{1, 1}, Begin: []string{"lock a k"}},
	"apart":         {SeparateClients: true, Locks: []int{1, 0}, Ticks: 1, Late: 1},
	"apart, breaks": {SeparateClients: true, Locks: []int{1, 1}, Ticks: 2, Breaks: 1, Prompt: true, Break: []string{"x-a", "x-b", "x-c"}},
	"apart, late":   {SeparateClients: true, Locks: []int{1, 1}, Ticks: 1, Late: 1, Prompt: true},
	"crashes":       {SeparateClients: true, Locks: []int{1, 1}, Ticks: 1, Crashes: 1, Prompt: true},
	"restarts":      {SeparateClients: true, Locks: []int{1, 0}, Ticks: 5, Crashes: 1, Prompt: true, Crash: []string{"a", "b", "c"}},
	"clocks":        {Locks: []int{1, 0}, Ticks: 5, Crashes: 1, Prompt: true, Crash: []string{"c"}, Wall: map[string]time.Duration{"a": ahead}},
	"two keys":      {Keys: 2, Locks: []int{1, 1}, Ticks: 1, Breaks: 1, Prompt: true, Keep: true, Crash: []string{}, Break: []string{"a-b", "a-c"}},
	"tries":         {Locks: []int{1, 1}, Ticks: 3, Prompt: true, Abandon: true, Try: true},
	"five":          {Voters: 5, Locks: []int{1, 1}, Crashes: 1, Prompt: true, Crash: []string{"c", "d", "e"}},
	"readers":       {Locks: []int{1, 1, 1}, Modes: readers, Breaks: 1, Prompt: true, Break: []string{"a-b", "c-a"}, Crash: []string{}},
	"permits":       {Locks: []int{1, 1, 1}, Modes: permits, Permits: 2, SeparateClients: true, Breaks: 1, Prompt: true, Break: []string{"x-a", "x-b", "x-c"}},
	"permits, late": {Locks: []int{1, 1}, Modes: permits[:2], Permits: 1, SeparateClients: true, Ticks: 1, Late: 1, Prompt: true},
	"upgrades":      {Locks: []int{2, 2}, Modes: readers[:2], Upgrade: true, SeparateClients: true, Prompt: true},
	"lengths":       {Locks: []int{1, 1}, Length: 2 * Tick, Delay: Tick, MinHold: Tick, Ticks: 1, Breaks: 1, Prompt: true, Crash: []string{}, Break: []string{"a-b", "b-c"}},
	"downgrade":     {Locks: []int{1, 1}, Modes: readers[1:], Downgrade: true, Ticks: 1, Crashes: 1, Prompt: true, Crash: []string{"a", "c"}},
}

// TestReductionLosesNothing visits spaces twice: first as usual, then without exchanging voters,
// and with every field of every node told apart, counters and dead timers included. Both visits
// must meet the same states, up to the reduction's equivalence.
func TestReductionLosesNothing(t *testing.T) {
	sampled.Computes(t)
	for i, name := range slices.Sorted(maps.Keys(spaces)) {
		o := spaces[name]
		if !sampled.Case(i, 3) {
			continue
		}
		if sampled.Raced && !slices.Contains([]string{"apart", "restarts", "clocks"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, err := newExplorer(o)
			if err != nil {
				t.Fatal(err)
			}
			short := x.collect(t, x.hash)

			o.raw = true
			y, err := newExplorer(o)
			if err != nil {
				t.Fatal(err)
			}
			y.words, y.ranked = x.words, x.ranked
			long := y.collect(t, func(s *state) uint64 {
				y.perms = x.perms
				defer func() { y.perms = x.perms[:1] }()
				return y.hash(s)
			})
			t.Logf("%d states and %d of single nodes; raw, %d and %d; %d ways to exchange voters",
				x.report.States, x.report.Locals, y.report.States, y.report.Locals, len(x.perms))
			if len(short) != x.report.States {
				t.Errorf("%d states have %d hashes", x.report.States, len(short))
			}
			if !reflect.DeepEqual(short, long) {
				t.Errorf("%d states are met, %d without the reduction", len(short), len(long))
			}
		})
	}
}

// collect explores a space and returns the hashes of all states.
func (x *explorer) collect(t *testing.T, hash func(*state) uint64) map[uint64]bool {
	first, err := x.begin()
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]bool{}
	x.reached = func(s *state) { all[hash(s)] = true }
	x.search(first)
	x.report.Locals = len(x.locals.all) - 1
	switch {
	case x.report.Violation != nil:
		t.Fatal(x.report.Violation)
	case !x.report.Exhausted:
		t.Fatal("not exhausted")
	}
	return all
}

// TestExchangedVotersDoTheSame walks from a state along two paths that differ by an exchange of
// voters, and demands the same next states at all times, up to an exchange.
func TestExchangedVotersDoTheSame(t *testing.T) {
	sampled.Computes(t)
	for i, c := range []struct {
		name string
		Options
	}{
		{"every order", Options{SeparateClients: true, Locks: []int{2, 2}, Ticks: 6, Breaks: 3, Crashes: 3, Late: 4, Abandon: true, Try: true}},
		{"prompt", Options{SeparateClients: true, Locks: []int{2, 2}, Ticks: 8, Breaks: 4, Crashes: 3, Late: 3, Prompt: true}},
		{"five", Options{Voters: 5, Locks: []int{2, 2}, Ticks: 8, Breaks: 4, Crashes: 3, Late: 2, Prompt: true}},
		{"readers", Options{SeparateClients: true, Locks: []int{3, 3}, Modes: readers[1:], Upgrade: true, Downgrade: true, Ticks: 8, Breaks: 4, Crashes: 3, Late: 2, Prompt: true}},
		{"permits", Options{SeparateClients: true, Locks: []int{2, 2, 2}, Modes: permits, Permits: 2, Ticks: 8, Breaks: 4, Crashes: 2, Late: 2, Prompt: true}},
	} {
		if !sampled.Case(i, 4) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, err := newExplorer(c.Options)
			if err != nil {
				t.Fatal(err)
			}
			first, err := x.begin()
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			compared, apart := 0, 0
			// Few steps are an exchange, and the choice of steps depends on the hash of a voter's
			// state, so the test walks until enough states are compared.
			walks := 60
			if sampled.Raced {
				walks = 1
			}
			for walk := 0; walk < walks && (apart < 40 || walk < 4); walk++ {
				a, b := first, first
				for range 25 {
					as, bs := x.successors(&a), x.successors(&b)
					for h := range as {
						if len(bs[h]) == 0 {
							t.Fatalf("after an exchange of voters other things happen next")
						}
					}
					if len(as) != len(bs) {
						t.Fatalf("%d states can be next, and after an exchange of voters %d", len(as), len(bs))
					}
					if len(as) == 0 {
						break
					}
					compared++
					if a != b {
						apart++
					}
					h := slices.Sorted(maps.Keys(as))[rng.IntN(len(as))]
					a, b = as[h][0], bs[h][len(bs[h])-1]
				}
			}
			t.Logf("%d states compared, %d of them with voters exchanged", compared, apart)
			if apart < 40 && !sampled.Raced {
				t.Errorf("only %d states were compared", apart)
			}
		})
	}
}

// successors returns the states after one step and all prompt or late messages, by hash.
func (x *explorer) successors(s *state) map[uint64][]state {
	next := map[uint64][]state{}
	x.reached = func(s *state) { next[x.hash(s)] = append(next[x.hash(s)], *s) }
	defer func() { x.reached = nil }()
	for _, st := range x.steps(s, nil) {
		r := &search{x: x, ways: make([]way, 1), steps: []Step{st}}
		after := *s
		if x.apply(&after, st) == "" {
			r.settle(&after)
		}
	}
	return next
}

// TestRulesNameFields finds rules for fields that have been renamed.
func TestRulesNameFields(t *testing.T) {
	names := map[string]bool{}
	var visit func(t reflect.Type)
	seen := map[reflect.Type]bool{}
	visit = func(t reflect.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				names[t.String()+"."+t.Field(i).Name] = true
				visit(t.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[host]())
	visit(reflect.TypeFor[node.Node]())
	for _, all := range []map[string]rule{rules, forms} {
		for name := range all {
			if !names[name] {
				t.Errorf("the rule for %s is for no field", name)
			}
		}
	}
}

func TestCopiesShareNothing(t *testing.T) {
	type inner struct {
		n    int
		back *inner
		list []*inner
	}
	type outer struct {
		any    any
		byName map[string]*inner
		array  [2][]int
		text   string
	}
	in := &inner{n: 1}
	in.back = in
	in.list = []*inner{in, {n: 2}}
	from := &outer{any: in, byName: map[string]*inner{"x": in}, array: [2][]int{{1}, nil}, text: "t"}
	to := deep.Copy(from)
	if !reflect.DeepEqual(from, to) {
		t.Fatalf("%+v is not %+v", to, from)
	}
	c := to.byName["x"]
	if c == in || c.back != c || c.list[0] != c || to.any.(*inner) != c {
		t.Errorf("pointers that met don't meet in the copy")
	}
	c.n, c.list[1].n, to.array[0][0] = 7, 7, 7
	if in.n != 1 || in.list[1].n != 2 || from.array[0][0] != 1 {
		t.Errorf("the copy shares with what it was made from")
	}
}
