package watchmerge

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// harness is a Merger under test.
type harness struct {
	t      *testing.T
	merger *Merger
	clock  vote.Instant
}

func newHarness(t *testing.T, voters int) *harness {
	t.Helper()
	var names []vote.NodeID
	for i := range voters {
		names = append(names, vote.NodeID(fmt.Sprintf("v%d", i)))
	}
	fixed, err := quorum.Fixed(names)
	e := quorum.NewElectorate(&fixed, fixed.Voters)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{t: t, merger: New(e)}
}

// begin has all voters report, and answers the query with views.
func (r *harness) begin(views ...vote.View) {
	r.t.Helper()
	for i := range r.merger.electorate.Size() {
		r.merger.AddReports(0, i, true, nil, 0)
	}
	r.show(views...)
}

// show answers the wanted query with views; after a gap, all voters begin their reports before. All
// voters have reported their events from before the query.
func (r *harness) show(views ...vote.View) {
	r.t.Helper()
	r.restart()
	if !r.merger.WantsQuery() {
		r.t.Fatal("it wants no look")
	}
	r.clock++
	r.merger.AddResult(0, &quorum.QueryResult{Views: views, Began: r.clock})
	for i := range r.merger.electorate.Size() {
		r.merger.AddReports(0, i, false, nil, r.clock)
	}
}

// restart has all voters begin their reports anew, if the merger wants that.
func (r *harness) restart() {
	if r.merger.WantsRestart() {
		for i := range r.merger.electorate.Size() {
			r.merger.AddReports(0, i, true, nil, 0)
		}
	}
}

func (r *harness) hear(place int, views ...vote.View) {
	for i := range views {
		views[i].Token += vote.BlockSize - 1 // voters know the last token of a token block
	}
	r.merger.AddReports(0, place, false, views, 0)
}

// want compares the events since the last call.
func (r *harness) want(words ...string) {
	r.t.Helper()
	var got []string
	for _, e := range r.merger.Drain(nil) {
		if e.Kind != Confirmed {
			got = append(got, short(e))
		}
	}
	if !slices.Equal(got, words) {
		r.t.Errorf("told %q, want %q", got, words)
	}
}

func short(e Event) string {
	word := map[Kind]string{
		Granted: "granted", Released: "released", Lost: "lost", Waiting: "waits", Changed: "changed", Gap: "gap", Synced: "synced",
	}[e.Kind]
	if e.Kind == Gap || e.Kind == Synced {
		return word
	}
	if e.Current {
		word += "!"
	}
	if e.Kind == Waiting {
		return fmt.Sprintf("%s %s%d", word, e.View.Owner.Node, e.View.Number)
	}
	return fmt.Sprintf("%s %s%d@%d", word, e.View.Owner.Node, e.View.Number, e.View.Token)
}

func see(what vote.State, mode vote.Mode, who string, token vote.Token) vote.View {
	return vote.View{State: what, Key: "k", Owner: vote.SessionID{Node: vote.NodeID(who), Incarnation: 1}, Number: vote.Number(token), Mode: mode, Token: token}
}

// hears has a majority of three voters send the same reports.
func (r *harness) hears(views ...vote.View) {
	for place := range 2 {
		r.hear(place, slices.Clone(views)...)
	}
}

// doubted demands that the key is in doubt, and for long enough, and answers queries for the key
// with views.
func (r *harness) doubted(looks int, views ...vote.View) {
	r.t.Helper()
	for _, d := range r.merger.Doubts(0, 16) { // keys in doubt for a while already
		r.merger.AddKeyResult(0, d, nil)
	}
	for range looks {
		doubts := r.merger.Doubts(0, 16)
		if len(doubts) != 1 || doubts[0].Key != "k" {
			r.t.Fatalf("%v are in doubt", doubts)
		}
		if again := r.merger.Doubts(0, 16); len(again) != 0 {
			r.t.Fatalf("%v are looked at once more", again)
		}
		r.want()
		r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{Views: views})
	}
}

func (r *harness) sure() {
	r.t.Helper()
	if r.merger.InDoubt() {
		r.t.Fatal("something is in doubt")
	}
}
