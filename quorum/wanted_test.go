package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter's report of other waiting nodes may cross the release. A caller that has released the
// lease receives no event.
func TestAReportOfOthersThatCrossesAReleaseIsNotPassedOn(t *testing.T) {
	for _, m := range []vote.Message{
		{Kind: vote.KindContended, Who: "x"},
		{Kind: vote.KindContended, Who: "x", Revoke: true},
		{Kind: vote.KindContended, Who: "x", Token: vote.Token(100).First()},
	} {
		b := newBench(t, 3)
		b.all()
		n := b.lock(false)
		b.promise("v0", n, 1, 100)
		b.promise("v1", n, 1, 100)
		b.granted(n, true)
		b.q.Release(b.now, n)
		m.Number = n
		b.sends("v0", m)
		if e := b.last(EventContended); e != nil {
			t.Errorf("%+v: %+v", m, e)
		}
		if e := b.last(EventEvicted); e != nil {
			t.Errorf("%+v: %+v", m, e)
		}
	}
}
