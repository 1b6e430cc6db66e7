package member

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestDiffTellsWhatChanged(t *testing.T) {
	alive := Member{"b", 2, 0, "b:1", vote.Alive}
	with := func(m Member, life vote.Incarnation, addr string, s vote.Presence) Member {
		m.Incarnation, m.Addr, m.State = life, addr, s
		return m
	}
	for _, test := range []struct {
		name string
		old  []Member
		now  Member
		want EventKind
	}{
		{"a new member joins", nil, alive, Joined},
		{"a member that stays is no news", []Member{alive}, alive, 0},
		{"a new life is an update", []Member{alive}, with(alive, 3, "b:1", vote.Alive), Updated},
		{"a new address is an update", []Member{alive}, with(alive, 2, "b:2", vote.Alive), Updated},
		{"a new state directory is an update", []Member{alive}, Member{"b", 2, 7, "b:1", vote.Alive}, Updated},
		{"silence is a failure", []Member{alive}, with(alive, 2, "b:1", vote.Failed), MemberFailed},
		{"a goodbye is a leave", []Member{alive}, with(alive, 2, "b:1", vote.Left), MemberLeft},
		{"a goodbye may come after the failure", []Member{with(alive, 2, "b:1", vote.Failed)}, with(alive, 2, "b:1", vote.Left), MemberLeft},
		{"coming back is joining", []Member{with(alive, 2, "b:1", vote.Failed)}, alive, Joined},
		{"one who was never seen alive is no news", nil, with(alive, 2, "b:1", vote.Failed), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			known := map[vote.NodeID]Member{}
			diff(known, test.old, "a")
			got := diff(known, []Member{{"a", 1, 0, "a:1", vote.Alive}, test.now}, "a")
			var want []Event
			if test.want != 0 {
				want = []Event{{test.now, test.want}}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if again := diff(known, []Member{test.now}, "a"); again != nil {
				t.Errorf("it was told twice: %v", again)
			}
		})
	}
}

func TestARestartIsPendingUntilGossipKnowsBetterOrItIsOld(t *testing.T) {
	now := time.Now()
	old, fresh, third := Member{"c", 3, 0, "c:1", vote.Failed}, Member{"c", 33, 0, "c:2", vote.Alive}, Member{"c", 4, 0, "c:3", vote.Alive}
	for _, test := range []struct {
		name   string
		listed Member
		after  time.Duration
		want   Member
	}{
		{"the old life is replaced", old, 0, fresh},
		{"gossip agrees", fresh, 0, fresh},
		{"gossip knows of yet another life", third, 0, third},
		{"its time is over", old, time.Second, old},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r pendingRestarts
			r.add(fresh, 3, now.Add(time.Second))
			members := []Member{{"a", 1, 0, "a:1", vote.Alive}, test.listed}
			r.apply(members, now.Add(test.after))
			if members[1] != test.want || members[0].Name != "a" {
				t.Errorf("members are %v", members)
			}
			if stands := len(r.all) == 1; stands != (test.want == fresh && test.listed == old) {
				t.Errorf("it stands: %v", stands)
			}
		})
	}
}

func TestDiffForgetsMembersThatAreGone(t *testing.T) {
	known := map[vote.NodeID]Member{}
	diff(known, []Member{{"b", 2, 0, "b:1", vote.Left}}, "a")
	diff(known, nil, "a")
	if len(known) != 0 {
		t.Errorf("still known: %v", known)
	}
}

func TestTagsFitForTheLargestElectorate(t *testing.T) {
	terms := Terms{VersionMin: 1, VersionMax: 1<<32 - 1, RhoPerMille: 1000, MaxTTL: 1<<63 - 1, Dynamic: true, Converting: true, Birth: vote.Birth{Expect: 63, MinVoters: 63}}
	for range vote.MaxVoters {
		terms.Voters = append(terms.Voters, vote.NodeID(strings.Repeat("v", vote.MaxNameLen)))
	}
	tags, err := published(terms.tags(1<<64-1), 1<<64-2, [][]byte{keyOf(1), keyOf(2), keyOf(3)})
	if err != nil || len(keysOf(tags)) != 3 {
		t.Fatalf("the keys come back as %v: %v", keysOf(tags), err)
	}
	if incarnationOf(tags) != 1<<64-1 {
		t.Errorf("the life comes back as %x", incarnationOf(tags))
	}
	if dirOf(tags) != 1<<64-2 {
		t.Errorf("the directory comes back as %x", dirOf(tags))
	}
	if size := tagsSize(tags); size > metaMax/2 {
		t.Errorf("they need %d bytes, which leaves little for later", size)
	}
}

func TestADirectoryIsTaggedOnlyWhereThereIsOne(t *testing.T) {
	for _, test := range []struct {
		dir  vote.Dir
		want string
		has  bool
	}{{0, "", false}, {0xd1e, "d1e", true}} {
		tags, err := published(labTerms.tags(1), test.dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, has := tags[tagDir]; got != test.want || has != test.has {
			t.Errorf("directory %x has tag %q, present is %v", test.dir, got, has)
		}
		if got := dirOf(tags); got != test.dir {
			t.Errorf("directory %x comes back as %x", test.dir, got)
		}
	}
}

func TestABadNumberInATagIsNone(t *testing.T) {
	for _, bad := range []string{"", "x", "-1", "+1", "0x1", "1_0", " 1", "1 ", "1.5", "\xff", "10000000000000000", strings.Repeat("f", 1000)} {
		tags := map[string]string{tagDir: bad, tagIncarnation: bad}
		if dir, life := dirOf(tags), incarnationOf(tags); dir != 0 || life != 0 {
			t.Errorf("%q is directory %x and life %x", bad, dir, life)
		}
		if m := memberOf(&serf.Member{Name: "b", Tags: tags}); m.Dir != 0 || m.Name != "b" {
			t.Errorf("%q makes member %v", bad, m)
		}
	}
	if dirOf(nil) != 0 || incarnationOf(nil) != 0 {
		t.Error("no tags tell something")
	}
}

func TestTheKindOfElectorateIsComparedAndBothAreNamed(t *testing.T) {
	tags := func(dynamic string) map[string]string {
		tags := labTerms.tags(1)
		tags[tagDynamic] = dynamic
		return tags
	}
	for _, test := range []struct{ ours, theirs, want string }{
		{dynamicNo, dynamicNo, "<nil>"},
		{dynamicYes, dynamicYes, "<nil>"},
		{dynamicNo, dynamicYes, "the electorate is fixed here and is dynamic there"},
		{dynamicYes, dynamicNo, "the electorate is dynamic here and is fixed there"},
		{dynamicNo, "", "the electorate is fixed here and isn't stated there"},
		{dynamicYes, "1\n", `the electorate is dynamic here and is of kind "1\n" there`},
	} {
		if got := fmt.Sprint(differs(tags(test.ours), tags(test.theirs))); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	other, founders := tags(dynamicYes), "the list of founders"
	other[tagVoters] = "1:x"
	if got := fmt.Sprint(differs(tags(dynamicYes), other)); !strings.Contains(got, founders) || !strings.Contains(got, "and 1:x there") {
		t.Errorf("two of dynamic membership: %q", got)
	}
	if got := fmt.Sprint(differs(tags(dynamicNo), other)); strings.Contains(got, founders) {
		t.Errorf("one that is fixed: %q", got)
	}
}

func TestTagsSizeIsNeverBelowSerfsOwn(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 480, 490, 495, 500, 505} {
		tags := map[string]string{"k": strings.Repeat("x", n)}
		if tagsSize(tags) > metaMax {
			continue
		}
		cfg := serf.DefaultConfig()
		cfg.NodeName, cfg.Tags, cfg.LogOutput, cfg.DisableCoordinates = "x", tags, &syncBuffer{}, true
		cfg.MemberlistConfig = memberlist.DefaultLocalConfig()
		cfg.MemberlistConfig.LogOutput = &syncBuffer{}
		cfg.MemberlistConfig.Transport = newFakeNet().listen(addr(1))
		cfg.MemberlistConfig.AdvertiseAddr = "10.0.0.1"
		s, err := serf.Create(cfg)
		if err != nil {
			t.Fatalf("%d bytes counted as %d: %v", n, tagsSize(tags), err)
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

func TestFingerprintIgnoresOrderOnly(t *testing.T) {
	base := fingerprint([]vote.NodeID{"a", "bc"})
	if base != fingerprint([]vote.NodeID{"bc", "a"}) {
		t.Error("the order matters")
	}
	for _, other := range [][]vote.NodeID{{"ab", "c"}, {"a", "b", "c"}, {"a"}, nil} {
		if base == fingerprint(other) {
			t.Errorf("%v looks like [a bc]", other)
		}
	}
}

func TestBirthsAreComparedAndBothAreNamed(t *testing.T) {
	tags := func(b vote.Birth) map[string]string {
		return Terms{VersionMin: 1, VersionMax: 1, Dynamic: true, Birth: b}.tags(1)
	}
	none, three, five, safer, alone := vote.Birth{}, vote.Birth{Expect: 3, MinVoters: 3}, vote.Birth{Expect: 5, MinVoters: 3},
		vote.Birth{Expect: 5, MinVoters: 5}, vote.Birth{Expect: 1, MinVoters: 1}
	for _, test := range []struct {
		ours, theirs vote.Birth
		want         string
	}{
		{none, none, ""}, {three, three, ""},
		{three, none, "Expect/MinVoters is 3/3 here and not set there"},
		{none, three, "Expect/MinVoters is not set here and 3/3 there"},
		{three, five, "Expect/MinVoters is 3/3 here and 5/3 there"},
		{five, safer, "Expect/MinVoters is 5/3 here and 5/5 there"},
		{alone, alone, "a mesh of one process takes in no other"},
	} {
		err := differs(tags(test.ours), tags(test.theirs))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v and %+v: %v, want %q", test.ours, test.theirs, err, test.want)
		}
	}
}

func TestVersionsAgreeWhenOneIsInCommon(t *testing.T) {
	tags := func(lo, hi uint) map[string]string {
		return Terms{VersionMin: lo, VersionMax: hi}.tags(1)
	}
	for _, test := range []struct {
		name   string
		lo, hi uint
		want   bool
	}{
		{"the same", 1, 2, true}, {"newer, still speaking ours", 2, 9, true}, {"too new", 3, 9, false}, {"none", 0, 0, false},
	} {
		if got := differs(tags(1, 2), tags(test.lo, test.hi)) == nil; got != test.want {
			t.Errorf("%s: agree is %v", test.name, got)
		}
	}
	if differs(tags(1, 1), nil) == nil {
		t.Error("a member without tags agrees")
	}
}

func TestLinesKeepTheirLevelAndLoseTheirPrefix(t *testing.T) {
	for _, test := range []struct {
		line, text string
		level      slog.Level
	}{
		{"[DEBUG] memberlist: x", "memberlist: x", slog.LevelDebug},
		{"[INFO] serf: x", "serf: x", slog.LevelInfo},
		{"[WARN] serf: x\n", "serf: x", slog.LevelWarn},
		{"[ERR] memberlist: x", "memberlist: x", slog.LevelError},
		{"[ERROR] x", "x", slog.LevelError},
		{"no level", "no level", slog.LevelInfo},
		{"[OTHER] x", "[OTHER] x", slog.LevelInfo},
		{"", "", slog.LevelInfo},
		{"[WARN] memberlist: ignoring: " + refusedPrefix + "d: MaxTTL", "memberlist: ignoring: " + refusedPrefix + "d: MaxTTL", slog.LevelDebug},
		{`[ERR] memberlist: discarding stream with unacceptable label "": from=10.0.0.7:4711`, `memberlist: discarding stream with unacceptable label "": from=10.0.0.7:4711`, slog.LevelDebug},
		{`[ERR] memberlist: discarding stream with unacceptable label "other": from=10.0.0.7:4711`, `memberlist: discarding stream with unacceptable label "other": from=10.0.0.7:4711`, slog.LevelError},
		{"[ERR] " + strings.Repeat("é", lineMax), strings.Repeat("é", lineMax/2) + "...", slog.LevelError},
	} {
		level, text := parseLine([]byte(test.line))
		if level != test.level || text != test.text {
			t.Errorf("%.40q became %v %.60q", test.line, level, text)
		}
	}
}

// However many errors serf and memberlist log, a single line a minute is above Debug.
func TestComplaintsOfGossipAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &syncBuffer{}
		lines := newLineLogger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 120 { // for two minutes
			lines.Print("[INFO] serf: EventMemberJoin")
			lines.Print("[ERR] memberlist: Push/Pull failed")
			lines.Print("[WARN] memberlist: ignoring: " + refusedPrefix + "d")
			lines.Print("[WARN] serf: Shutdown without a Leave")
			time.Sleep(time.Second)
		}
		lines.Print("[WARN] memberlist: after")
		for _, want := range [][]string{
			{"level=INFO", "gossip has reported a problem", `complaint="memberlist: Push/Pull failed"`, "more_since_the_last=0"},
			{"level=INFO", "gossip has reported a problem", `complaint="memberlist: Push/Pull failed"`, "more_since_the_last=59"},
			{"level=INFO", "gossip has reported a problem", `complaint="memberlist: after"`, "more_since_the_last=59"},
		} {
			if len(out.lines(want...)) != 1 {
				t.Errorf("not said once: %q in %q", want, out.lines("trouble"))
			}
		}
		if n := len(out.lines("level=INFO")) + len(out.lines("level=WARN")) + len(out.lines("level=ERROR")); n != 3 {
			t.Errorf("%d lines are more than Debug, want 3", n)
		}
		if n := len(out.lines("level=DEBUG", "EventMemberJoin", "reported_as=INFO")); n != 120 {
			t.Errorf("%d of 120 everyday lines can be seen by who debugs", n)
		}
	})
}

func TestPacesAreBounded(t *testing.T) {
	p := rateLimits{}
	now := time.Now()
	for i := range 10 * rateLimitsMax {
		if !p.due(string(rune(i)), now) {
			t.Fatalf("the first complaint %d isn't due", i)
		}
	}
	if len(p) > rateLimitsMax {
		t.Errorf("%d are kept", len(p))
	}
	if p.due(string(rune(10*rateLimitsMax-1)), now.Add(gapMin-1)) {
		t.Error("the second complaint is due too early")
	}
}
