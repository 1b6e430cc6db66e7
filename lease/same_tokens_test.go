package lease

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestReadersThatMeetEverywhereComeApart moves the tallies of two readers in step, at two voters
// that received the requests in opposite orders. Each reader settles on the token proposed by the
// first voter and asks the second voter to confirm the token, but there the other reader has the
// token. Both readers start with the same distance (vote.Scatter).
func TestReadersThatMeetEverywhereComeApart(t *testing.T) {
	a := vote.SessionID{Node: "a", Incarnation: 1}
	b := vote.SessionID{Node: "b", Incarnation: 2}
	for vote.Scatter(a, 1)%spread != vote.Scatter(b, 1)%spread {
		b.Incarnation++
	}
	readers := []vote.SessionID{a, b}
	var voters [2]*talk
	type ballot struct {
		serial vote.Serial
		token  vote.Token
	}
	var at [2][2]ballot // of each reader, at each voter
	says := func(v, r int, m vote.Message) {
		m.Stream, m.Number = 1, 1
		for _, o := range voters[v].v.Step(voters[v].now, vote.Conn(r+1), readers[r], &m, nil) {
			switch o.Message.Kind {
			case vote.KindPromise, vote.KindConfirmed:
				at[r][v] = ballot{o.Message.Serial, o.Message.Token}
			}
		}
	}
	for v := range voters {
		voters[v] = newTalk()
		voters[v].all(t, "awake 3")
		for i := range readers {
			r := (i + v) % 2
			says(v, r, vote.Message{Kind: vote.KindOpen, TTL: voters[v].v.cfg.MaxTTL})
			says(v, r, vote.Message{Kind: vote.KindSync, End: true})
			says(v, r, vote.Message{Kind: vote.KindRequest, Spec: vote.Spec{Key: "k", Mode: vote.Shared}, TokenHint: 5_000_000})
		}
	}
	for round := 1; at[0][0].token != at[0][1].token || at[1][0].token != at[1][1].token; round++ {
		if round > 10 {
			t.Fatalf("after %d rounds they still meet: %v", round, at)
		}
		was := at
		for r := range readers {
			for v := range voters {
				if token := max(was[r][0].token, was[r][1].token); token != was[r][v].token {
					says(v, r, vote.Message{Kind: vote.KindConfirm, Serial: was[r][v].serial, Token: token})
				}
			}
		}
	}
	if x, y := at[0][0].token, at[1][0].token; x.First() <= y && y.First() <= x {
		t.Errorf("they have tokens up to %d and %d", x, y)
	}
}
