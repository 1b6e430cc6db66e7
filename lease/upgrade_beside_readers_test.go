package lease

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// twiceVoted has the first caller hold "k" shared with two votes: a residual vote, since the vote
// outlasted its length while a lock-delay keeps the key, and a live vote, which the caller got when
// it reported that other voters cover the lease.
func twiceVoted(t *testing.T, sessions int) *booth {
	b := newBooth(t, sessions)
	c := b.sessions[0]
	b.gather(c, "k", vote.Spec{Mode: vote.Shared, Length: time.Second, Delay: 5 * time.Second}, 1)
	b.win(c)
	b.say(c, vote.Message{Kind: vote.KindExtend, Number: 1, Serial: c.serial})
	for range 11 {
		b.pass(100 * time.Millisecond)
		b.refreshAll()
	}
	b.say(c, vote.Message{Kind: vote.KindConfirm, Number: 1, Token: c.token, Won: true})
	votes := b.v.Votes("k")
	if len(votes) != 2 || !votes[0].Residual || votes[1].Residual || votes[0].Number != 1 || votes[1].Number != 1 {
		t.Fatalf("the first caller was to have a residual and a live vote: %+v", votes)
	}
	return b
}

// checkNoWriterBesideReaders demands that an exclusive vote for "k" has no vote of another node
// beside it.
func (b *booth) checkNoWriterBesideReaders() {
	b.tb.Helper()
	votes := b.v.Votes("k")
	for _, v := range votes {
		for _, w := range votes {
			if v.Mode == vote.Exclusive && v.Owner != w.Owner {
				b.tb.Fatalf("a writer's vote stands beside a reader's: %+v", votes)
			}
		}
	}
}

// An upgrade waits for a reader of another node, also where the upgraded request has a residual
// vote besides its live vote: two compatible votes don't stand for a third.
func TestAnUpgradeWithAResidualVoteWaitsForOtherReaders(t *testing.T) {
	b := twiceVoted(t, 2)
	writer, reader := b.sessions[0], b.sessions[1]
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.win(reader)
	b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive, Beside: 1}, 1)
	b.checkNoWriterBesideReaders()
	b.giveBack(reader, 1)
	if votes := b.v.Votes("k"); len(votes) != 3 || votes[2].Mode != vote.Exclusive {
		t.Errorf("once the other reader has given its lease back, the upgrade was to have a vote: %+v", votes)
	}
}

// A reader waits for an upgrade, also where the upgraded request has a residual vote besides its
// live vote.
func TestAReaderWaitsForAnUpgradeWithAResidualVote(t *testing.T) {
	b := twiceVoted(t, 2)
	writer, reader := b.sessions[0], b.sessions[1]
	b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive, Beside: 1}, 1)
	if votes := b.v.Votes("k"); len(votes) != 3 || votes[2].Mode != vote.Exclusive {
		t.Fatalf("the upgrade was to have a vote at once: %+v", votes)
	}
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.checkNoWriterBesideReaders()
}
