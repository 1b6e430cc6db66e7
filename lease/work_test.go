package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// crowds are the kinds of requests that a session has waiting for one key, or holds.
var crowds = []struct {
	name string
	spec vote.Spec
}{
	{"semaphore", vote.Spec{Mode: vote.Permit, Permits: 4}},
	{"exclusive", vote.Spec{Mode: vote.Exclusive}},
	{"readers behind a writer", vote.Spec{Mode: vote.Shared}},
	{"TryLocks", vote.Spec{Mode: vote.Exclusive, Try: true}},
	{"least time to hold", vote.Spec{Mode: vote.Exclusive, MinHold: time.Second}},
}

// gather has a session send n requests for one key, which another session holds.
func (b *booth) gather(c *caller, key vote.Key, spec vote.Spec, n int) {
	spec.Key = key
	for i := range n {
		c.number++
		b.say(c, vote.Message{Kind: vote.KindRequest, Number: c.number, Spec: spec, Time: b.now.Wall})
		if i%5000 == 0 {
			b.refreshAll()
		}
	}
}

// cost runs calls of the voter, and returns their cost.
func (b *booth) cost(f func()) int {
	before := b.v.Work()
	f()
	return int(b.v.Work() - before)
}

// end lets a session end, one Tick after the other, and returns the costs of the costliest step and
// of all steps.
func (b *booth) end(gone *caller) (most, all int) {
	for range 11 {
		for _, c := range b.sessions {
			if c != gone {
				b.refresh(c)
			}
		}
		b.now.Slow = b.now.Slow.Add(time.Second)
		for again := true; again; again = b.v.Next() <= b.now.Slow {
			n := b.cost(func() { b.hear(b.v.Tick(b.now, b.out[:0])) })
			most, all = max(most, n), all+n
		}
	}
	return most, all
}

// If a process dies with a hundred thousand waiters for one key, the end costs each voter work
// linear in the number of waiters, and none of the steps costs more than the budget and one pass
// over the queue.
func TestTheEndOfASessionIsLinearInWhatItHas(t *testing.T) {
	for _, crowd := range crowds {
		t.Run(crowd.name, func(t *testing.T) {
			var each [2]float64
			size := 2000
			if crowd.spec.Try {
				size = 400 // each new TryLock looks at all the others
			}
			for i, n := range []int{size, 10 * size} {
				b := newBooth(t, 3)
				holder, gone, next := b.sessions[0], b.sessions[1], b.sessions[2]
				w := crowd.spec
				w.Try = false
				for range max(1, w.Permits) {
					b.gather(holder, "k", w, 1)
					b.win(holder)
				}
				if w.Mode == vote.Shared {
					b.gather(next, "k", vote.Spec{Mode: vote.Exclusive}, 1)
				}
				b.gather(gone, "k", crowd.spec, n)
				if w.Mode != vote.Shared {
					b.gather(next, "k", w, 1)
				}
				most, all := b.end(gone)
				if got := b.v.Size(); got.Sessions != 2 || got.Requests > 6 {
					t.Fatalf("what is left: %+v", got)
				}
				if whole := 2 * n / scanned; most > Budget+whole+64 {
					t.Errorf("%d waiters: a step costs %d", n, most)
				}
				each[i] = float64(all) / float64(n)
				next.serial = 0
				for number := vote.Number(1); number <= holder.number; number++ {
					b.giveBack(holder, number)
				}
				if next.serial == 0 {
					t.Error("the request behind them gets no vote")
				}
			}
			if each[1] > 1.5*each[0] {
				t.Errorf("%.2f units for each of %d waiters, %.2f for each of ten times as many", each[0], size, each[1])
			}
		})
	}
}

// settle does all work that is due now, and returns the costs of the costliest step and of all
// steps.
func (b *booth) settle() (most, all int) {
	for b.v.Next() <= b.now.Slow {
		n := b.cost(func() { b.hear(b.v.Tick(b.now, b.out[:0])) })
		most, all = max(most, n), all+n
	}
	return most, all
}

// A writer releases a key for which many readers wait: the cost of each reader doesn't depend on
// their number, and no step costs more than the budget. The same holds for the death of the process
// of all readers, after which a writer gets the key.
func TestManyReadersAreServedAndLeaveWithinTheBudget(t *testing.T) {
	var granted, ended [2]float64
	const size = 3000
	for i, n := range []int{size, 10 * size} {
		b := newBooth(t, 3)
		writer, readers, next := b.sessions[0], b.sessions[1], b.sessions[2]
		b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive}, 1)
		b.win(writer)
		b.gather(readers, "k", vote.Spec{Mode: vote.Shared}, n)
		first := b.cost(func() { b.giveBack(writer, writer.number) })
		most, all := b.settle()
		if got := len(b.v.Votes("k")); got != n {
			t.Fatalf("%d of %d readers have the key", got, n)
		}
		granted[i] = float64(first+all) / float64(n)
		if most = max(most, first); most > Budget+64 {
			t.Errorf("%d readers: a step costs %d when they get the key", n, most)
		}
		for _, won := range b.v.Votes("k") {
			b.say(readers, vote.Message{Kind: vote.KindConfirm, Number: won.Number, Serial: won.Serial, Token: won.Token, Won: true})
		}
		b.gather(next, "k", vote.Spec{Mode: vote.Exclusive}, 1)
		next.serial = 0
		most, all = b.end(readers)
		if next.serial == 0 || len(b.v.Votes("k")) != 1 {
			t.Errorf("the writer behind %d readers isn't granted: %d votes", n, len(b.v.Votes("k")))
		}
		ended[i] = float64(all) / float64(n)
		if most > Budget+n/scanned+64 {
			t.Errorf("%d readers: a step costs %d when they leave", n, most)
		}
	}
	for what, each := range map[string][2]float64{"get the key": granted, "leave": ended} {
		if each[1] > 1.5*each[0] {
			t.Errorf("when they %s, %.2f units for each of %d readers, %.2f for each of ten times as many", what, each[0], size, each[1])
		}
	}
}

// While thousands of readers of an ended session leave a key in pieces, the reader behind them
// keeps the key.
func TestAReaderBehindThoseOfAnEndedSessionKeepsTheKey(t *testing.T) {
	b := newBooth(t, 2)
	gone, stays := b.sessions[0], b.sessions[1]
	b.gather(gone, "k", vote.Spec{Mode: vote.Shared}, 5*Budget)
	b.settle()
	b.gather(stays, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.win(stays)
	pieces := 0
	for range 11 {
		b.refresh(stays)
		b.now.Slow = b.now.Slow.Add(time.Second)
		for again := true; again; again = b.v.Next() <= b.now.Slow {
			b.hear(b.v.Tick(b.now, b.out[:0]))
			votes := b.v.Votes("k")
			if !slices.ContainsFunc(votes, func(v Vote) bool { return v.Owner == stays.id }) {
				t.Fatalf("%d votes are left, and none of the reader that stays", len(votes))
			}
			if n := len(votes); n > 1 && n <= 5*Budget {
				pieces++
			}
		}
	}
	if n := len(b.v.Votes("k")); n != 1 || pieces == 0 {
		t.Errorf("%d votes are left, after %d pieces", n, pieces)
	}
}

// The keys of an ended session are given to other sessions key by key, within the budget.
func TestTheEndOfASessionOfManyKeysGivesWay(t *testing.T) {
	const keys = 20_000
	b := newBooth(t, 2)
	gone, other := b.sessions[0], b.sessions[1]
	all := names(keys)
	for i, name := range all {
		b.ask(gone, name)
		b.win(gone)
		if i%5000 == 0 {
			b.refreshAll()
		}
	}
	for i := range 100 { // the keys that are freed last
		b.ask(other, all[keys-1-i])
	}
	b.refresh(other)
	for range 9 {
		b.now.Slow = b.now.Slow.Add(time.Second)
		b.refresh(other)
	}
	b.now.Slow = b.now.Slow.Add(999 * time.Millisecond)
	b.refresh(other)
	other.serial = 0
	steps := 0
	for b.now.Slow = b.now.Slow.Add(2 * time.Millisecond); ; steps++ {
		if n := b.cost(func() { b.hear(b.v.Tick(b.now, b.out[:0])) }); n > Budget+64 {
			t.Fatalf("a step costs %d", n)
		}
		if n := b.cost(func() { b.refresh(other) }); n > taskBudget+64 {
			t.Fatalf("a refresh costs %d meanwhile", n)
		}
		if b.v.Next() > b.now.Slow {
			break
		}
		if steps == 1 {
			// A requested key is freed of ended votes at once, before the task's run.
			b.ask(other, all[keys-500])
			if v, ok := b.v.Vote(all[keys-500]); !ok || v.Owner != other.id {
				t.Errorf("the key has %+v", v)
			}
		}
	}
	if steps < keys/Budget {
		t.Errorf("%d keys were given up in %d steps", keys, steps+1)
	}
	for i := range 100 {
		if v, ok := b.v.Vote(all[keys-1-i]); !ok || v.Owner != other.id {
			t.Fatalf("key %d has %+v", keys-1-i, v)
		}
	}
	if got := b.v.Size(); got.Sessions != 1 || got.Requests != 101 {
		t.Errorf("what is left: %+v", got)
	}
}

// An incarnation with an ended session sends a sync before the voter has freed the keys of the
// session: the sync finds the votes that outlast the session, and no others.
func TestASyncWaitsForTheEndOfTheSessionBefore(t *testing.T) {
	const keys = 3 * Budget
	b := newBooth(t, 2)
	c := b.sessions[0]
	all := names(keys)
	for i, name := range all {
		c.number++
		b.say(c, vote.Message{Kind: vote.KindRequest, Number: c.number, Spec: vote.Spec{Key: name, Mode: vote.Exclusive, Delay: time.Second}, Time: b.now.Wall})
		b.win(c)
		if i%5000 == 0 {
			b.refreshAll()
		}
	}
	last := c.serial
	b.now.Slow = b.now.Slow.Add(11 * time.Second)
	b.hear(b.v.Tick(b.now, b.out[:0]))
	if b.v.Next() > b.now.Slow {
		t.Fatal("all was done in one step")
	}
	c.conn, b.sessions = 1, b.sessions[:1]
	open := func(stream vote.Stream) (answers []vote.Message) {
		say := func(m vote.Message) {
			m.Stream = stream
			for _, o := range b.v.Step(b.now, c.conn, c.id, &m, nil) {
				if o.Message.Kind == vote.KindAnswer {
					answers = append(answers, o.Message)
				}
			}
		}
		say(vote.Message{Kind: vote.KindOpen, TTL: 10 * time.Second, RTT: time.Millisecond})
		say(vote.Message{Kind: vote.KindSync, End: true, Entries: []vote.Entry{{
			Spec: vote.Spec{Key: all[keys-1], Mode: vote.Exclusive, Delay: time.Second}, Number: c.number, Token: c.token, Serial: last,
		}}})
		return answers
	}
	if got := open(2); len(got) != 0 {
		t.Fatalf("it answers at once: %v", got)
	}
	var answer *vote.Message
	for b.v.Next() <= b.now.Slow && answer == nil {
		for _, o := range b.v.Tick(b.now, nil) {
			if m := o.Message; m.Kind == vote.KindAnswer && m.End {
				answer = &m
			}
		}
	}
	if answer == nil || len(answer.Entries) != 1 || answer.Entries[0].Serial != last {
		t.Fatalf("the answer is %+v", answer)
	}
}

func BenchmarkWork(b *testing.B) {
	for _, crowd := range crowds {
		for _, n := range []int{1000, 10_000, 100_000} {
			if crowd.spec.Try && n > 1000 {
				continue // to gather them takes too long
			}
			b.Run(fmt.Sprintf("end/%s/waiters=%d", crowd.name, n), func(b *testing.B) {
				units := 0
				for b.Loop() {
					b.StopTimer()
					t := newBooth(b, 2)
					t.gather(t.sessions[0], "k", vote.Spec{Mode: vote.Exclusive}, 1) // so that all others wait
					t.win(t.sessions[0])
					t.gather(t.sessions[1], "k", crowd.spec, n)
					b.StartTimer()
					_, all := t.end(t.sessions[1])
					units += all
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/waiter")
				b.ReportMetric(float64(units)/float64(b.N*n), "units/waiter")
			})
		}
	}
}

// The cost of adding a TryLock to a key, or of removing a TryLock, doesn't grow with thousands of
// TryLocks that were told of the lease and haven't left yet. The end of the lease concerns all
// these TryLocks, and is counted.
func TestTryLocksOnOneKeyCostNothingToEachOther(t *testing.T) {
	const n = 4_000
	b := newBooth(t, 2)
	holder, crowd := b.sessions[0], b.sessions[1]
	b.gather(holder, "k", vote.Spec{Mode: vote.Exclusive}, 1)
	b.win(holder)
	b.gather(crowd, "k", vote.Spec{Mode: vote.Exclusive, Try: true}, n)
	spec := vote.Spec{Mode: vote.Exclusive, Try: true}
	if cost := b.cost(func() { b.gather(crowd, "k", spec, 1) }); cost > 8 {
		t.Errorf("one more TryLock beside %d others costs %d units", n, cost)
	}
	if cost := b.cost(func() { b.giveBack(crowd, 1) }); cost > 8 {
		t.Errorf("to release one of %d TryLocks costs %d units", n, cost)
	}
	if cost := b.cost(func() { b.giveBack(holder, holder.number) }); cost < n/weighed || cost > n {
		t.Errorf("the end of the lease costs %d units with %d TryLocks, want at least %d", cost, n, n/weighed)
	}
}

// A second reader of a key is another lease that keeps thousands of TryLocks from the key, and all
// of them are told: the voter counts the work.
func TestAnotherLeaseBeforeManyTryLocksIsCounted(t *testing.T) {
	const n = 4096
	b := newBooth(t, 3)
	holder, crowd, reader := b.sessions[0], b.sessions[1], b.sessions[2]
	b.gather(holder, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.win(holder)
	b.gather(crowd, "k", vote.Spec{Mode: vote.Exclusive, Try: true}, n)
	if k := b.v.keys.find("k"); len(k.answeredTries()) != n {
		t.Fatalf("%d of %d TryLocks are told of the first reader", len(k.answeredTries()), n)
	}
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	if cost := b.cost(func() { b.win(reader) }); cost < n/weighed {
		t.Errorf("the second reader costs %d units with %d TryLocks, want at least %d", cost, n, n/weighed)
	}
}

// A reader that confirms another token than the vote's is compared with all votes of the key: the
// voter counts the work.
func TestATokenAmongManyReadersIsCounted(t *testing.T) {
	const n = 4096
	b := newBooth(t, 2)
	b.gather(b.sessions[0], "k", vote.Spec{Mode: vote.Shared}, n)
	b.settle()
	reader := b.sessions[1]
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	if reader.serial == 0 {
		t.Fatal("the reader has no vote")
	}
	confirm := func(token vote.Token) int {
		return b.cost(func() {
			b.say(reader, vote.Message{Kind: vote.KindConfirm, Number: 1, Serial: reader.serial, Token: token})
		})
	}
	if same, other := confirm(reader.token), confirm(reader.token+1<<30); other < same+n/scanned {
		t.Errorf("another token costs %d units beside %d readers, the vote's own token %d; want %d more",
			other, n, same, n/scanned)
	}
}

// A reader that is queued behind a writer changes nothing for the TryLocks that were told of a
// lease: the voter needs no pass over the TryLocks.
func TestAReaderThatComesToWaitLooksAtNoTryLock(t *testing.T) {
	const n = 4096
	b := newBooth(t, 3)
	holder, writer, crowd := b.sessions[0], b.sessions[1], b.sessions[2]
	reads := vote.Spec{Mode: vote.Shared}
	b.gather(holder, "k", reads, 1)
	b.win(holder)
	b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive}, 1)
	b.gather(crowd, "k", vote.Spec{Mode: vote.Shared, Try: true}, n)
	if k := b.v.keys.find("k"); k.answered == nil || k.answered.barred != n {
		t.Fatalf("%+v readers are told of the writer", k.answered)
	}
	if cost := b.cost(func() { b.gather(crowd, "k", reads, 1) }); cost > 8 {
		t.Errorf("a reader beside %d TryLocks costs %d units", n, cost)
	}
}

// A request may cost a pass over all waiters of its key; then the pass is counted, so that the node
// pauses in time among a thousand such requests.
func TestAPassOverAKeyIsCounted(t *testing.T) {
	const waiting = 4096
	for _, pass := range []struct {
		name   string
		spec   vote.Spec
		before func(b *booth, c *caller)
		passes int
	}{
		{"a semaphore of another size", vote.Spec{Mode: vote.Permit, Permits: 3}, nil, 1},
		{"a request of a node that has told of no majority", vote.Spec{Mode: vote.Exclusive},
			func(b *booth, c *caller) { b.v.sessions.byID[c.id].reaches = false }, 1},
		{"an upgrade", vote.Spec{Mode: vote.Exclusive, Beside: 1},
			func(b *booth, c *caller) {
				b.gather(c, "k", vote.Spec{Mode: vote.Shared}, 1)
			}, 1},
		{"an upgrade beside another one", vote.Spec{Mode: vote.Exclusive, Beside: 1},
			func(b *booth, c *caller) {
				other := b.sessions[1]
				for _, one := range []*caller{c, other} {
					b.gather(one, "k", vote.Spec{Mode: vote.Shared}, 1)
				}
				b.gather(other, "k", vote.Spec{Mode: vote.Exclusive, Beside: other.number}, 1)
			}, 2},
	} {
		t.Run(pass.name, func(t *testing.T) {
			b := newBooth(t, 3)
			holder, crowd, asker := b.sessions[0], b.sessions[1], b.sessions[2]
			b.gather(holder, "k", vote.Spec{Mode: vote.Permit, Permits: 1}, 1)
			b.win(holder)
			b.gather(crowd, "k", vote.Spec{Mode: vote.Permit, Permits: 1}, waiting)
			if pass.before != nil {
				pass.before(b, asker)
			}
			asker.number++
			spec := pass.spec
			spec.Key = "k"
			m := vote.Message{Kind: vote.KindRequest, Number: asker.number, Spec: spec, Time: b.now.Wall}
			if got := b.cost(func() { b.say(asker, m) }); got < pass.passes*waiting/scanned {
				t.Errorf("%d passes over %d requests count as %d units", pass.passes, waiting, got)
			}
		})
	}
}

// BenchmarkReaders measures a voter's work when a writer releases a key to many readers.
func BenchmarkReaders(b *testing.B) {
	for _, try := range []bool{false, true} {
		for _, n := range []int{1000, 10_000, 30_000} {
			b.Run(fmt.Sprintf("try=%t/readers=%d", try, n), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					t := newBooth(b, 2)
					writer, readers := t.sessions[0], t.sessions[1]
					t.gather(writer, "k", vote.Spec{Mode: vote.Exclusive}, 1)
					t.win(writer)
					t.gather(readers, "k", vote.Spec{Mode: vote.Shared, Try: try}, n)
					b.StartTimer()
					t.giveBack(writer, writer.number)
					for t.v.Next() <= t.now.Slow {
						t.hear(t.v.Tick(t.now, t.out[:0]))
					}
					if got := len(t.v.Votes("k")); got != n {
						b.Fatalf("%d of %d readers are granted", got, n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/reader")
			})
		}
	}
}
