package quorum

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// BenchmarkResync measures the cost of a new stream to a voter for a requester with many leases:
// the sync with all leases, and the voter's answer with a vote for each. Both are done in pieces;
// p999 is the time exceeded by one call in a thousand.
func BenchmarkResync(b *testing.B) {
	for _, held := range []int{10_000, 100_000, 1_000_000} {
		b.Run("held="+strconv.Itoa(held), func(b *testing.B) {
			o := newOffice(b, 3)
			o.hold(manyKeys(held))
			id := o.clerks[0].id
			var answering time.Duration
			var calls []time.Duration
			step := func(call func()) {
				began := time.Now()
				call()
				calls = append(calls, time.Since(began))
			}
			for b.Loop() {
				o.q.Unlink(o.now, 1)
				step(func() { o.q.Link(o.now, 1, id) })
				var answers []vote.Message
				for more := true; more; {
					more = o.q.Busy()
					step(func() { o.q.Tick(o.now) })
					b.StopTimer()
					answers = append(answers, o.answers()...)
					b.StartTimer()
				}
				b.StopTimer()
				began := time.Now()
				for i := range answers {
					step(func() { o.q.Deliver(o.now, 1, id, &answers[i]) })
				}
				for o.q.Busy() {
					step(func() { o.q.Tick(o.now) })
				}
				answering += time.Since(began)
				if !o.q.peers[0].answered {
					b.Fatal("the answer isn't taken in")
				}
				o.settle()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*held), "ns/lease")
			b.ReportMetric(float64(answering.Nanoseconds())/float64(b.N*held), "ns/vote")
			slices.Sort(calls)
			b.ReportMetric(float64(calls[len(calls)*999/1000].Microseconds()), "p999-µs")
		})
	}
}

// answers returns the first voter's answers to the part of a sync received so far.
func (o *office) answers() (all []vote.Message) {
	c := &o.clerks[0]
	for _, out := range o.q.TakeMessages(nil) {
		m := &out.Message
		switch m.Kind {
		case vote.KindOpen:
			c.stream, c.processed, c.pushed = m.Stream, 0, 0
		case vote.KindSync:
			votes := make([]vote.Entry, 0, len(m.Entries))
			for _, e := range m.Entries {
				votes = append(votes, vote.Entry{Number: e.Number, Serial: vote.Serial(e.Number), Token: e.Token})
			}
			all = append(all, vote.Message{
				Kind: vote.KindAnswer, Stream: c.stream, Entries: votes, End: m.End, Sent: o.now.Fast,
				Incarnation: c.id.Incarnation, Generation: 1, Wall: o.now.Wall,
			})
		}
	}
	return all
}
