package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// decides returns a change of an electorate that sets the maximum TTL; old is the maximum TTL of
// the version before, zero for an electorate that isn't joint.
func decides(d, old time.Duration) func(*vote.Electorate) {
	return func(e *vote.Electorate) { e.MaxTTL, e.OldMaxTTL = d, old }
}

// tuned is a voter of an electorate with a maximum TTL of a second, and a requester that asks for
// more.
type tuned struct {
	*dynamicTalk
	from vote.SessionID
}

func newTuned(t *testing.T) *tuned {
	u := &tuned{dynamicTalk: talkDynamic(t, "0:", true), from: vote.SessionID{Node: "a", Incarnation: 1}}
	u.elect("7: v0 v1 v2", decides(time.Second, 0))
	u.say(vote.Message{Kind: vote.KindOpen, TTL: 4 * time.Second})
	u.say(vote.Message{Kind: vote.KindSync, End: true})
	return u
}

func (u *tuned) say(m vote.Message) (out []vote.Outbound) {
	m.Stream = 1
	if m.Kind == vote.KindOpen {
		m.Epoch = u.v.ConfigEpoch()
	}
	return u.v.Step(u.now, 1, u.from, &m, nil)
}

// session checks for how much longer the requester's session lasts.
func (u *tuned) session(want time.Duration) {
	u.t.Helper()
	if got := u.v.sessions.byID[u.from].deadline.Sub(u.now.Slow); got != want {
		u.t.Errorf("the session lasts for %v, want %v", got, want)
	}
}

// vote checks for how much longer the requester's vote for k lasts.
func (u *tuned) vote(want time.Duration) {
	u.t.Helper()
	all := u.v.Votes("k")
	if len(all) != 1 {
		u.t.Fatalf("%d votes", len(all))
	}
	if got := all[0].Deadline.Sub(u.now.Slow); got != want {
		u.t.Errorf("the vote lasts for %v, want %v", got, want)
	}
}

// quiet checks the length of the voter's startup quarantine if its promises had to end now.
func (u *tuned) quiet(want time.Duration) {
	u.t.Helper()
	begun := New(Config{Self: u.v.cfg.Self, Dir: 1, Electorate: u.v.electorate.Electorate, MaxTTL: time.Second}, u.now)
	if got := begun.Quiet(); got != want {
		u.t.Errorf("after a restart the voter is quiet for %v, want %v", got, want)
	}
	begun.Withdraw(u.now, nil)
	if got := begun.quiet.withdrawnUntil.Sub(u.now.Slow); got != want {
		u.t.Errorf("a voter that withdraws is quiet for %v, want %v", got, want)
	}
	begun.GiveWay(u.now, nil)
	if got := begun.quiet.until.Sub(u.now.Slow); got != want {
		u.t.Errorf("a voter that gives way is quiet for %v, want %v", got, want)
	}
}

// TestAVoterGrantsTheDecidedMaxTTL shows that a voter extends sessions and votes by no more than
// the electorate's maximum TTL, and by no more than the smaller value while the maximum TTL
// changes; the startup quarantine lasts for the larger value.
func TestAVoterGrantsTheDecidedMaxTTL(t *testing.T) {
	u := newTuned(t)
	u.session(time.Second)
	u.quiet(time.Second)
	u.say(vote.Message{Kind: vote.KindRequest, Number: 1, Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: 3 * time.Second}})
	extend := func() {
		u.say(vote.Message{Kind: vote.KindExtend, Number: 1, Serial: 1})
		u.say(vote.Message{Kind: vote.KindRefresh, Received: u.v.sessions.byID[u.from].pushed})
	}
	extend()
	u.vote(time.Second)

	u.elect("8: v0 v1 v2 (v0 v1 v2)", decides(4*time.Second, time.Second))
	u.pass(100 * time.Millisecond)
	extend()
	u.session(time.Second)
	u.vote(time.Second)
	u.quiet(4 * time.Second)

	u.elect("9: v0 v1 v2", decides(4*time.Second, 0))
	u.session(time.Second) // until the requester refreshes the session
	extend()
	u.session(4 * time.Second)
	u.vote(3 * time.Second)
	u.quiet(4 * time.Second)

	// The requester counts on the time granted under the version before, so nothing is shortened.
	u.elect("10: v0 v1 v2 (v0 v1 v2)", decides(500*time.Millisecond, 4*time.Second))
	u.pass(time.Second)
	extend()
	u.session(3 * time.Second)
	u.vote(2 * time.Second)
	u.quiet(4 * time.Second)
	u.pass(1600 * time.Millisecond)
	extend()
	u.vote(500 * time.Millisecond)
	u.pass(400 * time.Millisecond)
	extend()
	u.session(time.Second)

	u.elect("11: v0 v1 v2", decides(500*time.Millisecond, 0))
	u.pass(300 * time.Millisecond)
	extend()
	u.pass(400 * time.Millisecond)
	extend()
	u.session(500 * time.Millisecond)
	u.vote(500 * time.Millisecond)
	u.quiet(500 * time.Millisecond)
}

// TestTheAnswerToASyncExtendsByItsVersion: the requester counts on a session by the version in the
// answer. A long sync takes a while to apply, and the maximum TTL may have been raised meanwhile.
func TestTheAnswerToASyncExtendsByItsVersion(t *testing.T) {
	u := newTuned(t)
	u.elect("8: v0 v1 v2 (v0 v1 v2)", decides(4*time.Second, time.Second))
	u.say(vote.Message{Kind: vote.KindRefresh, Void: true})
	open := vote.Message{Kind: vote.KindOpen, Stream: 2, TTL: 4 * time.Second, Epoch: 8}
	u.v.Step(u.now, 1, u.from, &open, nil)
	for chunk := range 400 {
		m := vote.Message{Kind: vote.KindSync, Stream: 2, End: chunk == 399}
		for i := range vote.MaxEntries {
			n := chunk*vote.MaxEntries + i + 1
			m.Entries = append(m.Entries, vote.Entry{Number: vote.Number(n), Spec: vote.Spec{Key: vote.Key(fmt.Sprint("k", n)), Mode: vote.Exclusive}, Time: 5})
		}
		u.v.Step(u.now, 1, u.from, &m, nil)
	}
	if !u.v.Busy() {
		t.Fatal("the sync is applied at once, so the test shows nothing")
	}
	u.v.Reconfigure(u.now, func() vote.Electorate {
		e := electorate("9: v0 v1 v2")
		decides(4*time.Second, 0)(&e)
		return e
	}(), true, nil)
	for range 10_000 {
		for _, o := range u.v.Tick(u.now, nil) {
			if m := o.Message; m.Kind == vote.KindAnswer && m.End {
				if m.Epoch != 9 || m.Void {
					t.Fatalf("the answer is of version %d, void %t", m.Epoch, m.Void)
				}
				u.session(4 * time.Second)
				return
			}
		}
	}
	t.Fatal("no answer")
}
