package electorate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A leaving voter learns whether the electorate can spare the voter. If two of three voters leave,
// two stay unless they are replaced; a voter that can't be spared needn't wait.
func TestALeavingVoterKnowsWhetherItCanLeave(t *testing.T) {
	for _, c := range []struct{ name, e, others, want, stays string }{
		{"one of three", "3: a b c", "b c", "4: b c (a b c)", ""},
		{"two of three", "3: a b c", "b=leaving c", "4: b c (a b c)", ""},
		{"all of three", "3: a b c", "b=leaving c=leaving", "4: b c (a b c)", ""},
		{"all of three, and one stands by", "3: a b c", "b=leaving c=leaving d", "4: c d (a b c)", ""},
		{"one of three, and another will be on standby", "3: a b c", "b c d=new", "", ""},
		{"two of three, and another will be on standby", "3: a b c", "b=leaving c d=new", "", ""},
		{"one of three, and another will leave", "3: a b c", "b c d=newandleaving", "4: b c (a b c)", ""},
		{"one of three, and another can't vote", "3: a b c", "b c d=newnodir", "4: b c (a b c)", ""},
		{"one of three, and another has an old copy", "3: a b c", "b c d=newcopied", "4: b c (a b c)", ""},
		{"one of three, and another isn't on standby in time", "3: a b c", "b c d=behind", "4: b c (a b c)", ""},
		{"one of three that is replaced, and another will be on standby", "3: a b c", "b c d e=new", "4: b c d (a b c)", ""},
		{"one of five, and another will be on standby", "3: a b c d e", "b c d e f=new", "4: b c d (a b c d e)", ""},
		{"one of three, and another is gone", "3: a b c", "b c=gone", "", "the voters c are away and keep their seats"},
		{"one of three, another is gone, and one stands by", "3: a b c", "b c=gone d", "4: b c d (a b c)", ""},
		{"one of two", "3: a b", "b", "", "one of two voters"},
		{"one of two, and one stands by", "3: a b", "b d", "4: b d (a b)", ""},
		{"the only one", "3: a", "", "", "the only voter"},
		{"the only one, and one stands by", "3: a", "d", "4: d (a)", ""},
		{"the only one, and two stand by", "3: a", "d e", "4: d (a)", ""},
		{"the only one, and three stand by", "3: a", "d e f", "4: d e f (a)", ""},
	} {
		b := scene(t, c.e, c.others)
		b.m.Leave(b.now)
		got := ""
		if b.m.race != nil {
			v := b.m.race.value
			got = text(&v)
		}
		if c.want != "" {
			e := electorate(c.want)
			c.want = text(&e)
		}
		if s := b.m.Status(b.now).Stays; got != c.want || (s == "") != (c.stays == "") || !strings.Contains(s, c.stays) {
			t.Errorf("%s: it runs for %q, want %q; and says %q, want %q", c.name, got, c.want, s, c.stays)
		}
	}
	b := scene(t, "3: a b c", "b c")
	// A node that has just started may not be known yet.
	b.m.adopted = b.now.Slow.Add(1 - standbyMargin)
	b.m.Leave(b.now)
	if b.m.race != nil || b.m.Status(b.now).Stays != "" {
		t.Errorf("right after a change it runs for %v, and says %q", b.m.race, b.m.Status(b.now).Stays)
	}
	b.pass(2)
	if b.m.race == nil {
		t.Error("it doesn't leave once no node has come")
	}
	b = scene(t, "3: a b c", "b=gone c=gone")
	b.m.Leave(b.now)
	if s := b.m.Status(b.now).Stays; !strings.Contains(s, "too few of the voters") {
		t.Errorf("with nobody there it says %q", s)
	}
}

// An electorate with a minimum of three voters, born by count, gives up none of three without a
// replacement. Leave waits a MaxTTL for the start of a replacement, unless all leave at once, and
// longer where the mesh would be lost without the voter.
func TestAVoterBornByCountKnowsThatNoProcessTakesItsPlace(t *testing.T) {
	const none = "no other process is there to take its place"
	for _, c := range []struct {
		name, e, others, want string
		atOnce                bool // the answer doesn't wait for the start of a process
	}{
		{"one of three", "3: a b c", "b c", none, false},
		{"two of three", "3: a b c", "b=leaving c", "", false},
		{"all of three", "3: a b c", "b=leaving c=leaving", none, true},
		{"two of three, and another has just crashed", "3: a b c", "b=leaving c=away", none, true},
		{"two of three, and another is silent", "3: a b c", "b=leaving c=silentnow", "", false},
		{"one of three, and another has just crashed", "3: a b c", "b c=away", "", false},
		{"one of three, cut off a moment ago", "3: a b c", "b=cut c=cut", "", false},
		{"one of three, and one stands by", "3: a b c", "b c d", "", false},
		{"two of three, and one stands by", "3: a b c", "b=leaving c d", "", false},
		{"one of three, and another will be on standby", "3: a b c", "b c d=new", "", false},
		{"one of three, and another can't vote", "3: a b c", "b c d=newnodir", none, false},
		{"one of three, and another isn't on standby in time", "3: a b c", "b c d=behind", "", false},
		{"one of three, and another will leave", "3: a b c", "b c d=newandleaving", none, false},
		{"one of three, and another has crashed", "3: a b c", "b=gone c", "", false},
		{"one of five", "3: a b c d e", "b c d e", "", false},
		{"three of five", "3: a b c d e", "b=leaving c=leaving d e", "", false},
		{"all of five", "3: a b c d e", "b=leaving c=leaving d=leaving e=leaving", "", false},
		{"the only one", "3: a", "", "the only voter", true},
	} {
		b := scene(t, c.e, c.others)
		b.m.cfg.Expect, b.m.cfg.MinVoters = 3, 3
		b.m.noMajoritySince = 0 // until now
		b.m.Leave(b.now)
		first := b.m.Status(b.now).Stays
		b.m.leftAt = b.m.leftAt.Add(-b.m.maxTTL())
		if s := b.m.Status(b.now).Stays; (s == "") != (c.want == "") || !strings.Contains(s, c.want) || (first != "") != c.atOnce {
			t.Errorf("%s: it says %q, and at first %q, want %q", c.name, s, first, c.want)
		}
	}
}

// A node that reaches no other node may be the lost node itself, and its status asks to check
// Peers.
func TestANodeThatReachesNoOtherSaysSo(t *testing.T) {
	b := scene(t, "3: a b c", "b=never c=never")
	for _, o := range b.m.sorted() {
		o.up, o.seen, o.reportedAt = false, vote.Unseen, o.since
	}
	if s := b.m.Status(b.now).Lost; !strings.Contains(s, "check Peers") || !strings.Contains(s, "Only if a majority of electorate 3 (a, b, c) is lost for good") {
		t.Errorf("it says %q", s)
	}
}

// Both halves of the largest joint electorate together fit the limit of a set of voters.
func TestTheLargestElectorateCanBeChanged(t *testing.T) {
	var names, others []string
	for i := range vote.MaxVoters {
		name := fmt.Sprintf("a%02d", i)
		if i == 0 {
			name = "a"
		} else {
			others = append(others, name)
		}
		names = append(names, name)
	}
	others[5] += "=gone"
	others[6] += "=gone"
	others = append(others, "b", "c")
	b := scene(t, "3: "+strings.Join(names, " "), strings.Join(others, " "))
	b.m.cfg.MaxVoters, b.m.state.Electorate.Most = vote.MaxVoters, vote.MaxVoters
	target, reason := b.m.target()
	if target == nil {
		t.Fatal("nobody is voted out")
	}
	next := vote.Electorate{Version: 4, Voters: target, Old: b.m.state.Electorate.Voters}
	if err := next.Check(); err != nil {
		t.Errorf("%s: %v", reason, err)
	}
}

// A node without a majority learns of a newer electorate, also without a majority in reach. The
// absence of a majority counts from the beginning.
func TestANewerElectorateEndsNoAbsence(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.pass(maxTTL / 10) // b and c send nothing
	b.pass(maxTTL)
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: electorate("4: a d e")}})
	b.pass(maxTTL / 10)
	if got := text(b.m.Known()); got != "4: a, d, e" {
		t.Fatalf("a knows %q", got)
	}
	b.m.Leave(b.now)
	if b.m.Status(b.now).Stays == "" {
		t.Error("it waits for a majority that has been away for a maximum TTL")
	}
}

// A leaving voter isn't kept by nodes that start later than it began to leave, and a while for
// their first reports: where processes crash in a loop, under ever new names, there always is such
// a node. If several voters leave, the last to begin counts.
func TestANodeThatStartsAfterTheLeaveDoesNotDelayTheLeave(t *testing.T) {
	for _, c := range []struct {
		name, others string
		leave        func(b *bench, at vote.Instant)
	}{
		{"this voter", "b c d=new", func(b *bench, at vote.Instant) { b.m.leaving, b.m.leftAt = true, at }},
		{"a voter that says so", "b=leaving c d=new", func(b *bench, at vote.Instant) { b.m.others["b"].report.leavingSince = at }},
		{"a voter that gossip saw leave", "b=left c d=new", func(b *bench, at vote.Instant) { b.m.others["b"].since = at }},
		{"two, one of them long ago", "b=leaving c d=new", func(b *bench, at vote.Instant) {
			b.m.leaving, b.m.leftAt, b.m.others["b"].report.leavingSince = true, b.now.Slow.Add(-longAgo), at
		}},
	} {
		b := scene(t, "3: a b c", c.others)
		for _, after := range []time.Duration{standbyMargin, standbyMargin + 1} {
			c.leave(b, b.m.others["d"].since.Add(-after))
			if soon := b.m.standbySoon(); soon != (after <= standbyMargin) {
				t.Errorf("%s leaves, and a node starts %v later: it is waited for: %v", c.name, after, soon)
			}
		}
	}
}

// A voter began to leave with its first report of the leave. A new directory begins anew.
func TestAFurtherReportOfALeaveDoesNotBeginItAnew(t *testing.T) {
	b := scene(t, "3: a b c", "b c")
	o, first := b.m.others["b"], b.now.Slow
	report := func(dir vote.Dir, leaving bool) vote.Instant {
		b.now.Slow, b.now.Fast = b.now.Slow.Add(time.Second), b.now.Fast.Add(time.Second)
		b.m.begin(b.now)
		b.m.reported(o, &vote.Message{Epoch: 3, Consensus: &vote.Consensus{Dir: dir, Leaving: leaving}})
		return o.report.leavingSince
	}
	dir := o.dir
	report(dir, false)
	began := report(dir, true)
	if again := report(dir, true); began != first.Add(2*time.Second) || again != began {
		t.Errorf("the leave began at %v, and with the next report at %v", began, again)
	}
	if other := report(dir+50, true); other == began {
		t.Error("another node of the name took over the time of the leave")
	}
}
