package lease

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A vote that outlived its session for its delay only, and is then reclaimed by its owner, lives by
// the new session: the vote was never extended, so the vote has no end of its own. (Found by a
// simulated world.)
func TestAReclaimedVoteHasNoEndBeforeItIsExtended(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=400ms", "a asks 1:k at=10 length=900ms delay=100ms")
	// the session ends in between
	c.all(t, "pass 450ms", "a syncs 1:k:length=900ms:delay=100ms ttl=400ms")
	if v, _ := c.v.Vote("k"); v.Residual || v.Owner.Node != "a" {
		t.Fatalf("it isn't taken up: %+v", v)
	}
	if said := c.said(t, "pass 150ms"); strings.Contains(said, "lapsed") {
		t.Errorf("it ends with the delay:\n%s", said)
	}
	if v, ok := c.v.Vote("k"); !ok || v.Residual {
		t.Errorf("it is gone: %+v", v)
	}
}

// A tentative vote outlives its session, and another electorate brings a minimum token meanwhile.
// When the vote is reclaimed, its token is compared with the minimum token, as the tokens of all
// other votes were.
func TestAReclaimedVoteIsHeldAgainstTheMinimumToken(t *testing.T) {
	const least = 5000
	for _, row := range []struct {
		name  string
		least vote.Token
	}{
		{"without a minimum token the token stays", 0},
		{"below the minimum token it is another", least},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := talkDynamic(t, "0:", true)
			f.elect("2: v0 v1 v2 (v1 v2)", nil)
			f.all(t, "a opens ttl=400ms", "a asks 1:k at=10 length=900ms delay=100ms")
			before, _ := f.v.Vote("k")
			f.all(t, "pass 450ms") // the session ends
			if v, _ := f.v.Vote("k"); !v.Residual {
				t.Fatalf("the vote hasn't outlived its session: %+v", v)
			}
			f.elect("3: v0 v1 v2", func(e *vote.Electorate) { e.MinToken = row.least })
			f.all(t, "a syncs 1:k:length=900ms:delay=100ms ttl=400ms")
			v, _ := f.v.Vote("k")
			if v.Residual || v.Owner.Node != "a" {
				t.Fatalf("it isn't taken up: %+v", v)
			}
			want := before.Token
			if row.least != 0 {
				want = row.least + vote.BlockSize
			}
			if v.Token != want {
				t.Errorf("its token is %d, want %d", v.Token, want)
			}
			if top, _ := f.v.Top(); top != v.Token {
				t.Errorf("the largest token that the voter knows of is %d, and not the %d of the vote", top, v.Token)
			}
		})
	}
}
