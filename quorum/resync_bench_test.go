package quorum

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// BenchmarkResync is what a new stream to one voter costs a requester that holds many leases: the
// list of all of them, and the end of the voter's answer, which lists a vote for each.
func BenchmarkResync(b *testing.B) {
	for _, held := range []int{10_000, 100_000, 1_000_000} {
		b.Run("held="+strconv.Itoa(held), func(b *testing.B) {
			o := newOffice(b, 3)
			o.hold(manyKeys(held))
			id := o.clerks[0].id
			var answering time.Duration
			for b.Loop() {
				o.q.Unlink(o.now, 1)
				o.q.Link(o.now, 1, id)
				b.StopTimer()
				answers := o.answers()
				began := time.Now()
				for i := range answers {
					o.q.Deliver(o.now, 1, id, &answers[i])
				}
				answering += time.Since(began)
				o.settle()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*held), "ns/lease")
			b.ReportMetric(float64(answering.Nanoseconds())/float64(b.N*held), "ns/vote")
		})
	}
}

// answers returns what the first voter answers to a sync.
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
