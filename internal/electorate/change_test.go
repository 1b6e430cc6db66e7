package electorate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// longAgo is how long the scene has been unchanged.
const longAgo = time.Hour

// scene returns the machine of node a under an electorate, beside other nodes. A word behind a name
// describes the node: "b=gone".
func scene(t *testing.T, e, others string) *bench {
	b := &bench{t: t, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}}
	s := vote.DiskState{Mesh: "m", Name: "a", Dir: 1, Writes: 10, Electorate: electorate(e)}
	b.m = New(Config{Self: vote.SessionID{Node: "a", Incarnation: 1}, Founders: nodes("a"), MaxTTL: maxTTL}, s, b.now)
	b.m.SetOwnVoter(OwnVoter{Counting: true})
	b.save("")
	b.now.Fast, b.now.Slow = b.now.Fast.Add(longAgo), b.now.Slow.Add(longAgo)
	b.m.begin(b.now)
	since := make(map[vote.NodeID]time.Duration)
	ago := func(d time.Duration) vote.Instant { return b.now.Slow.Add(-d) }
	for _, f := range strings.Fields(others) {
		name, how, _ := strings.Cut(f, "=")
		dir := elector(name).Dir
		o := b.m.other(vote.NodeID(name))
		o.seen, o.dir, o.since, o.reportedAt, o.confirmed = vote.Alive, dir, ago(longAgo), b.now.Slow, true
		o.up, o.spoke, o.conn, o.incarnation = true, true, conn(o.name), 7
		since[o.name] = longAgo
		o.report = report{dir: dir, version: s.Electorate.Version, counting: true, stuckSince: ago(longAgo)}
		lost := func(d time.Duration) { o.up, o.reportedAt, since[o.name] = false, ago(d), d }
		switch how {
		case "": // all is well
		case "gone":
			lost(longAgo)
			o.seen = vote.Failed
		case "unseen": // gossip has forgotten the node
			lost(longAgo)
			o.seen, o.dir = vote.Unseen, 0
		case "away": // not quite long enough
			lost(FailAfter(maxTTL) - 1)
			o.seen = vote.Failed
		case "justfailed": // silent for long; in gossip failed only just now
			lost(longAgo)
			o.seen, o.since = vote.Failed, ago(FailAfter(maxTTL)-1)
		case "silent": // not connected, and alive in gossip
			lost(longAgo)
		case "silentnow":
			lost(FailAfter(maxTTL) - 1)
		case "failed": // failed in gossip; connected, and answers
			o.seen = vote.Failed
		case "cut": // the links and gossip have ended a moment ago
			lost(time.Millisecond)
			o.seen = vote.Failed
		case "left":
			lost(time.Millisecond)
			o.seen = vote.Left
		case "leftbutthere":
			o.seen = vote.Left
		case "leaving":
			o.report.leaving = true
		case "stuck":
			o.report.stuck = true
		case "stucknow":
			o.report.stuck, o.report.stuckSince = true, ago(FailAfter(maxTTL)-1)
		case "otherdir":
			o.dir, o.report.dir = 99, 99
		case "otherdirstuck": // and can't vote
			o.dir, o.report.dir, o.report.stuck = 99, 99, true
		case "otherdirnow":
			o.dir, o.report.dir, o.since = 99, 99, ago(SettleAfter(maxTTL)-1)
			since[o.name] = SettleAfter(maxTTL) - 1
		case "othertold": // gossip doesn't know the new directory yet
			o.report.dir = 99
		case "copied":
			o.copied, o.copiedAt = dir, ago(longAgo)
		case "copiednow":
			o.copied, o.copiedAt = dir, ago(FailAfter(maxTTL)-1)
		case "new":
			o.since = ago(SettleAfter(maxTTL) - 1)
		case "newandleaving":
			o.since, o.report.leaving = ago(SettleAfter(maxTTL)-1), true
		case "newcopied": // can't vote either
			o.since, o.copied, o.copiedAt = ago(SettleAfter(maxTTL)-1), dir, ago(longAgo)
		case "newnodir": // can't vote
			o.since, o.dir, o.report.dir = ago(SettleAfter(maxTTL)-1), 0, 0
		case "nodir":
			o.dir, o.report.dir = 0, 0
		case "behind":
			o.report.version--
		case "justmet":
			since[o.name] = SettleAfter(maxTTL) - 1
		case "never": // has never sent a message
			o.confirmed, o.spoke, o.report = false, false, report{}
		default:
			t.Fatalf("what is %q?", how)
		}
	}
	// A connected node has contact with the same nodes as a.
	reached := b.m.contacts()
	for _, o := range b.m.sorted() {
		if o.spoke && o.up {
			o.report.contacts = reached
		}
	}
	b.m.compareContacts()
	for v, t := range b.m.ties {
		if d, ok := since[v.Name]; ok {
			if o := b.m.others[v.Name]; !o.up || o.report.dir != v.Dir {
				t.last = ago(d)
			}
			t.met, t.cut = min(t.met, ago(d)), min(t.cut, ago(d))
		}
	}
	return b
}

func TestTheFateOfASeat(t *testing.T) {
	for _, c := range []struct {
		how    string
		want   decision
		reason string
	}{
		{"", stays, ""},
		{"gone", absent, "it is gone"},
		{"unseen", absent, "it is gone"},
		{"away", stays, ""},
		{"justfailed", absent, "it is gone"},
		{"silent", absent, "gossip sees it, and most voters can't connect to it"},
		{"failed", stays, ""},
		{"left", parts, "it has left"},
		{"leftbutthere", stays, ""},
		{"leaving", parts, "it leaves"},
		{"stuck", absent, "it can't write its state"},
		{"stucknow", stays, ""},
		{"otherdir", parts, "its state directory was replaced"},
		{"otherdirnow", stays, ""},
		{"otherdirstuck", absent, "its state directory was replaced"},
		{"copied", absent, "its state directory is an old copy"},
		{"copiednow", stays, ""},
		{"new", stays, ""},
		{"behind", stays, ""},
	} {
		b := scene(t, "3: a b c", "b="+c.how+" c")
		if got, reason := b.m.decisionOn(elector("b")); got != c.want || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", c.how, got, reason, c.want, c.reason)
		}
		if got, reason := b.m.decisionOn(elector("a")); got != stays || reason != "" {
			t.Errorf("%s: we are gone ourselves: %q", c.how, reason)
		}
	}
	b := scene(t, "3: a b c", "b c")
	if got, reason := b.m.decisionOn(vote.Elector{Name: "b", Dir: 2}); got != stays || reason != "" {
		t.Error(reason)
	}
	b.m.leaving = true
	if got, reason := b.m.decisionOn(elector("a")); got != parts || reason != "it leaves" {
		t.Errorf("leaving: %q", reason)
	}
	// A node that has just started doesn't vote out a voter from which nothing has been received
	// yet.
	b = newBench(t, "3: a b c")
	begun := b.now.Slow
	for b.now.Slow.Sub(begun) < FailAfter(maxTTL) {
		if got, reason := b.m.decisionOn(elector("c")); got != stays {
			t.Errorf("too soon, after %v: %q", b.now.Slow.Sub(begun), reason)
		}
		b.pass(b.m.pollEvery())
		b.report("b", 0)
	}
	for range 3 {
		b.pass(b.m.pollEvery())
		b.report("b", 0)
	}
	if got, reason := b.m.decisionOn(elector("c")); got != absent || reason != "it is gone" {
		t.Errorf("never heard of in all that time: %q", reason)
	}
	c := b.m.tie(elector("c"))
	c.cut, c.away = b.now.Slow-1, FailAfter(maxTTL)
	if got, reason := b.m.decisionOn(elector("c")); got != absent || reason != "most voters reach it for moments only" {
		t.Errorf("reached a moment ago: %q", reason)
	}
}

func TestWhichNodesAreOnStandby(t *testing.T) {
	for _, c := range []struct {
		how string
		is  bool
	}{
		{"", true}, {"new", false}, {"justmet", false}, {"failed", false}, {"silent", false}, {"gone", false}, {"left", false}, {"leaving", false}, {"stuck", false},
		{"copied", false}, {"othertold", false}, {"nodir", false}, {"behind", false}, {"never", false}, {"otherdir", true},
	} {
		b := scene(t, "3: a b c", "b c d="+c.how)
		if got := b.m.standby(b.m.others["d"]); got != c.is {
			t.Errorf("%s: %v, want %v", c.how, got, c.is)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		name, voters, others, want, reason string
		max                                int
	}{
		{"nobody else", "a", "", "", "", 0},
		{"one alone takes no second", "a", "b", "", "", 0},
		{"one alone takes two at a time", "a", "b c", "a b c", "b in, c in", 0},
		{"and no more than two", "a", "b c d e", "a b c", "b in, c in", 3},
		{"two take a third", "a b", "b c", "a b c", "c in", 0},
		{"two take one of two", "a b", "b c d", "a b c", "c in", 0},
		{"three take no fourth", "a b c", "b c d", "", "", 0},
		{"three take two", "a b c", "b c d e", "a b c d e", "d in, e in", 0},
		{"three take two of four: those who stay are a majority", "a b c", "b c d e f g", "a b c d e", "d in, e in", 0},
		{"five take two", "a b c d e", "b c d e f g", "a b c d e f g", "f in, g in", 0},
		{"seven are enough", "a b c d e f g", "b c d e f g h i", "", "", 0},
		{"unless more may be", "a b c d e f g", "b c d e f g h i", "a b c d e f g h i", "h in, i in", 9},
		{"there are too many", "a b c d e", "b c d e", "a b c", "e is on standby (the limit is 3 voters), d is on standby (the limit is 3 voters)", 3},
		{"too many, and one is gone", "a b c d e", "b c d e=gone f", "a b c", "e out (it is gone), d is on standby (the limit is 3 voters)", 3},
		{"too many, and one is gone that may come back", "a b c d e f g", "b c d=gone e=gone f g", "a b c f g", "d out (it is gone), e out (it is gone)", 5},
		{"two may be as many as there may be", "a b", "b c", "", "", 2},
		{"three stay three, though there may be two, of whom none may be lost", "a b c", "b c", "", "", 2},
		{"five aren't made fewer than three", "a b c d e", "b c d e", "a b c", "e is on standby (the limit is 3 voters), d is on standby (the limit is 3 voters)", 2},
		{"nor where there may be one", "a b c d e", "b c d e", "a b c", "e is on standby (the limit is 3 voters), d is on standby (the limit is 3 voters)", 1},
		{"where there may be one, a gone voter is voted out", "a b c", "b c=gone d", "a b d", "c out (it is gone), d in", 1},
		{"and with nobody else it keeps its seat", "a b c", "b c=gone", "", "", 1},
		{"and of two, of whom one can't say that the other is gone", "a b", "b=gone c", "", "", 1},
		{"one alone may stay alone", "a", "b c", "", "", 1},

		{"one of three is gone: its seat costs nothing, and it may come back", "a b c", "b c=gone", "", "", 0},
		{"or it can't write", "a b c", "b c=stuck", "", "", 0},
		{"or is an old copy", "a b c", "b c=copied", "", "", 0},
		{"and there is another", "a b c", "b c=gone d", "a b d", "c out (it is gone), d in", 0},
		{"and there are two others", "a b c", "b c=gone d e", "a b d", "c out (it is gone), d in", 0},
		{"two of three are gone: nothing can be decided", "a b c", "b=gone c=gone", "", "", 0},
		{"one of two is gone", "a b", "b=gone", "", "", 0},
		{"one of two is gone, and there is another", "a b", "b=gone c", "", "", 0},
		{"one of five is gone", "a b c d e", "b c d e=gone", "", "", 0},
		{"one of five is gone, and there is another", "a b c d e", "b c d e=gone f", "a b c d f", "e out (it is gone), f in", 0},
		{"two of five are gone: two votes are enough without them", "a b c d e", "b c d=gone e=gone", "a b c", "d out (it is gone), e out (it is gone)", 0},
		{"two of five are gone, and there is another", "a b c d e", "b c d=gone e=stuck f", "a b c e f", "d out (it is gone), f in", 0},
		{"who was heard last keeps the seat", "a b c d e", "b c d=stuck e=gone f", "a b c d f", "e out (it is gone), f in", 0},
		{"two of five are gone, and there are two others", "a b c d e", "b c d=gone e=gone f g", "a b c f g", "d out (it is gone), e out (it is gone), f in, g in", 0},
		{"one of four is gone", "a b c d", "b c d=gone", "a b c", "d out (it is gone)", 0},
		{"one of four is gone, and there is another", "a b c d", "b c d=gone e", "a b c", "d out (it is gone)", 0},
		{"two of six are gone", "a b c d e f", "b c d e=gone f=gone", "a b c d e", "f out (it is gone)", 0},
		{"one leaves and another is gone", "a b c d", "b c=leaving d=gone", "a b d", "c out (it leaves)", 0},
		{"one of five leaves", "a b c d e", "b c d e=leaving", "a b c", "e out (it leaves), d is on standby (an even number of voters tolerates no additional failure)", 0},
		{"one of five leaves: who stands by is who doesn't answer", "a b c d e", "b=away c d e=leaving", "a c d", "e out (it leaves), b is on standby (an even number of voters tolerates no additional failure)", 0},
		{"one of three leaves, by its own wish", "a b c", "b c=leaving", "a b", "c out (it leaves)", 0},
		{"one of three has left", "a b c", "b c=left", "a b", "c out (it has left)", 0},
		{"two of five are gone, one with a goodbye", "a b c d e", "b c d=gone e=left", "a b c", "d out (it is gone), e out (it has left)", 0},
		{"one of four leaves", "a b c d", "b c d=leaving", "a b c", "d out (it leaves)", 0},
		{"four are one too many", "a b c d", "b c d", "a b c", "d is on standby (an even number of voters tolerates no additional failure)", 0},
		{"four, or five", "a b c d", "b c d e", "a b c d e", "e in", 0},
		{"its directory was wiped", "a b c", "b c=otherdir", "a b", "c out (its state directory was replaced)", 0},
		{"its directory was wiped, and can't be written", "a b c", "b c=otherdirstuck", "", "", 0},

		{"who is in doubt stays", "a b c", "b=away c=failed", "", "", 0},
		{"gossip sees it, and most voters don't reach it", "a b c", "b c=silent d", "a b d", "c out (gossip sees it, and most voters can't connect to it), d in", 0},
		{"who may be back stays", "a b c", "b c=away d e", "a b c d e", "d in, e in", 0},
		{"but not with so many in doubt that the new majority isn't there", "a b c", "b=away c=away d=new", "", "", 0},
		{"the majority of the new isn't there", "a b c d e", "b=away c=away d=away e=gone", "", "", 0},
		{"nobody who isn't well is voted in", "a b c", "b c d=stuck e=copied f=behind g=new h=nodir", "", "", 0},
	} {
		b := scene(t, "3: "+c.voters, c.others)
		if c.max > 0 {
			b.m.cfg.MaxVoters, b.m.state.Electorate.Most = c.max, c.max
		}
		target, reason := b.m.target()
		if !slices.Equal(target, electors(c.want)) || reason != c.reason {
			t.Errorf("%s: %q (%s), want %q (%s)", c.name, names(target), reason, c.want, c.reason)
		}
	}
}

func TestALeavingVoterIsVotedOut(t *testing.T) {
	for _, c := range []struct{ voters, others, want string }{
		{"a b c", "b c", "b c"},
		{"a b c", "b c d", "b c d"},
		{"a b", "b", ""},
		{"a b", "b c", "b c"},
		{"a", "", ""},
		{"a", "b c d", "b c d"},
	} {
		b := scene(t, "3: "+c.voters, c.others)
		b.m.leaving = true
		if target, _ := b.m.target(); !slices.Equal(target, electors(c.want)) {
			t.Errorf("%s beside %s: %q, want %q", c.voters, c.others, names(target), c.want)
		}
	}
}

func TestTheLastNodeStandsByUnlessItProposes(t *testing.T) {
	b := scene(t, "3: a b c d", "b c d")
	b.m.cfg.Self.Node, b.m.state.Dir = "d", 4
	delete(b.m.others, "d")
	o := b.m.other("a")
	*o = *b.m.others["b"]
	o.name, o.dir, o.report.dir = "a", 1, 1
	if target, _ := b.m.target(); !slices.Equal(target, electors("a b d")) {
		t.Errorf("%q", names(target))
	}
}

// joined returns a lab of three voters and two further nodes: the joint version is decided, and no
// voter has begun to drain.
func joined(t *testing.T, prepare func(l *lab)) *lab {
	t.Helper()
	l := founded(t, "a b c")
	if prepare != nil {
		prepare(l)
	}
	l.start("d e", false)
	for range 40 {
		l.pass(100 * time.Millisecond)
		if l.units["a"].m.Known().Version == 2 {
			l.want("a b c", "2: a, b, c, d, e (a, b, c)")
			return l
		}
	}
	t.Fatal("nobody is voted in")
	return nil
}

func TestTheDrainBeginsOnceMajoritiesOfBothGoByTheJointVersion(t *testing.T) {
	l := joined(t, func(l *lab) { l.units["b"].quiet, l.units["c"].quiet = true, true })
	l.pass(3 * maxTTL)
	l.want("a b c", "2: a, b, c, d, e (a, b, c)")
	// With a, d and e are a majority of the new voters, but not of the old voters.
	if s := l.units["a"].m.Status(l.now).Change; s != "from a, b, c to a, b, c, d, e: waits for majorities of both to apply it; missing: b, c" {
		t.Fatalf("a says %q", s)
	}
	l.units["b"].quiet = false
	l.pass(200 * time.Millisecond)
	if s := l.units["a"].m.Status(l.now).Change; !strings.HasPrefix(s, "from a, b, c to a, b, c, d, e: drains for another ") {
		t.Fatalf("a says %q", s)
	}
	l.pass(2 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
}

func TestTheDrainNeedsWhatIsStored(t *testing.T) {
	l := joined(t, func(l *lab) {
		for _, name := range []vote.NodeID{"b", "c"} {
			l.units[name].slow = true
		}
		l.pass(0)
		// b and c can take part in the decision, but not store its result.
		l.lose = func(m letter) bool {
			l.flushEarlier("b", 1)
			l.flushEarlier("c", 1)
			return false
		}
	})
	l.pass(3 * maxTTL)
	l.want("a", "2: a, b, c, d, e (a, b, c)")
	if l.units["a"].m.drain.begun {
		t.Fatal("b and c have said that they apply a version that isn't stored")
	}
	l.lose = nil
	for _, name := range []vote.NodeID{"b", "c"} {
		l.units[name].slow = false
		l.flushAll(name)
	}
	l.pass(2 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
}

// The state found by a new process in its directory may not be synced to disk: a drain must not
// rest on data that a power loss may take back.
func TestTheDrainNeedsWhatThisIncarnationHasStored(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.restart(vote.DiskState{Mesh: "m", Name: "a", Dir: 1, Writes: 10, Electorate: electorate("4: a d (a b c)")}, 2)
	poll := func() bool {
		b.m.Drain(nil)
		b.say("b", vote.Message{Kind: vote.KindPoll})
		return b.m.Drain(nil)[0].Message.Counting
	}
	b.pass(maxTTL)
	if len(b.m.drain.seen) > 0 || poll() {
		t.Fatalf("%v apply the joint version, as far as the disk is known", b.m.drain.seen)
	}
	b.save("")
	b.pass(maxTTL)
	if !slices.Equal(b.m.drain.seen, electors("a")) || !poll() {
		t.Fatalf("%v apply the joint version", b.m.drain.seen)
	}
}

// flushEarlier completes the saves of a node with an electorate up to a version.
func (l *lab) flushEarlier(name vote.NodeID, version uint64) {
	for u := l.units[name]; len(u.saves) > 0 && u.saves[0].Electorate.Version <= version; {
		l.flush(u)
		l.collect(u)
	}
}

func TestTheDrainLastsAsLongAsItMust(t *testing.T) {
	l := joined(t, nil)
	begun := vote.Instant(0)
	for range 10_000 {
		l.pass(time.Millisecond)
		a := l.units["a"].m
		if a.drain.begun && begun == 0 {
			begun = l.now.Slow
		}
		if a.Known().Version == 3 {
			took := l.now.Slow.Sub(begun)
			if took < Drain(maxTTL)-time.Millisecond || took > Drain(maxTTL)+maxTTL {
				t.Fatalf("final after %v, want a little more than %v", took, Drain(maxTTL))
			}
			return
		}
	}
	t.Fatal("never final")
}

func TestTheDrainIsAMaximumTTLByAnyClock(t *testing.T) {
	for _, ttl := range []time.Duration{vote.MinTTL, time.Second, time.Minute} {
		// The time shown by a slow clock while a fast clock shows the drain.
		if slowest := time.Duration(float64(Drain(ttl)) * (1000 - vote.RhoPerMille) / (1000 + vote.RhoPerMille)); slowest < ttl {
			t.Errorf("TTL %v: the drain may be over after %v", ttl, slowest)
		}
	}
}

// drainBench returns a's machine under the joint electorate a, b, c (a, b), with the drain all but
// over.
func drainBench(t *testing.T) *bench {
	b := newBench(t, "4: a b c (a b)")
	b.m.SetOwnVoter(OwnVoter{Top: 50, Counting: true})
	for _, peer := range nodes("b c") {
		b.report(peer, 900)
	}
	if b.m.drain.since != b.now.Slow {
		t.Fatal("it doesn't drain")
	}
	b.pass(Drain(maxTTL) - 1)
	b.sent()
	return b
}

// report has a peer answer the newest poll, with the largest token known to the peer.
func (b *bench) report(peer vote.NodeID, top vote.Token) { b.reportTo(peer, top, b.m.nonce) }

func (b *bench) reportTo(peer vote.NodeID, top vote.Token, nonce uint64) {
	b.say(peer, vote.Message{
		Kind: vote.KindReport, Nonce: nonce, Epoch: b.m.state.Electorate.Version, Token: top, Counting: true,
		Consensus: &vote.Consensus{Dir: vote.Dir(conn(peer)), Writes: 5, Contacts: append(b.m.contacts(), elector(string(peer)))},
	})
}

func TestTheMinimumTokenIsTheLargestAfterTheDrain(t *testing.T) {
	b := drainBench(t)
	b.reportTo("b", 800, b.m.nonce)
	b.reportTo("c", 800, b.m.nonce)
	b.expect("")
	if b.m.race != nil || b.m.Next() != b.now.Slow+1 {
		t.Fatal("before the end of the drain, or nothing wakes it then")
	}
	b.pass(1)
	if b.m.drain.fresh == 0 {
		t.Fatal("no voter is asked at the end of the drain")
	}
	b.reportTo("b", 800, b.m.drain.fresh-1) // an answer to an earlier poll
	b.reportTo("c", 800, b.m.drain.fresh-1)
	b.expect("")
	b.report("c", 600)
	b.expect("") // of the old voters only a has a fresh answer
	b.report("b", 700)
	b.expect("a: prepare 1/1; b: prepare 1/1") // to the old voters, who decide
	if v := b.m.race.value; text(&v) != "5: a, b, c" || v.MinToken != 700 {
		t.Fatalf("%+v", v)
	}

	b = drainBench(t)
	b.pass(1)
	b.m.SetOwnVoter(OwnVoter{Top: 1000, Counting: true}) // a itself knows a larger token
	b.report("b", 700)
	if v := b.m.race.value; v.MinToken != 1000 {
		t.Fatalf("%+v", v)
	}

	b = drainBench(t)
	b.m.state.Electorate.MinToken = 2000 // no minimum token falls
	b.pass(1)
	b.report("b", vote.MaxToken/2) // an impossible token counts as no answer
	b.expect("")
	if b.m.race != nil || len(b.m.alarms) != 1 || !strings.Contains(b.m.alarms[0], `node "b" named the token`) {
		t.Fatalf("%+v, alarms %q", b.m.race, b.m.alarms)
	}
	b.report("b", 700)
	if v := b.m.race.value; v.MinToken != 2000 {
		t.Fatalf("%+v", v)
	}
}

func TestTheDrainStartsAnewInANewIncarnation(t *testing.T) {
	b := drainBench(t)
	b.restart(b.m.stored, 2)
	b.pass(1)
	if b.m.drain.begun {
		t.Fatal("a new life that has heard of nobody drains")
	}
	b.save("")
	b.report("b", 1)
	if b.m.drain.since != b.now.Slow || b.m.drain.fresh != 0 {
		t.Fatalf("%+v", b.m.drain)
	}
}

func TestEachJointElectorateHasADrainOfItsOwn(t *testing.T) {
	b := drainBench(t)
	for _, e := range []vote.Electorate{electorate("5: a b c"), electorate("6: a b (a b c)")} {
		b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
		b.save("")
	}
	b.pass(maxTTL)
	b.report("b", 0)
	if b.m.drain.since != b.now.Slow || b.m.drain.fresh != 0 {
		t.Fatalf("the last drain counts: %+v", b.m.drain)
	}
}

func TestAnOldCopyGoesByNothing(t *testing.T) {
	b := scene(t, "3: a b c", "b=copied c")
	if b.m.applies(elector("b"), 0) || !b.m.applies(elector("c"), 0) {
		t.Error("an old copy is as good as any")
	}
}

func TestABrokenDiskIsVotedOutInTime(t *testing.T) {
	b := newBench(t, "3: a b c")
	for since := b.now.Slow; b.now.Slow < since.Add(FailAfter(maxTTL)); b.pass(maxTTL / 10) {
		if got, reason := b.m.decisionOn(elector("b")); got != stays {
			t.Fatalf("after %v: %q", b.now.Slow.Sub(since), reason)
		}
		for _, peer := range nodes("b c") {
			b.say(peer, vote.Message{
				Kind: vote.KindReport, Nonce: b.m.nonce, Epoch: 3, Consensus: &vote.Consensus{Dir: vote.Dir(conn(peer)), Stuck: peer == "b", Contacts: b.m.contacts()},
			})
		}
	}
	if got, reason := b.m.decisionOn(elector("b")); got != absent || reason != "it can't write its state" {
		t.Fatalf("%q", reason)
	}
}

// A voter found to be an old copy takes part in nothing. The other voters, though unable to tell
// from its reports, must not keep the voter indefinitely.
func TestAnOldCopyIsVotedOutByVotersThatDontKnowIt(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d", false)
	l.pass(2 * maxTTL)
	l.units["c"].m.Distrust(l.now, "x") // x is gone by now
	l.pass(FailAfter(maxTTL) + 3*maxTTL)
	l.want("a b d", "3: a, b, d")
}

func TestAnotherVoterConcludesWhenTheFirstIsGone(t *testing.T) {
	l := joined(t, nil)
	l.stop("a")
	l.pass(2*Drain(maxTTL) + 2*maxTTL)
	if v := l.units["b"].m.Known().Version; v < 3 {
		t.Fatalf("version %d", v)
	}
}

func TestItGrowsAndShrinksWithTheMembers(t *testing.T) {
	l := founded(t, "a")
	step := func(want string) {
		t.Helper()
		l.pass(20 * maxTTL)
		for _, name := range l.names {
			if u := l.units[name]; u.m != nil {
				l.want(string(name), want)
				if len(u.alarms) > 0 {
					t.Fatalf("%s: %q", name, u.alarms)
				}
			}
		}
	}
	l.start("b", false)
	step("1: a")
	l.start("c", false)
	step("3: a, b, c")
	l.start("d", false)
	step("3: a, b, c")
	l.start("e", false)
	step("5: a, b, c, d, e")
	l.stop("e")
	step("5: a, b, c, d, e") // the seat of e costs nothing
	l.stop("c")
	step("7: a, b, d")
	l.start("e", false)
	l.stop("a")
	step("9: b, d, e")
	l.stop("d")
	step("9: b, d, e")
	l.stop("e")
	step("9: b, d, e") // nothing can be decided any more
	l.start("d", false)
	step("9: b, d, e") // locks go on, whichever of the two absent voters comes back
	l.start("a", false)
	step("11: a, b, d")
	l.wipe("a")
	l.start("a", false)
	// A wiped node is another voter: the old voter is voted out, and the new voter in.
	step("15: a, b, d")
}

func TestALeavingNodeIsVotedOut(t *testing.T) {
	l := founded(t, "a b c")
	u := l.units["a"]
	u.m.Leave(l.now)
	l.collect(u)
	l.pass(6 * maxTTL)
	l.want("a b c", "3: b, c")
	if u.m.Votes() || l.units["b"].m.Status(l.now).Voter != true {
		t.Fatal("a still votes")
	}
}
