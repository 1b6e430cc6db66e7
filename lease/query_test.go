package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// shows collects a voter's answers to queries, by the nonces of the queries.
type shows struct {
	keys  map[uint64][]vote.Key
	ended map[uint64]bool
}

func (s *shows) hear(t *testing.T, out []vote.Outbound) {
	for _, o := range out {
		m := &o.Message
		if m.Kind != vote.KindQueryResult {
			continue
		}
		if s.ended[m.Nonce] {
			t.Fatalf("look %d is answered beyond its end", m.Nonce)
		}
		for _, sight := range m.Views {
			s.keys[m.Nonce] = append(s.keys[m.Nonce], sight.Key)
		}
		s.ended[m.Nonce] = m.End
	}
}

// While forty queries for all keys are under way, thirty of these over a single connection, no step
// costs more than the budget, a refresh costs next to nothing, and keys come and go. Each query
// returns, in order, every key that was held throughout.
func TestLooksAtAPrefixGiveWay(t *testing.T) {
	sampled.Computes(t)
	const keys = 10_000
	b := newBooth(t, 2)
	c, other := b.sessions[0], b.sessions[1]
	all := names(keys)
	for i, name := range all {
		b.ask(c, name)
		b.win(c)
		if i%5000 == 0 {
			b.refreshAll()
		}
	}
	seen := shows{make(map[uint64][]vote.Key), make(map[uint64]bool)}
	step := func(what string, most int, f func() []vote.Outbound) {
		t.Helper()
		if n := b.cost(func() { seen.hear(t, f()) }); n > most {
			t.Fatalf("%s costs %d", what, n)
		}
	}
	ask := func(conn vote.Conn, nonce uint64) {
		m := vote.Message{Kind: vote.KindQuery, Nonce: nonce, Prefix: true}
		step("a look", 2*taskBudget+64, func() []vote.Outbound {
			return b.v.Step(b.now, conn, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
		})
	}
	for i := range uint64(40) {
		ask(100+vote.Conn(max(30, i)), i+1)
	}
	for n := 0; len(seen.ended) < 40 || slices.Contains(values(seen.ended), false); n++ {
		if n > 40*keys {
			t.Fatalf("%d looks have ended", len(seen.ended))
		}
		b.now.Slow = b.now.Slow.Add(100 * time.Microsecond)
		step("a tick", Budget+64, func() []vote.Outbound { return b.v.Tick(b.now, nil) })
		if b.cost(func() { b.refresh(c); b.refresh(other) }) > 2*(taskBudget+64) {
			t.Fatal("a refresh has to wait")
		}
		if n%3 == 0 { // keys that come and go
			b.cycle(other, vote.Key(fmt.Sprintf("a-key-of-thirty-two-bytes-%06d+%d", n*7%keys, n)))
		}
	}
	for nonce, got := range seen.keys {
		if !slices.IsSorted(got) {
			t.Errorf("look %d isn't in order", nonce)
		}
		lasting := slices.DeleteFunc(got, func(k vote.Key) bool { return len(k) > 32 })
		if lasting = slices.Compact(lasting); !slices.Equal(lasting, all) {
			t.Errorf("look %d shows %d keys of %d", nonce, len(lasting), keys)
		}
	}
	// State kept for the queries is freed after the last query.
	for range 12 {
		b.pass(time.Second)
		b.refreshAll()
	}
	if b.v.keys.catalog.state != catalogNone || b.v.queries.any() {
		t.Errorf("the catalog is kept: %d queriers", len(b.v.queries.queriers))
	}
}

func values(m map[uint64]bool) (all []bool) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// A query for a prefix is cheap if few keys have the prefix, however many other keys there are.
func TestALookAtAPrefixCostsWhatItShows(t *testing.T) {
	b := newBooth(t, 1)
	c := b.sessions[0]
	for i, name := range append(names(5000), "p/1", "p/2") {
		b.ask(c, name)
		if i%2000 == 0 {
			b.refresh(c)
		}
	}
	look := func() int {
		m := vote.Message{Kind: vote.KindQuery, Nonce: 1, Prefix: true, Spec: vote.Spec{Key: "p/"}}
		return b.cost(func() {
			out := b.v.Step(b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
			for len(out) == 0 || !out[len(out)-1].Message.End {
				b.now.Slow = max(b.now.Slow, b.v.Next())
				out = b.v.Tick(b.now, out)
			}
		})
	}
	if first := look(); first < 5000 {
		t.Errorf("the first look costs %d, though it has to put all names in order", first)
	}
	if n := look(); n > 64 {
		t.Errorf("the second costs %d", n)
	}
}

// The catalog has all keys of the voter, whatever keys come and go during the build and afterwards.
func TestTheCatalogHasAllKeys(t *testing.T) {
	b := newBooth(t, 1)
	c := b.sessions[0]
	held := make(map[vote.Key]vote.Number)
	all := names(5000)
	take := func(i int) {
		name := all[i*7919%len(all)]
		if n, ok := held[name]; ok {
			b.giveBack(c, n)
			delete(held, name)
		} else {
			b.ask(c, name)
			held[name] = c.number
		}
	}
	for i := range 2000 {
		take(i)
	}
	b.v.needCatalog()
	for i := range 20_000 {
		take(i)
		if i%8 == 0 {
			b.now.Slow = b.now.Slow.Add(8 * time.Millisecond)
			b.hear(b.v.Tick(b.now, b.out[:0]))
		}
		if i%1000 == 0 {
			b.refresh(c)
			b.v.needCatalog()
		}
	}
	var got []vote.Key
	for _, block := range b.v.keys.catalog.blocks {
		if len(block) == 0 || len(block) >= blockMax {
			t.Errorf("a block of %d", len(block))
		}
		got = append(got, block...)
	}
	var want []vote.Key
	for name := range b.v.keys.byName.m {
		want = append(want, name)
	}
	slices.Sort(want)
	if len(want) == len(all) || len(want) < 100 || b.v.keys.catalog.state != catalogWhole || !slices.Equal(got, want) {
		t.Errorf("%d names in a catalog of state %d, %d keys", len(got), b.v.keys.catalog.state, len(want))
	}
}

// watchAll registers n watches.
func (b *booth) watchAll(n int, key func(int) vote.Key) {
	for i := range n {
		m := vote.Message{Kind: vote.KindWatch, Nonce: uint64(i + 1), Prefix: true, Incarnation: 9, Seq: b.v.news.seq, Spec: vote.Spec{Key: key(i)}}
		if out := b.v.Step(b.now, vote.Conn(100+i/1024), vote.SessionID{Node: "w", Incarnation: 1}, &m, nil); len(out) != 0 {
			b.tb.Fatalf("watch %d is answered: %+v", i, out[0])
		}
	}
}

// With 1,024 watches on each of 16 nodes, an event costs work for the matching watches only, and
// the voter serves other work between the matching watches.
func TestAnEventCostsTheWatchesThatWantIt(t *testing.T) {
	b := newBooth(t, 1)
	c := b.sessions[0]
	b.watchAll(1024, func(i int) vote.Key { return vote.Key(fmt.Sprintf("other/%d/", i)) })
	few := b.cost(func() { b.cycle(c, "k") })
	b.v.news.watchers = watchers{}
	b.watchAll(1<<14, func(i int) vote.Key { return vote.Key(fmt.Sprintf("other/%d/", i)) })
	if many := b.cost(func() { b.cycle(c, "k") }); many != few {
		t.Errorf("a lock that nobody watches costs %d beside 1,024 watches, and %d beside 16,384", few, many)
	}
	b.v.news.watchers = watchers{}
	b.watchAll(1<<14, func(i int) vote.Key { return vote.Key("k"[:i%2]) })
	told := make(map[uint64]bool)
	hear := func(out []vote.Outbound) {
		for _, o := range out {
			if m := &o.Message; m.Kind == vote.KindEvents {
				if told[uint64(o.Conn)<<32|m.Nonce] || len(m.Views) == 0 {
					t.Fatalf("told twice, or nothing: %+v", m)
				}
				told[uint64(o.Conn)<<32|m.Nonce] = true
			}
		}
	}
	c.number++
	m := vote.Message{Kind: vote.KindRequest, Stream: 1, Number: c.number, Spec: vote.Spec{Key: "k", Mode: vote.Exclusive}, Time: b.now.Wall}
	b.v.Step(b.now, c.conn, c.id, &m, nil)
	won := vote.Message{Kind: vote.KindConfirm, Stream: 1, Number: c.number, Serial: b.v.votes.serial, Token: b.v.keys.find("k").highest, Won: true}
	if n := b.cost(func() { hear(b.v.Step(b.now, c.conn, c.id, &won, nil)) }); n > taskBudget+64 {
		t.Errorf("the grant costs %d in one step", n)
	}
	for b.v.Busy() {
		if n := b.cost(func() { hear(b.v.Tick(b.now, nil)) }); n > Budget+64 {
			t.Fatalf("a tick costs %d", n)
		}
	}
	if len(told) != 1<<14 {
		t.Errorf("%d watches are told", len(told))
	}
}

func BenchmarkLookAtAll(b *testing.B) {
	for _, n := range []int{1000, 10_000, 60_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			t := newBooth(b, 1)
			for i, name := range names(n) {
				t.ask(t.sessions[0], name)
				if i%5000 == 0 {
					t.refreshAll()
				}
			}
			for b.Loop() {
				m := vote.Message{Kind: vote.KindQuery, Nonce: 1, Prefix: true}
				out := t.v.Step(t.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
				for len(out) == 0 || !out[len(out)-1].Message.End {
					t.now.Slow = max(t.now.Slow, t.v.Next())
					out = t.v.Tick(t.now, out[:0])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
		})
	}
}

func BenchmarkLockBesideWatches(b *testing.B) {
	for _, n := range []int{0, 1024, 1 << 14} {
		b.Run(fmt.Sprintf("watches=%d", n), func(b *testing.B) {
			t := newBooth(b, 1)
			t.watchAll(n, func(i int) vote.Key { return vote.Key(fmt.Sprintf("other/%d/", i)) })
			for i := 0; b.Loop(); i++ {
				t.cycle(t.sessions[0], "k")
				if i%5000 == 0 {
					t.refreshAll()
				}
			}
		})
	}
}

// A page begins after a key, and ends at the wanted number of keys or at the last key.
func TestALookAtAPartOfThePrefix(t *testing.T) {
	b := newBooth(t, 1)
	c := b.sessions[0]
	for _, name := range []vote.Key{"a", "p", "p/1", "p/2", "p/3", "q"} {
		b.ask(c, name)
		b.win(c)
	}
	b.ask(c, "p/0") // an unused key that the voter still knows fills no place of a page
	b.win(c)
	b.giveBack(c, c.number)
	if b.v.keys.find("p/0") == nil {
		t.Fatal("the unused key is forgotten already")
	}
	for _, row := range []struct {
		after vote.Key
		most  uint64
		want  string
		more  bool
	}{
		{"", 0, "[p p/1 p/2 p/3]", false},
		{"", 4, "[p p/1 p/2 p/3]", false},
		{"", 3, "[p p/1 p/2]", true},
		{"p", 2, "[p/1 p/2]", true},
		{"p/2", 1, "[p/3]", false},
		{"p/1+", 1, "[p/2]", true},
		{"p/3", 1, "[]", false},
		{"a", 1, "[p]", true},
		{"q", 1, "[]", false},
	} {
		m := vote.Message{Kind: vote.KindQuery, Nonce: 1, Prefix: true, Spec: vote.Spec{Key: "p"}, Value: []byte(row.after), Count: row.most}
		out := b.v.Step(b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
		for len(out) == 0 || !out[len(out)-1].Message.End {
			b.now.Slow = max(b.now.Slow, b.v.Next())
			out = b.v.Tick(b.now, out)
		}
		var keys []vote.Key
		for _, o := range out {
			for _, s := range o.Message.Views {
				keys = append(keys, s.Key)
			}
		}
		if got := fmt.Sprint(keys); got != row.want || out[len(out)-1].Message.Gap != row.more {
			t.Errorf("after %q, %d keys: %s, more: %t", row.after, row.most, got, out[len(out)-1].Message.Gap)
		}
	}
}
