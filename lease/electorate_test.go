package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// dynamicTalk is a conversation with voter v0 of an electorate with dynamic membership. Voter v0
// has directory 1, v1 has 2, and so on.
type dynamicTalk struct {
	*talk
	t *testing.T
}

// electorate reads "7: v0 v1 v2 (v0 v1)": the version, the voters, and the old voters.
func electorate(s string) (e vote.Electorate) {
	version, rest, _ := strings.Cut(s, ":")
	if _, err := fmt.Sscan(version, &e.Version); err != nil {
		panic(err)
	}
	read := func(list string) (all []vote.Elector) {
		for _, name := range strings.Fields(list) {
			all = append(all, vote.Elector{Name: vote.NodeID(name), Dir: vote.Dir(name[1]-'0') + 1})
		}
		return all
	}
	voters, old, _ := strings.Cut(rest, "(")
	e.Lineage, e.Voters, e.Old = 5, read(voters), read(strings.TrimSuffix(old, ")"))
	return e
}

func talkDynamic(t *testing.T, e string, fresh bool) *dynamicTalk {
	f := &dynamicTalk{newTalk(), t}
	f.begin(e, fresh)
	return f
}

func (f *dynamicTalk) begin(e string, fresh bool) {
	f.v = New(Config{Self: vote.SessionID{Node: "v0", Incarnation: 9}, Dir: 1, Electorate: electorate(e), MaxTTL: time.Second, Fresh: fresh}, f.now)
	f.pass(0)
}

// elect has the voter apply another electorate, and returns the voter's messages.
func (f *dynamicTalk) elect(e string, change func(*vote.Electorate)) string {
	next := electorate(e)
	if change != nil {
		change(&next)
	}
	f.buf.Reset()
	f.hear(f.v.Reconfigure(f.now, next, true, nil))
	return f.buf.String()
}

func (f *dynamicTalk) says(want string, lines ...string) {
	f.t.Helper()
	if got := f.said(f.t, lines...); got != want {
		f.t.Fatalf("%q: it says\n%swant\n%s", lines, got, want)
	}
}

func (f *dynamicTalk) counts(want bool) {
	f.t.Helper()
	if _, counting := f.v.Top(); counting != want || (f.v.Quiet() == 0) != want {
		f.t.Fatalf("counting: %v, quiet for %v", counting, f.v.Quiet())
	}
}

func TestAVoterWithANewDirectoryIsNotQuiet(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.counts(false) // v0 isn't a voter
	f.says("    a: refused \"the node asked is not a voter\"\n    a: unknown\n", "a opens")
	f.elect("1: v0 v1 v2", nil)
	f.counts(true)
	f.says("    a: answer generation=1\n    a: promise 1 serial=1 token=32\n", "a opens", "a asks 1:k at=10")
}

// A requester under an electorate of another birth can't use any vote, and its requests would only
// block keys.
func TestASessionOfAnotherBirthIsRefused(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", func(e *vote.Electorate) { e.Version = vote.BirthVersion(1<<40) + 2 })
	open := func(epoch uint64) vote.Message {
		out := f.v.Step(f.now, 7, vote.SessionID{Node: "r", Incarnation: 3}, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: time.Second, Epoch: epoch}, nil)
		if len(out) == 0 {
			return vote.Message{}
		}
		return out[0].Message
	}
	for _, other := range []uint64{0, 3, vote.BirthVersion(2<<40) + 2} {
		if m := open(other); m.Kind != vote.KindRefused || m.Reason != vote.ReasonNotVoter {
			t.Errorf("a session under %d: %+v", other, m)
		}
	}
	if m := open(vote.BirthVersion(1<<40) + 1); m.Kind == vote.KindRefused {
		t.Errorf("a session of this birth: %+v", m)
	}
}

// A founder of a mesh that is born by count is quiet for a maximum TTL, asks no other voter, and
// begins its tokens at the wall clock.
func TestAFounderIsQuietAndAsksNoOtherVoter(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.v = New(Config{Self: vote.SessionID{Node: "v0", Incarnation: 9}, Dir: 1, Electorate: electorate("1: v0 v1 v2"), MaxTTL: time.Second, Born: true}, f.now)
	f.counts(false)
	f.says("    a: answer quiet=1s generation=1\n", "a opens", "a asks 1:k at=10")
	f.says("", "pass 999ms")
	f.counts(false)
	f.pass(2 * time.Millisecond)
	f.counts(true)
	if f.v.MinToken() < vote.TokenAt(f.now.Wall-10_000) {
		t.Errorf("the minimum token is %d at %d", f.v.MinToken(), f.now.Wall)
	}
}

func TestAVoterWithAnOldDirectoryIsQuietFirst(t *testing.T) {
	f := talkDynamic(t, "0:", false)
	f.elect("1: v0 v1 v2", nil)
	f.counts(false)
	f.says("", "pass 500ms")
	f.says("    a: answer quiet=500ms generation=1\n", "a opens", "a asks 1:k at=10")
	f.says("    (asks the others)\n", "pass 500ms")
	f.says("    a: promise 1 serial=1 token=532\n", "v1 tells 500", "v2 tells 400")
}

func TestANewVoterBeginsToCountWithoutAsking(t *testing.T) {
	f := talkDynamic(t, "4: v1 v2 v3", false)
	f.says("", "pass 1s")
	f.counts(false)
	f.elect("5: v0 v1 v2 v3 v4 (v1 v2 v3)", nil)
	f.counts(true)
}

func TestAVoterThatIsVotedOutPromisesNothing(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", nil)
	f.all(t, "a opens", "b opens", "a asks 1:k at=10", "b asks 1:k at=20")
	if got := f.elect("2: v1 v2 (v0 v1 v2)", nil); got != "" {
		t.Fatalf("of a joint electorate it votes, and says\n%s", got)
	}
	f.counts(true)
	const out = "    a: refused \"the node asked is not a voter\"\n    b: refused \"the node asked is not a voter\"\n"
	if got := f.elect("3: v1 v2", nil); got != out {
		t.Fatalf("voted out, it says\n%s", got)
	}
	f.counts(false)
	f.says("    a: unknown\n", "a releases 1")
	f.says("    b: unknown\n", "b refreshes")
	f.says("    c: refused \"the node asked is not a voter\"\n    c: unknown\n    c: unknown\n", "c opens", "c asks 1:l at=10")
	f.says("", "pass 2s")
	if f.v.Counters().Promises != 1 {
		t.Fatalf("%+v", f.v.Counters())
	}
}

func TestAProcessThatIsNotTrustedIsNoVoter(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", nil)
	f.all(t, "a opens")
	f.buf.Reset()
	f.hear(f.v.Reconfigure(f.now, electorate("1: v0 v1 v2"), false, nil))
	if got := f.buf.String(); got != "    a: refused \"the node asked is not a voter\"\n" {
		t.Fatal(got)
	}
	f.counts(false)
}

func TestAnotherDirectoryOfTheSameNameIsNoVoter(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", func(e *vote.Electorate) { e.Voters[0].Dir = 77 })
	f.counts(false)
}

func TestAVoterThatIsVotedInServesWaitingRequests(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", nil)
	f.all(t, "a opens", "b opens", "a asks 1:k at=10", "b asks 1:k at=20")
	f.elect("3: v1 v2", nil)
	if got := f.elect("4: v0 v1 v2 (v1 v2)", nil); got != "" {
		t.Fatalf("nobody is connected, and it says\n%s", got)
	}
	f.counts(true)
	// The votes stand as long as the session does.
	f.says("    a: answer generation=1 [1 serial=1 token=32]\n    b: answer generation=2\n    b: promise 1 serial=2 token=64\n    a: released 1\n",
		"a syncs 1:k", "b syncs 1:k", "a releases 1")
}

func TestTheFloorOfTheElectorateIsAFloor(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", func(e *vote.Electorate) { e.MinToken = 70000 })
	if top, _ := f.v.Top(); top != 70000 {
		t.Fatalf("top %d", top)
	}
	f.says("    a: answer generation=1\n    a: promise 1 serial=1 token=70032\n", "a opens", "a asks 1:k at=10")
	f.elect("2: v0 v1 v2 (v0 v1 v2)", func(e *vote.Electorate) { e.MinToken = 60000 })
	f.says("    a: promise 2 serial=2 token=70032\n", "a asks 2:l at=10")
	// an impossible minimum token is ignored
	f.elect("3: v0 v1 v2", func(e *vote.Electorate) { e.MinToken = vote.MaxToken })
	if top, _ := f.v.Top(); top > 10_000_000 {
		t.Fatalf("top %d", top)
	}
}

func TestOfAJointElectorateBothHalvesMustRemember(t *testing.T) {
	for _, c := range []struct {
		e     string
		tells []string
		knows int // after how many answers the voter counts; zero: never
	}{
		{"1: v0 v1 v2", []string{"v1 tells 500", "v2 tells 400"}, 2},
		{"1: v0 v1 v2", []string{"v1 tells 500", "v1 tells 500", "v3 tells 9", "v2 tells 400 quiet"}, 0},
		{"2: v0 v1 v2 v3 v4 (v0 v1 v2)", []string{"v3 tells 500", "v4 tells 400", "v1 tells 500", "v2 tells 300"}, 4},
		{"2: v0 v1 v2 v3 v4 (v0 v1 v2)", []string{"v1 tells 500", "v2 tells 400", "v3 tells 500"}, 3},
		{"2: v0 v1 v2 v3 v4 (v0 v1 v2)", []string{"v1 tells 500", "v2 tells 400"}, 0},
		{"2: v0 v1 v2 v3 v4 (v0 v1 v2)", []string{"v3 tells 500", "v4 tells 400", "v1 tells 500", "v2 tells 300 quiet"}, 0},
		{"2: v1 v2 v3 (v0 v1 v2)", []string{"v1 tells 500", "v2 tells 300"}, 2},
		{"2: v1 v2 v3 (v0 v1 v2)", []string{"v3 tells 500", "v2 tells 300", "v1 tells 1"}, 3},
	} {
		f := talkDynamic(t, c.e, false)
		f.says("    (asks the others)\n", "pass 1s")
		for i, line := range c.tells {
			f.all(t, line)
			if _, counting := f.v.Top(); counting != (c.knows > 0 && i+1 >= c.knows) {
				t.Errorf("%s: %q, then %q: counting: %v", c.e, c.tells[:i], line, counting)
			}
		}
		if n := f.v.Counters().LastResort; n > 0 {
			t.Errorf("%s: the clock stood in", c.e)
		}
	}
}

func TestOfAJointElectorateBothHalvesMustAnswerForTheClockToStandIn(t *testing.T) {
	f := talkDynamic(t, "2: v0 v1 v2 v3 v4 (v0 v1 v2)", false)
	f.all(t, "pass 1s", "v3 tells 5 quiet", "v4 tells 5 quiet", "pass 2s")
	f.counts(false) // no old voter has answered
	f.all(t, "v1 tells 5 quiet")
	f.counts(true)
	if n := f.v.Counters().LastResort; n != 1 {
		t.Fatalf("the clock stood in %d times", n)
	}
	f = talkDynamic(t, "2: v0 v1 v2 (v0)", false) // the only old voter, but not the only new voter
	f.says("    (asks the others)\n", "pass 1s")
	f.counts(false)
	f = talkDynamic(t, "1: v0", false)
	f.all(t, "pass 1s")
	f.counts(true)
}

// A voter that asks for tokens while the electorate changes counts answers under the new
// electorate: a voter asked before may have lost its vote.
func TestAnswersCountUnderTheElectorateThatIs(t *testing.T) {
	f := talkDynamic(t, "1: v0 v1 v2", false)
	f.all(t, "pass 1s", "v1 tells 500")
	f.counts(false)
	f.elect("2: v0 v1 (v0 v1 v2)", nil)
	f.counts(false) // two old voters must still answer
	f.elect("3: v0 v1", nil)
	f.counts(true) // of two voters a single answer is enough
}

func TestMessagesNameTheVersion(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.v.Reconfigure(f.now, electorate("7: v0 v1 v2"), true, nil)
	from := vote.SessionID{Node: "a", Incarnation: 1}
	versions := map[vote.Kind]uint64{}
	say := func(m vote.Message) {
		m.Stream = 1
		for _, o := range f.v.Step(f.now, 1, from, &m, nil) {
			versions[o.Message.Kind] = o.Message.Epoch
			if o.Message.Kind == vote.KindAnswer && o.Message.Dir != 1 {
				t.Errorf("the answer is of directory %d", o.Message.Dir)
			}
		}
	}
	hello := func() {
		say(vote.Message{Kind: vote.KindOpen, TTL: time.Second})
	}
	hello()
	say(vote.Message{Kind: vote.KindSync, End: true})
	say(vote.Message{Kind: vote.KindRequest, Number: 1, Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: 300 * time.Millisecond}})
	say(vote.Message{Kind: vote.KindExtend, Number: 1, Serial: 1})
	say(vote.Message{Kind: vote.KindRefresh})
	for _, k := range []vote.Kind{vote.KindAnswer, vote.KindPromise, vote.KindExtended, vote.KindAck} {
		if versions[k] != 7 {
			t.Errorf("%s tells version %d", k, versions[k])
		}
	}
	f.v.Reconfigure(f.now, electorate("9: v1 v2"), true, nil)
	from.Incarnation = 2
	hello()
	if versions[vote.KindRefused] != 9 {
		t.Errorf("the refusal tells version %d", versions[vote.KindRefused])
	}
	if f.v.ConfigEpoch() != 9 {
		t.Errorf("%d", f.v.ConfigEpoch())
	}
}

// session opens a session of node a, and returns a function that sends the session's messages.
func (f *dynamicTalk) session() func(m vote.Message) []vote.Outbound {
	step := func(m vote.Message) []vote.Outbound {
		m.Stream = 1
		return f.v.Step(f.now, 1, vote.SessionID{Node: "a", Incarnation: 1}, &m, nil)
	}
	step(vote.Message{Kind: vote.KindOpen, TTL: time.Second})
	step(vote.Message{Kind: vote.KindSync, End: true})
	return step
}

// A new voter's vote under a joint electorate may propose any token, since a majority of the old
// voters proposes larger tokens. Once the new voters decide alone, the token of the vote is raised
// to the minimum token.
func TestVotesThatHaveNotWonAreRaisedToTheFloor(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("2: v0 v1 v2 (v1 v2)", nil)
	step := f.session()
	for n, key := range []vote.Key{"waits", "won"} {
		out := step(vote.Message{Kind: vote.KindRequest, Number: vote.Number(n + 1), Spec: vote.Spec{Key: key, Mode: vote.Exclusive}, TokenHint: 100})
		if m := out[0].Message; m.Kind != vote.KindPromise || m.Token != 100 {
			t.Fatalf("%+v", m)
		}
	}
	step(vote.Message{Kind: vote.KindConfirm, Number: 2, Serial: 2, Token: 100, Won: true})
	for i, want := range []vote.Token{0, 0, 0, 5000} {
		e := electorate(fmt.Sprintf("%d: v0 v1 v2", i+3))
		e.MinToken = want
		out := f.v.Reconfigure(f.now, e, true, nil)
		switch {
		case want == 0 && len(out) > 0:
			t.Fatalf("without a minimum token it says %+v", out)
		case want == 0:
		case len(out) != 1 || out[0].Message.Kind != vote.KindConfirmed || out[0].Message.Number != 1 || out[0].Message.Serial != 1 || out[0].Message.Token != want+vote.BlockSize:
			t.Fatalf("with minimum token %d it says %+v", want, out)
		}
	}
	// The voter doesn't confirm a smaller token: the larger token is on its way to the tally.
	if out := step(vote.Message{Kind: vote.KindConfirm, Number: 1, Serial: 1, Token: 116}); len(out) > 0 {
		t.Fatalf("it says %+v", out)
	}
	if top, _ := f.v.Top(); top != 5000+vote.BlockSize {
		t.Fatalf("the largest token is %d", top)
	}
}

// A voter that is voted out receives no more answers to its probe, so the voter can't tell which of
// two processes with a duplicate name is alive.
func TestAVoterThatIsVotedOutJudgesNoIncarnations(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", nil)
	f.all(t, "a opens", "a2 opens", "a2 lives") // the voter probes whether a is alive
	f.elect("2: v1 v2 v3 (v0 v1 v2)", nil)
	f.elect("3: v1 v2 v3", nil)
	f.all(t, "a lives", "pass 300ms")
	f.elect("4: v0 v1 v2 (v1 v2 v3)", nil)
	f.says("    a: answer generation=1\n", "a opens")
}

// A vote that hasn't won gets a token above the minimum token of the final electorate, also where
// this voter's own minimum token is as large already: a key used and forgotten while the electorate
// was joint raises the voter's minimum token, and binds no vote for another key.
func TestVotesAreRaisedThoughAForgottenKeyHasRaisedTheMinimum(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("2: v0 v1 v2 (v1 v2)", nil)
	step := f.session()
	for n, want := range []vote.Token{5000, 5_000_000_000_000_000} { // the second looks wrong at first
		number := vote.Number(n + 1)
		key := vote.Key(fmt.Sprint("k", n))
		out := step(vote.Message{Kind: vote.KindRequest, Number: number, Spec: vote.Spec{Key: key, Mode: vote.Exclusive}, TokenHint: 100})
		if m := out[len(out)-1].Message; m.Kind != vote.KindPromise || m.Token >= want {
			t.Fatalf("%+v", m)
		}
		e := electorate(fmt.Sprintf("%d: v0 v1 v2", n+3))
		e.MinToken = want
		if refused := !f.v.trusted(want); refused {
			f.v.Reconfigure(f.now, e, true, nil)
			f.v.tokens.raiseMin(want) // as a forgotten key does
			f.v.begin(f.now, nil)
			f.v.now.Wall = vote.Micros(want)
			f.v.recheckTokens() // as another voter's answer does
			out = f.v.end()
		} else {
			f.v.tokens.raiseMin(want)
			out = f.v.Reconfigure(f.now, e, true, nil)
		}
		confirmed := 0
		for _, o := range out {
			if m := o.Message; m.Kind == vote.KindConfirmed && m.Number == number && m.Token >= want.Above() {
				confirmed++
			}
		}
		if confirmed != 1 {
			t.Errorf("with minimum token %d it says %+v", want, out)
		}
	}
}

// A minimum token that was refused applies once this voter's own clock shows that it is right, also
// if no other voter has answered.
func TestARefusedMinimumTokenAppliesOnceTheClockIsSet(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("2: v0 v1 v2 (v1 v2)", nil)
	e := electorate("3: v0 v1 v2")
	e.MinToken = 5_000_000_000_000_000
	f.v.Reconfigure(f.now, e, true, nil)
	if m := f.v.MinToken(); m >= e.MinToken {
		t.Fatalf("the minimum token %d isn't refused: %d", e.MinToken, m)
	}
	pass := func(d time.Duration) {
		f.now.Slow, f.now.Fast = f.now.Slow.Add(d), f.now.Fast.Add(d)
		f.v.Tick(f.now, nil)
	}
	pass(vote.TokenQueryTimeout) // nothing is answered
	f.now.Wall = vote.Micros(e.MinToken)
	pass(trustPause)
	if m := f.v.MinToken(); m < e.MinToken {
		t.Errorf("the minimum token is %d, want %d", m, e.MinToken)
	}
}
