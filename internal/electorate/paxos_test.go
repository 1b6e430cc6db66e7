package electorate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestAPromiseIsAnsweredOnceItIsStored(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", prepare(4, ballot(5, 7)))
	b.expect("")
	if s := b.save(""); s.Promised != ballot(5, 7) || s.Writes != 12 {
		t.Fatalf("stored %+v", s)
	}
	b.expect("b: prepared 5/7")
	b.say("b", prepare(4, ballot(5, 7))) // repeated: the promise is stored
	b.expect("b: prepared 5/7")

	b.say("b", accept(ballot(5, 7), "4: a b (a b c)"))
	b.expect("")
	if s := b.save(""); s.Accepted != ballot(5, 7) || text(&s.Value) != "4: a, b (a, b, c)" {
		t.Fatalf("stored %+v", s)
	}
	b.expect("b: accepted 5/7")

	b.say("c", prepare(4, ballot(4, 9)))
	b.expect("c: prepared 4/9 promised 5/7")
	b.say("c", accept(ballot(4, 9), "4: a c (a b c)"))
	b.expect("c: accepted 4/9 promised 5/7")
	b.say("c", prepare(4, ballot(6, 9)))
	b.save("")
	b.expect("c: prepared 6/9 accepted 5/7 4: a, b (a, b, c)")
	b.say("b", accept(ballot(5, 7), "4: a b (a b c)")) // sent twice, or late
	b.expect("b: accepted 5/7 promised 6/9")
	if len(b.m.Saves()) > 0 {
		t.Fatal("a refusal is stored")
	}
}

func TestAnAcceptanceWithoutAPromiseBefore(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", accept(ballot(5, 7), "4: a b (a b c)"))
	b.save("")
	b.expect("b: accepted 5/7")
	b.say("c", prepare(4, ballot(5, 6)))
	b.expect("c: prepared 5/6 promised 5/7")
	b.say("c", accept(ballot(5, 8), "4: a c (a b c)")) // the same number, and another ballot
	if s := b.save(""); text(&s.Value) != "4: a, c (a, b, c)" || s.Accepted != ballot(5, 8) || s.Promised != ballot(5, 8) {
		t.Fatalf("stored %+v", s)
	}
	b.expect("c: accepted 5/8")
}

func TestANewIncarnationGoesOnBeyondWhatItHasPromised(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", prepare(4, ballot(5, 7)))
	b.restart(b.save(""), 2)
	b.m.run(electorate("4: a b (a b c)"))
	if a := b.m.race.ballot; a != ballot(6, 2) {
		t.Fatalf("%+v", a)
	}
}

func TestAVoterThatPromisedLetsTheOtherBallotEnd(t *testing.T) {
	b := scene(t, "3: a b c", "b c=left")
	b.say("b", prepare(4, ballot(5, 7)))
	b.save("")
	b.sent()
	for end := b.now.Slow.Add(b.m.raceTime()); b.now.Slow < end-1; {
		b.pass(min(b.m.pollEvery(), end.Sub(b.now.Slow)-1))
		b.report("b", 0)
		if got := b.sent(); got != "" {
			t.Fatalf("it says %q", got)
		}
	}
	b.pass(1)
	if b.m.race == nil {
		t.Fatal("it leaves it at that")
	}
}

func TestAVoterThatCantStoreProposesNothing(t *testing.T) {
	b := scene(t, "3: a b c", "b c=left")
	b.say("b", prepare(4, ballot(5, 7)))
	b.save("no room")
	b.sent()
	for range 20 * 5 {
		b.pass(b.m.pollEvery())
		b.report("b", 0)
		if b.m.race != nil {
			t.Fatal("it makes an ballot")
		}
		for _, s := range b.m.Saves() {
			b.m.Saved(b.now, s.Writes, "no room")
		}
	}
	for len(b.m.saves) == 0 {
		b.pass(b.m.pollEvery())
		b.report("b", 0)
	}
	b.save("")
	b.pass(b.m.pollEvery())
	b.report("b", 0)
	if b.m.race == nil {
		t.Fatal("its disk is well, and it makes no ballot")
	}
}

func TestAFailedSaveAnswersNothing(t *testing.T) {
	b := newBench(t, "3: a b c")
	for i := range 3 {
		b.say("b", prepare(4, ballot(5, 7)))
		b.save("no room")
		b.expect("")
		if a := b.m.Alarms(); (len(a) > 0) != (i == 0) {
			t.Fatalf("failure %d: alarms %q", i, a)
		}
		b.pass(saveAgain - 1)
		if len(b.m.Saves()) > 0 {
			t.Fatal("it is tried again at once")
		}
		b.pass(1)
	}
	if s := b.m.Status(b.now).Trouble; s != "the state directory can't be written: no room" {
		t.Fatal(s)
	}
	b.expect("")
	b.save("") // no answer waits for this save any more
	b.expect("")
	b.say("b", prepare(4, ballot(5, 7)))
	b.expect("b: prepared 5/7")
	if s := b.m.Status(b.now).Trouble; s != "" {
		t.Fatal(s)
	}
	b.say("b", prepare(4, ballot(6, 7)))
	b.save("no room")
	if a := b.m.Alarms(); len(a) != 1 {
		t.Fatalf("it is broken once more: alarms %q", a)
	}
}

func TestANodeWithoutAVoteTriesItsDiskAgainToo(t *testing.T) {
	b := scene(t, "3: b c d", "b c d")
	e := electorate("5: b c")
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	b.save("no room")
	if want := b.now.Slow.Add(saveAgain); b.m.Next() != want {
		t.Fatalf("it is woken at %d, want %d", b.m.Next(), want)
	}
	b.pass(saveAgain)
	if s := b.save(""); s.Electorate.Version != 5 {
		t.Fatalf("%+v", s)
	}
	if b.m.Next() != vote.Never {
		t.Fatal("it is woken for nothing")
	}
}

func TestAnswersWaitForTheSaveThatHasThem(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", prepare(4, ballot(5, 7)))
	first := b.m.Saves()[0]
	b.say("c", prepare(4, ballot(6, 9)))
	b.m.Saved(b.now, first.Writes+1, "") // an unknown save
	b.expect("")
	b.m.Saved(b.now, first.Writes, "")
	b.expect("b: prepared 5/7")
	if s := b.save(""); s.Promised != ballot(6, 9) {
		t.Fatalf("%+v", s)
	}
	b.expect("c: prepared 6/9")
}

func TestANodeWithoutAVoteSaysNothing(t *testing.T) {
	b := newBench(t, "3: b c d")
	b.say("b", prepare(4, ballot(5, 7)))
	b.say("b", accept(ballot(5, 7), "4: b c (b c d)"))
	b.say("b", prepare(9, ballot(5, 7)))
	b.expect("")
	b = newBench(t, "3: a b c")
	b.say("b", prepare(5, ballot(5, 7))) // a version still unknown to a
	b.say("b", accept(ballot(5, 7), "4: a b"))
	b.say("b", accept(ballot(5, 7), "4: a b (a b d)"))
	b.expect("")
	b.m.Distrust(b.now, "c")
	b.say("b", prepare(4, ballot(5, 7)))
	b.expect("")
	if len(b.m.Saves()) > 0 {
		t.Fatal("it takes part")
	}
}

func TestAnElectionThatIsOverIsAnsweredWithItsResult(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", prepare(3, ballot(5, 7)))
	b.expect("b: electorate 3: a, b, c")
	b.say("c", accept(ballot(5, 7), "2: a b c (a b)"))
	b.expect("c: electorate 3: a, b, c")
}

func TestAProposerNeedsTwoMajorities(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	b.expect("a: prepare 1/1; b: prepare 1/1; c: prepare 1/1")
	promise := func(dir vote.Dir, accepted vote.Ballot, e string) vote.Message {
		m := vote.Message{Kind: vote.KindPrepared, Version: 4, Consensus: &vote.Consensus{Ballot: ballot(1, 1), Promised: ballot(1, 1), Dir: dir, Accepted: accepted}}
		if e != "" {
			m.Consensus.Electorate = electorate(e)
		}
		return m
	}
	b.say("b", promise(2, vote.Ballot{}, ""))
	b.say("b", promise(2, vote.Ballot{}, "")) // a repeated promise counts once
	b.say("c", promise(33, vote.Ballot{}, ""))
	b.expect("") // another directory is no voter
	b.say("c", promise(3, ballot(1, 0), "4: a c (a b c)"))
	b.expect("a: accept 1/1 4: a, c (a, b, c); b: accept 1/1 4: a, c (a, b, c); c: accept 1/1 4: a, c (a, b, c)")
	accepted := func(dir vote.Dir) vote.Message {
		return vote.Message{Kind: vote.KindAccepted, Version: 4, Consensus: &vote.Consensus{Ballot: ballot(1, 1), Promised: ballot(1, 1), Dir: dir}}
	}
	b.say("b", accepted(2))
	b.say("c", promise(3, vote.Ballot{}, "")) // a message of the phase before
	if b.m.Known().Version != 3 {
		t.Fatal("one of three decides")
	}
	b.say("c", accepted(3))
	if text(b.m.Known()) != "4: a, c (a, b, c)" || b.m.Stored().Version != 3 {
		t.Fatalf("decided %v", text(b.m.Known()))
	}
	b.expect("b: electorate 4: a, c (a, b, c); c: electorate 4: a, c (a, b, c)")
}

func TestOfWhatWasAcceptedTheNewestCounts(t *testing.T) {
	newer := func(say func(vote.NodeID, vote.Ballot, string)) { say("b", ballot(1, 0), "4: a b (a b c)") }
	older := func(say func(vote.NodeID, vote.Ballot, string)) { say("c", ballot(0, 9), "4: a c (a b c)") }
	for _, order := range [][]func(func(vote.NodeID, vote.Ballot, string)){{newer, older}, {older, newer}} {
		b := newBench(t, "3: a b c")
		b.m.run(electorate("4: a b c d e (a b c)"))
		b.sent()
		for _, said := range order {
			said(func(from vote.NodeID, accepted vote.Ballot, e string) {
				b.say(from, vote.Message{Kind: vote.KindPrepared, Version: 4, Consensus: &vote.Consensus{
					Ballot: ballot(1, 1), Promised: ballot(1, 1), Dir: vote.Dir(conn(from)), Accepted: accepted, Electorate: electorate(e),
				}})
			})
		}
		if got := b.sent(); !strings.HasPrefix(got, "a: accept 1/1 4: a, b (a, b, c)") {
			t.Fatal(got)
		}
	}
}

// A promise for an earlier ballot is no evidence of later acceptances by its voter.
func TestPromisesForAnEarlierBallotDoNotCount(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	b.m.race = nil // the first ballot was given up
	b.m.run(electorate("4: a b (a b c)"))
	b.sent()
	say := func(from vote.NodeID, kind vote.Kind, a vote.Ballot) {
		b.say(from, vote.Message{Kind: kind, Version: 4, Consensus: &vote.Consensus{Ballot: a, Promised: a, Dir: vote.Dir(conn(from))}})
	}
	say("b", vote.KindPrepared, ballot(1, 1))
	say("c", vote.KindPrepared, ballot(1, 1))
	b.expect("")
	say("b", vote.KindPrepared, ballot(2, 1))
	say("c", vote.KindPrepared, ballot(2, 1))
	if got := b.sent(); !strings.HasPrefix(got, "a: accept 2/1") {
		t.Fatal(got)
	}
	say("b", vote.KindAccepted, ballot(1, 1))
	say("c", vote.KindAccepted, ballot(1, 1))
	if b.m.Known().Version != 3 {
		t.Fatal("decided by what was accepted of an earlier ballot")
	}
}

// quarrel has each of three nodes propose another electorate for the same version, again and again,
// while messages of the election are lost, or come late and in any order. quarrel returns the
// electorates considered as decided by any node.
func quarrel(t *testing.T, seed uint64) map[string]bool {
	rng := rand.New(rand.NewPCG(seed, 9))
	l := founded(t, "a b c")
	wishes := map[vote.NodeID]string{"a": "a b", "b": "b c", "c": "a c"}
	decided := map[string]bool{}
	for range 120 {
		u := l.units[l.names[rng.IntN(3)]]
		if i := len(l.mail); i > 0 && rng.IntN(8) > 0 {
			i = rng.IntN(i)
			m := l.mail[i]
			l.mail = slices.Delete(l.mail, i, i+1)
			switch m.m.Kind {
			case vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted:
				if rng.IntN(6) > 0 {
					l.deliver(m)
				}
			}
		} else if u.m.Known().Version == 1 && rng.IntN(2) == 0 {
			e := u.m.Known()
			next := vote.Electorate{Version: 2, Lineage: e.Lineage, Old: e.Voters, Most: e.Most, MaxTTL: e.MaxTTL, OldMaxTTL: e.MaxTTL}
			for _, v := range e.Voters {
				if strings.Contains(wishes[u.self.Node], string(v.Name)) {
					next.Voters = append(next.Voters, v)
				}
			}
			u.m.run(next)
			l.collect(u)
		}
		for _, name := range l.names {
			if e := l.units[name].m.Known(); e.Version == 2 {
				decided[text(e)] = true
			}
		}
	}
	return decided
}

// Here, unlike elsewhere, the proposers never wait for each other. With proposers that take turns,
// no test failed for a proposer that goes on with the first accepted electorate reported, nor for a
// proposer that counts promises for an earlier ballot.
func TestProposersThatQuarrelDecideOneElectorate(t *testing.T) {
	some := 0
	for seed := range uint64(300) {
		if d := quarrel(t, seed); len(d) > 1 {
			t.Fatalf("seed %d: %d electorates of one version: %v", seed, len(d), d)
		} else {
			some += len(d)
		}
	}
	if some < 75 {
		t.Fatalf("only %d of 300 were decided", some)
	}
}

func TestAProposerGivesWayToALaterBallot(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	b.sent()
	b.say("b", vote.Message{Kind: vote.KindPrepared, Version: 4, Consensus: &vote.Consensus{Ballot: ballot(1, 1), Promised: ballot(8, 7), Dir: 2}})
	if b.m.race != nil {
		t.Fatal("it goes on")
	}
	b.m.run(electorate("4: a b (a b c)"))
	if got := b.sent(); !strings.HasPrefix(got, "a: prepare 9/1") {
		t.Fatalf("its next ballot isn't later: %q", got)
	}
}

func TestABallotIsGivenUpInTime(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	until := b.m.race.until
	b.pass(b.m.raceTime() - 1)
	if b.m.race == nil || b.m.Next() > until {
		t.Fatal("given up too soon, or nothing wakes it")
	}
	b.pass(1)
	if b.m.race != nil {
		t.Fatal("not given up")
	}
}

// A process that dies before its own promise is stored gives its next proposal, which may have
// another value, the same ballot number. The incarnation tells the two ballots apart.
func TestTwoIncarnationsOfADirectoryNeverUseOneBallot(t *testing.T) {
	b := newBench(t, "3: a b c")
	disk := b.m.stored
	b.m.run(electorate("4: a b (a b c)"))
	first := b.m.race.ballot
	b.restart(disk, 2) // nothing was stored
	b.m.run(electorate("4: a c (a b c)"))
	if second := b.m.race.ballot; second == first || second.Counter != first.Counter {
		t.Fatalf("ballots %v and %v", first, second)
	}
}

// A proposer dies after each number of delivered messages, and proposes another electorate in its
// next incarnation. All nodes must decide the same electorate.
func TestAProposerThatDiesAfterEachStep(t *testing.T) {
	sampled.Computes(t)
	for step := range 40 {
		l := founded(t, "a b c")
		// a wants to change the electorate, and dies after this number of delivered messages. In
		// every second run a's disk stores nothing from the proposal on.
		u := l.units["a"]
		u.slow = step%2 == 1
		l.units["a"].m.run(vote.Electorate{Version: 2, Lineage: u.m.Known().Lineage, Voters: u.m.Known().Voters[:2], Old: u.m.Known().Voters, Most: MaxVoters, MaxTTL: maxTTL, OldMaxTTL: maxTTL})
		l.collect(u)
		for range step / 2 {
			if len(l.mail) > 0 {
				m := l.mail[0]
				l.mail = l.mail[1:]
				l.deliver(m)
			}
		}
		l.stop("a")
		l.mail = nil
		u.slow = false
		l.start("a", false)
		l.units["a"].m.run(vote.Electorate{Version: 2, Lineage: u.m.Known().Lineage, Voters: u.m.Known().Voters[1:], Old: u.m.Known().Voters, Most: MaxVoters, MaxTTL: maxTTL, OldMaxTTL: maxTTL})
		l.collect(u)
		l.pass(5 * maxTTL)
		var second []string
		for _, name := range l.names {
			second = append(second, text(l.units[name].m.Known()))
			if len(l.units[name].alarms) > 0 {
				t.Errorf("step %d: %s raises %q", step, name, l.units[name].alarms)
			}
		}
		if slices.Sort(second); second[0] != second[2] || second[0] == "1: a, b, c" {
			t.Errorf("step %d: %q", step, second)
		}
	}
}

// anarchy lets proposers propose at random, over lossy links, with failing disks and dying
// processes. Each version must have a single decided electorate.
func anarchy(t *testing.T, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	l := founded(t, "a b c")
	decided := map[uint64]vote.Electorate{}
	l.lose = func(m letter) bool { return m.conn != vote.LocalConn && rng.IntN(4) == 0 }
	note := func() {
		for _, name := range l.names {
			u := l.units[name]
			if u.m == nil {
				continue
			}
			e := *u.m.Known()
			if was, ok := decided[e.Version]; ok && !was.Equal(&e) {
				t.Fatalf("seed %d: version %d is both %s and %s", seed, e.Version, text(&was), text(&e))
			}
			decided[e.Version] = e
		}
	}
	for range 300 {
		name := l.names[rng.IntN(len(l.names))]
		u := l.units[name]
		switch rng.IntN(8) {
		case 0, 1:
			e := u.m.Known()
			next := vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Voters, Most: MaxVoters, MaxTTL: e.MaxTTL}
			if !e.Joint() { // a majority stays, so some proposer can always go on
				next.Old, next.OldMaxTTL = e.Voters, e.MaxTTL
				next.Voters = decidedFirst(rng, l)
			}
			if u.m.member() {
				u.m.run(next)
				l.collect(u)
			}
		case 2:
			u.slow = !u.slow
		case 3:
			if rng.IntN(3) == 0 {
				l.stop(string(name))
				l.start(string(name), false)
			}
		case 4:
			if len(u.saves) > 0 {
				if rng.IntN(3) == 0 {
					u.broken = "broken"
				}
				l.flush(u)
				u.broken = ""
				l.collect(u)
			}
		default:
			for range rng.IntN(12) {
				if len(l.mail) > 0 {
					i := rng.IntN(len(l.mail))
					m := l.mail[i]
					l.mail = slices.Delete(l.mail, i, i+1)
					if !l.lose(m) {
						l.deliver(m)
					}
				}
			}
		}
		note()
	}
	newest := uint64(0)
	for v := range decided {
		newest = max(newest, v)
	}
	return fmt.Sprintf("%d versions; %s", newest, strings.Join(l.talk, ", "))
}

// decidedFirst draws two or three of the founders.
func decidedFirst(rng *rand.Rand, l *lab) []vote.Elector {
	var all []vote.Elector
	for _, name := range l.names {
		all = append(all, vote.Elector{Name: name, Dir: l.units[name].disk.Dir})
	}
	if i := rng.IntN(4); i < 3 {
		all = slices.Delete(all, i, i+1)
	}
	return all
}

func TestOfEachVersionThereIsOne(t *testing.T) {
	sampled.Computes(t)
	most := 0
	for seed := range uint64(60) {
		var n int
		_, _ = fmt.Sscan(anarchy(t, seed), &n)
		most = max(most, n)
	}
	if most < 4 {
		t.Fatalf("nothing was decided: version %d at best", most)
	}
}

func TestTheSameAgainGivesTheSame(t *testing.T) {
	for seed := range uint64(5) {
		if a, b := anarchy(t, seed), anarchy(t, seed); a != b {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}

func TestWhichElectorateMayBeNext(t *testing.T) {
	for _, c := range []struct {
		name, e, next string
		change        func(next *vote.Electorate)
		bad           string
	}{
		{"a joint one", "3: a b c", "4: a b c d e (a b c)", nil, ""},
		{"the end of a joint one", "4: a b (a b c)", "5: a b", nil, ""},
		{"others behind a higher minimum token", "4: a b (a b c)", "5: a b", func(e *vote.Electorate) { e.MinToken = 80 }, ""},
		{"the same voters, jointly", "3: a b c", "4: a b c (a b c)", nil, ""},
		{"too far", "3: a b c", "5: a b (a b c)", nil, "can't follow upon"},
		{"not at all", "3: a b c", "3: a b (a b c)", nil, "can't follow upon"},
		{"of another founding", "3: a b c", "4: a b (a b c)", func(e *vote.Electorate) { e.Lineage = 6 }, "another bootstrap"},
		{"at once", "3: a b c", "4: a b", nil, "isn't joint"},
		{"at once, the same", "3: a b c", "4: a b c", nil, "isn't joint"},
		{"joint with others", "3: a b c", "4: a b c d (a b)", nil, "isn't joint"},
		{"joint with another directory", "3: a b c", "4: a b (a b c)", func(e *vote.Electorate) { e.Old[2].Dir = 77 }, "isn't joint"},
		{"joint upon joint", "4: a b (a b c)", "5: a d (a b)", nil, "than the joint electorate 4 before it leads to"},
		{"the old ones again", "4: a b (a b c)", "5: a b c", nil, ""},
		{"neither", "4: a b (a b c)", "5: a", nil, "than the joint electorate 4 before it leads to"},
		{"a name twice", "3: a b c", "4: a b c (a b c)", func(e *vote.Electorate) { e.Voters[2].Dir = 77 }, `two voters called "c"`},
		{"nobody", "3: a b c", "4: (a b c)", nil, "no voters"},
		{"no order", "3: a b c", "4: b a (a b c)", nil, "aren't in order"},
		{"a minimum token that is no token", "3: a b c", "4: a b (a b c)", func(e *vote.Electorate) { e.MinToken = vote.MaxToken + 1 }, "the largest token"},
	} {
		e, next := electorate(c.e), electorate(c.next)
		if c.change != nil {
			c.change(&next)
		}
		err := CheckSuccessor(&e, &next)
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", c.name, err, c.bad)
		}
	}
	e, next := electorate("3: a b c"), electorate("4: a b (a b c)")
	e.MinToken, next.MinToken = 100, 99
	if CheckSuccessor(&e, &next) == nil {
		t.Error("the minimum token may fall")
	}
}

func TestTheFirstInOrderGoesFirst(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d e", false)
	l.pass(4 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
	for _, s := range l.talk {
		if strings.HasSuffix(s, " prepare") && s[0] != 'a' {
			t.Errorf("%s, while a is there", s)
		}
	}
	// Without a, the next in order proposes, a little later.
	l.start("f", false)
	l.talk = nil
	l.stop("a")
	l.pass(FailAfter(maxTTL) + 4*maxTTL + 500*time.Millisecond)
	l.want("b c d", "5: b, c, d, e, f")
	if !slices.Contains(l.talk, "b>c prepare") || slices.Contains(l.talk, "c>b prepare") {
		t.Error("b isn't the one that has done it")
	}
}
