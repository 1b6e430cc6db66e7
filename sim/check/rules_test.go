package check

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// found collects the rules that a check reports.
type found []string

func (f *found) report(rule, format string, args ...any) {
	_ = fmt.Sprintf(format, args...)
	*f = append(*f, rule)
}

func (f *found) want(t *testing.T, rules ...string) {
	t.Helper()
	if !slices.Equal(*f, rules) {
		t.Errorf("the check reports %q, want %q", *f, rules)
	}
	*f = nil
}

// lease is an exclusive lease of node a, held from 1 s to 10 s with a token block from 100 on.
func lease(change func(*Lease)) *Lease {
	r := &Lease{
		Node: "a", Key: "k", Mode: vote.Exclusive, Number: 1, Alias: 1, State: Granted, Token: 100, Last: 100 + vote.BlockSize - 1,
		Asked: time.Second, Had: time.Second, EndAt: Moment(10 * time.Second), Owner: vote.SessionID{Node: "a", Incarnation: 1},
	}
	if change != nil {
		change(r)
	}
	return r
}

// shared, and permit in the given slot, change a lease's mode.
func shared(r *Lease) { r.Mode = vote.Shared }

func permit(slot vote.Slot) func(*Lease) {
	return func(r *Lease) { r.Mode, r.Slot, r.Permits = vote.Permit, slot, 3 }
}

func TestExclusion(t *testing.T) {
	writer, reader := lease(nil), lease(shared)
	for _, row := range []struct {
		name       string
		is         *Lease
		held, over []*Lease
		want       []string
	}{
		{"a free key", lease(nil), nil, nil, nil},
		{"a writer beside a writer", lease(nil), []*Lease{writer}, nil, []string{RuleExclusion}},
		{"a reader beside a writer", lease(shared), []*Lease{writer}, nil, []string{RuleExclusion}},
		{"a reader beside a reader", lease(shared), []*Lease{reader}, nil, nil},
		{"an upgrade beside its base", lease(func(r *Lease) { r.Base = reader }), []*Lease{reader}, nil, nil},
		{"an upgrade beside another reader", lease(func(r *Lease) { r.Base = reader }), []*Lease{reader, lease(shared)}, nil, []string{RuleExclusion}},
		{"a permit in a slot of its own", lease(permit(2)), []*Lease{lease(permit(1))}, nil, nil},
		{"a permit in a slot that is held", lease(permit(2)), []*Lease{lease(permit(2))}, nil, []string{RuleExclusion}},
		{"a permit in no slot", lease(permit(0)), nil, nil, []string{RuleExclusion}},
		{"a permit beyond the size", lease(permit(4)), nil, nil, []string{RuleExclusion}},
		{"a lapsed lease that rests", lease(nil), nil, []*Lease{lease(func(r *Lease) { r.EndAt, r.Delay = Moment(time.Second), 5*time.Second })}, []string{RuleRest}},
		{"a lapsed lease that has rested", lease(nil), nil, []*Lease{lease(func(r *Lease) { r.EndAt, r.Delay = 0, time.Second })}, nil},
		{"a lease given back", lease(nil), nil, []*Lease{lease(func(r *Lease) { r.Given, r.Delay = true, 5*time.Second })}, nil},
		{"a minimum hold of a lease given back", lease(nil), nil, []*Lease{lease(func(r *Lease) { r.Given, r.MinHold = true, 5*time.Second })}, []string{RuleRest}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f found
			x := Exclusion{Report: f.report}
			n := x.Granted(Moment(2*time.Second), row.is, left(row.held), slices.Values(row.over))
			f.want(t, row.want...)
			x.TokensOnly = true
			if again := x.Granted(Moment(2*time.Second), row.is, left(row.held), slices.Values(row.over)); again != n {
				t.Errorf("%d overlaps beyond the assumptions, and %d within", again, n)
			}
			if row.is.Mode != vote.Permit || row.is.Slot > 0 && row.is.Slot <= 3 {
				f.want(t)
			}
		})
	}
}

func left(held []*Lease) iter.Seq2[*Lease, time.Duration] {
	return func(yield func(*Lease, time.Duration) bool) {
		for _, r := range held {
			if !yield(r, time.Second) {
				return
			}
		}
	}
}

// numbered returns a lease with a token block, asked for and granted at the given seconds.
func numbered(token vote.Token, asked, had int, change func(*Lease)) *Lease {
	r := lease(change)
	r.Token, r.Last = token, token+vote.BlockSize-1
	r.Asked, r.Had = time.Duration(asked)*time.Second, time.Duration(had)*time.Second
	return r
}

func TestTokens(t *testing.T) {
	const next = 100 + vote.BlockSize
	for _, row := range []struct {
		name   string
		leases []*Lease
		want   []string
	}{
		{"rising", []*Lease{numbered(100, 1, 1, nil), numbered(next, 2, 2, nil)}, nil},
		{"the same again", []*Lease{numbered(100, 1, 1, nil), numbered(100, 2, 2, nil)}, []string{RuleTokens}},
		{"within the block before", []*Lease{numbered(100, 1, 1, nil), numbered(next-1, 2, 2, nil)}, []string{RuleTokens}},
		{"readers at once", []*Lease{numbered(next, 1, 2, shared), numbered(100, 1, 3, shared)}, nil},
		{"a reader that asked after the grant of another", []*Lease{numbered(next, 1, 2, shared), numbered(100, 3, 4, shared)}, []string{RuleTokens}},
		{"readers with one block", []*Lease{numbered(100, 1, 2, shared), numbered(101, 1, 3, shared)}, []string{RuleTokens}},
		{"a writer below a reader", []*Lease{numbered(next, 1, 2, shared), numbered(100, 1, 3, nil)}, []string{RuleTokens}},
		{"permits in two slots", []*Lease{numbered(next, 1, 2, permit(1)), numbered(100, 1, 3, permit(2))}, nil},
		{"permits in one slot", []*Lease{numbered(next, 1, 2, permit(1)), numbered(100, 1, 3, permit(1))}, []string{RuleTokens}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f found
			tokens := Tokens{Report: f.report}
			for _, r := range row.leases {
				tokens.Granted(r.Had, r)
			}
			f.want(t, row.want...)
		})
	}
}

// handedOff returns the lease after r in the same block, for another caller of the node.
func handedOff(r *Lease, by vote.Token) *Lease {
	o := *r
	o.Number, o.Token, o.Asked, o.Had = r.Number+1, r.Token+by, r.Had, r.Had+time.Second
	return &o
}

func TestTokensOfHandOffs(t *testing.T) {
	var f found
	tokens := Tokens{Report: f.report}
	first := numbered(100, 1, 1, nil)
	tokens.Granted(first.Had, first)
	second := handedOff(first, 1)
	tokens.Granted(second.Had, second)
	f.want(t)
	tokens.Granted(second.Had, handedOff(second, 2))
	f.want(t, RuleTokens)
}

func TestAnExcuseIsUsedUp(t *testing.T) {
	var f found
	tokens := Tokens{Report: f.report}
	tokens.Granted(time.Second, numbered(10_000, 1, 1, nil))
	tokens.Excused = true
	if rise := tokens.Granted(2*time.Second, numbered(100, 2, 2, nil)); rise != (Rise{Behind: true, Excused: true}) {
		t.Errorf("a lease after the last resort is %+v", rise)
	}
	f.want(t)
	tokens.Granted(3*time.Second, numbered(50, 3, 3, nil))
	f.want(t, RuleTokens)
}

func TestResource(t *testing.T) {
	first, second := numbered(100, 1, 2, nil), numbered(200, 3, 4, nil)
	early := numbered(300, 1, 2, nil) // granted before second was asked for
	for _, row := range []struct {
		name   string
		writes []*Lease
		held   bool
		taken  bool // the last write
		want   []string
	}{
		{"in order", []*Lease{first, second}, true, true, nil},
		{"late", []*Lease{second, first}, false, false, nil},
		{"late, and its holder holds the key", []*Lease{second, first}, true, false, []string{RuleResource}},
		{"the same lease twice", []*Lease{first, first}, true, true, nil},
		{"two leases of one token", []*Lease{first, numbered(100, 1, 2, nil)}, true, true, []string{RuleResource}},
		{"a larger token of the older lease", []*Lease{second, early}, true, true, []string{RuleResource}},
		{"a smaller token of the newer lease", []*Lease{early, second}, false, false, []string{RuleResource}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f found
			s := Resource{Report: f.report}
			taken := false
			for _, r := range row.writes {
				taken = s.Write(r, row.held)
			}
			if f.want(t, row.want...); taken != row.taken {
				t.Errorf("the last write is accepted: %v, want %v", taken, row.taken)
			}
		})
	}
}

func TestResourceReads(t *testing.T) {
	var f found
	s := Resource{Report: f.report}
	s.Write(numbered(200, 3, 4, nil), true)
	if s.Read(numbered(100, 1, 2, shared), false) || !s.Read(numbered(300, 5, 6, shared), true) {
		t.Error("a reader from before the write is served, or one from after isn't")
	}
	f.want(t)
	s.Read(numbered(100, 1, 2, shared), true)
	f.want(t, RuleResource)
}

func TestLength(t *testing.T) {
	for _, row := range []struct {
		now, end, fixed vote.Instant
		want            []string
	}{
		{0, 10, 0, nil}, {0, 11, 0, []string{RuleLength}}, {5, 15, 0, nil}, {5, 15, 12, []string{RuleLength}}, {5, 12, 12, nil},
	} {
		var f found
		Length(f.report, lease(nil), row.now, row.end, row.fixed, 10)
		f.want(t, row.want...)
	}
}

func TestIdle(t *testing.T) {
	idle := Idle{AtMost: time.Second}
	waits := func(change func(*Lease)) *Lease {
		r := lease(change)
		r.State = Waiting
		return r
	}
	lapsed := func(r *Lease) { r.State, r.EndAt = Lost, 0 }
	for _, row := range []struct {
		name          string
		waits, leases []*Lease
		want          bool
	}{
		{"without a waiter", nil, nil, false},
		{"a free key", []*Lease{waits(nil)}, nil, true},
		{"a held key", []*Lease{waits(nil)}, []*Lease{lease(nil)}, false},
		{"a reader beside a reader", []*Lease{waits(shared)}, []*Lease{lease(shared)}, true},
		{"a reader behind a writer that waits", []*Lease{waits(nil), waits(shared)}, []*Lease{lease(shared)}, false},
		{"a lease that has just lapsed", []*Lease{waits(nil)}, []*Lease{lease(lapsed)}, true},
		{"a lapsed lease with a delay", []*Lease{waits(nil)}, []*Lease{lease(func(r *Lease) { lapsed(r); r.Delay = 10 * time.Second })}, false},
		{"a permit of three", []*Lease{waits(permit(0))}, []*Lease{lease(permit(1)), lease(permit(2))}, true},
		{"no permit left", []*Lease{waits(permit(0))}, []*Lease{lease(permit(1)), lease(permit(2)), lease(permit(3))}, false},
	} {
		if got := idle.HasRoom(Moment(3*time.Second), row.waits, row.leases); got != row.want {
			t.Errorf("%s has room: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestOrder(t *testing.T) {
	old := numbered(100, 1, 0, nil)
	old.State = Waiting
	young := func(change func(*Lease)) *Lease { return numbered(200, 5, 6, change) }
	for _, row := range []struct {
		name  string
		r     *Lease
		o     *Lease
		apart time.Duration
		calm  bool
		want  Overtaken
		rules []string
	}{
		{"within the error of clocks", young(nil), old, 4 * time.Second, true, OvertakenFairly, nil},
		{"after trouble", young(nil), old, time.Second, false, OvertakenInTrouble, nil},
		{"wrongly", young(nil), old, time.Second, true, OvertakenWrongly, []string{RuleOrder}},
		{"readers that both may have the key, and one is forgotten", young(shared), lease(func(r *Lease) { shared(r); r.State = Waiting }), time.Second, true, OvertakenFairly, []string{RuleOrder}},
		{"readers that both have the key soon", young(shared), lease(shared), time.Second, true, OvertakenFairly, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f found
			c := Order{
				Apart: row.apart, Calm: func(time.Duration) bool { return row.calm }, WellSince: func() Moment { return 0 },
				Soon: func(f func()) { f() }, Report: f.report,
			}
			if got := c.Overtakes(row.r, row.o, func() time.Duration { return 0 }); got != row.want {
				t.Errorf("overtaken %v, want %v", got, row.want)
			}
			f.want(t, row.rules...)
			c.Lenient = true
			if got := c.Overtakes(row.r, row.o, nil); got != OvertakenFairly {
				t.Errorf("beyond the assumptions overtaken %v", got)
			}
		})
	}
	c := Order{}
	if unfit := lease(func(r *Lease) { permit(0)(r); r.Permits = 4 }); c.IsPassed(young(permit(1)), unfit) || !c.IsPassed(young(nil), old) || c.IsPassed(old, young(nil)) {
		t.Error("a request that is going to be refused, or a younger request, is overtaken; or an older one isn't")
	}
}
