package lease

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// revived has the first caller hold "k" shared with a vote that the caller got when it reported
// that other voters cover the lease. The vote before outlasted its length, and would keep the key
// for a lock-delay; one request has one vote.
func revived(t *testing.T, sessions int) *booth {
	b := newBooth(t, sessions)
	c := b.sessions[0]
	b.gather(c, "k", vote.Spec{Mode: vote.Shared, Length: time.Second, Delay: 5 * time.Second}, 1)
	b.win(c)
	b.say(c, vote.Message{Kind: vote.KindExtend, Number: 1, Serial: c.serial})
	lapses := c.serial
	for range 11 {
		b.pass(100 * time.Millisecond)
		b.refreshAll()
	}
	b.say(c, vote.Message{Kind: vote.KindConfirm, Number: 1, Token: c.token, Won: true})
	votes := b.v.Votes("k")
	if len(votes) != 1 || votes[0].Residual || votes[0].Number != 1 || votes[0].Serial == lapses {
		t.Fatalf("the first caller was to have a new vote in place of the residual vote: %+v", votes)
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

// An upgrade waits for a reader of another node, also where the vote of the upgraded request lapsed
// before.
func TestAnUpgradeAfterALapseWaitsForOtherReaders(t *testing.T) {
	b := revived(t, 2)
	writer, reader := b.sessions[0], b.sessions[1]
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.win(reader)
	b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive, Beside: 1}, 1)
	b.checkNoWriterBesideReaders()
	b.giveBack(reader, 1)
	if votes := b.v.Votes("k"); len(votes) != 2 || votes[1].Mode != vote.Exclusive {
		t.Errorf("once the other reader has given its lease back, the upgrade was to have a vote: %+v", votes)
	}
}

// A reader waits for an upgrade, also where the vote of the upgraded request lapsed before.
func TestAReaderWaitsForAnUpgradeAfterALapse(t *testing.T) {
	b := revived(t, 2)
	writer, reader := b.sessions[0], b.sessions[1]
	b.gather(writer, "k", vote.Spec{Mode: vote.Exclusive, Beside: 1}, 1)
	if votes := b.v.Votes("k"); len(votes) != 2 || votes[1].Mode != vote.Exclusive {
		t.Fatalf("the upgrade was to have a vote at once: %+v", votes)
	}
	b.gather(reader, "k", vote.Spec{Mode: vote.Shared}, 1)
	b.checkNoWriterBesideReaders()
}
