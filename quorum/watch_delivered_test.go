package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// asOf returns AsOf of the reports since the last call, in milliseconds after from; "-" stands for
// none.
func (b *bench) asOf(from vote.Instant) (all []string) {
	b.drain()
	for _, e := range b.events {
		switch {
		case e.Kind != EventNews:
		case e.AsOf == 0:
			all = append(all, "-")
		default:
			all = append(all, fmt.Sprintf("%s %d", b.names[e.Place], e.AsOf.Sub(from).Milliseconds()))
		}
	}
	b.events = nil
	return all
}

func (b *bench) wantsAsOf(from vote.Instant, want ...string) {
	b.t.Helper()
	if got := b.asOf(from); fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("as of %q, want %q", got, want)
	}
}

// A report that isn't full has all events of the voter from before its question. After a question
// that was repeated, two reports may answer an earlier question.
func TestAReportSaysUpToWhenItHasAllEvents(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	from := b.now.Fast
	nonce := b.q.Watch(b.now, "", true)
	seq := uint64(100)
	report := func(gap bool, views ...vote.View) {
		seq += 100
		b.pass(time.Millisecond)
		b.news("v0", nonce, seq, gap, views...)
	}
	view := func(value int) vote.View {
		s := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
		s.Value = make([]byte, value)
		return s
	}
	report(true)
	b.wantsAsOf(from, "-")
	report(false, view(0))
	b.wantsAsOf(from, "v0 1")
	many := make([]vote.View, vote.MaxViews)
	for i := range many {
		many[i] = viewEntry(vote.Holding, "a", vote.Number(i+1), vote.Exclusive, vote.Token(100*(i+1)))
	}
	report(false, many...)
	b.wantsAsOf(from, "-")
	report(false, view(4000), view(4000), view(4000), view(1000)) // a further value might not fit
	b.wantsAsOf(from, "-")
	report(false, view(4000), view(4000), view(4000))
	b.wantsAsOf(from, "v0 4")
	b.q.Unlink(b.now, b.place("v0"))
	b.link("v0")
	for range unclearReports {
		report(false, view(0))
		b.wantsAsOf(from, "-")
	}
	report(false, view(0))
	b.wantsAsOf(from, "v0 7")
}

// A voter whose answer to the query of a watch comes without a report in between has nothing left
// to report from before the query, also if a majority has answered before.
func TestAnAnswerWithoutAReportSaysThatAllIsReported(t *testing.T) {
	b := newBench(t, 4)
	b.all()
	from := b.now.Fast
	nonce := b.q.Watch(b.now, "k", false)
	other := b.q.Watch(b.now, "other", false)
	for _, v := range []vote.NodeID{"v0", "v1", "v3"} {
		b.news(v, nonce, 7, true)
		b.news(v, other, 7, true)
	}
	b.asOf(from)
	b.pass(5 * time.Millisecond)
	look := b.q.InspectForWatch(b.now, "k", false)
	b.news("v1", nonce, 8, false, viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100))
	b.wantsAsOf(from, "v1 0")
	b.news("v0", other, 8, false, viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100))
	b.asOf(from)
	b.shows("v0", look)
	b.wantsAsOf(from, "v0 5")
	b.shows("v1", look) // has reported meanwhile, and may have more
	b.shows("v2", look) // doesn't report yet
	b.wantsAsOf(from)
	b.shows("v3", look) // late: a majority has answered
	b.wantsAsOf(from, "v3 5")

	look = b.q.InspectForWatch(b.now, "k", false)
	b.q.Unwatch(b.now, nonce)
	b.shows("v0", look)
	b.wantsAsOf(from)
	plain := b.q.Inspect(b.now, "other")
	b.shows("v0", plain)
	b.wantsAsOf(from)
}
