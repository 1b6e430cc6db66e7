package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// scene is a world for a scenario, with methods for the scenario's expectations. All checks of the
// world run throughout.
type scene struct {
	*World
	scenario
	t     *testing.T
	trace strings.Builder
}

const sceneTTL = 2 * time.Second

// stage makes a world of voters a, b, c… with right clocks and a fast network, without faults. When
// the scenario is over, the world heals and settles.
func stage(t *testing.T, o Options) *scene {
	t.Helper()
	s := &scene{t: t}
	o.Trace = &s.trace
	if o.Clocks.PPM == nil && o.Clocks.Wall == nil {
		o.Clocks.Exact = true
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = sceneTTL
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	w := New(o)
	s.World, s.scenario = w, w.Script
	t.Cleanup(func() {
		if s.Err() == nil && !t.Failed() {
			_ = s.Settle()
		}
		s.verdict()
	})
	return s
}

// awake is stage followed by the startup quarantine.
func awake(t *testing.T, o Options) *scene {
	t.Helper()
	s := stage(t, o)
	if !s.Awake() {
		s.verdict()
		t.Fatalf("the mesh isn't ready after %v", s.Now())
	}
	return s
}

// verdict reports a violation, with the end of the trace.
func (s *scene) verdict() {
	s.t.Helper()
	if err := s.Err(); err != nil {
		s.t.Errorf("%v", err)
	}
	if s.t.Failed() {
		lines := slices.DeleteFunc(strings.SplitAfter(s.trace.String(), "\n"), func(line string) bool {
			return strings.Contains(line, " refresh ") || strings.Contains(line, " ack ")
		})
		s.t.Logf("the end of the trace:\n%s", strings.Join(lines[max(0, len(lines)-60):], ""))
	}
}

// is demands that a request is in a state.
func (s *scene) is(r *Request, want State) {
	s.t.Helper()
	if s.failed == nil && r.State != want {
		s.t.Fatalf("at %v %s's request of %q is %v, want %v", s.Now(), r.Node, r.Key, r.State, want)
	}
}

// becomes lets at most d pass until a request is in the wanted state, and returns the time taken.
func (s *scene) becomes(r *Request, want State, d time.Duration) time.Duration {
	s.t.Helper()
	start := s.Now()
	if !s.RunUntil(d, func() bool { return r.State == want }) && s.failed == nil {
		s.t.Fatalf("%s's request of %q is %v after %v, want %v (%s)", r.Node, r.Key, r.State, d, want, r.p.m.PendingReason(r.p.read(s.now), r.Number).Text)
	}
	return s.Now() - start
}

// stays lets d pass, during which a request must keep its state.
func (s *scene) stays(r *Request, want State, d time.Duration) {
	s.t.Helper()
	if s.RunUntil(d, func() bool { return r.State != want }) && s.failed == nil {
		s.t.Fatalf("at %v %s's request of %q is %v; it must stay %v", s.Now(), r.Node, r.Key, r.State, want)
	}
}

// holds has a node take a free key.
func (s *scene) holds(node, key string) *Request {
	s.t.Helper()
	r := s.Lock(node, key)
	s.becomes(r, Granted, time.Second)
	return r
}

// rises demands a second token above the first.
func (s *scene) rises(first, then *Request) {
	s.t.Helper()
	if then.Token <= first.Token {
		s.t.Fatalf("token %d after %d", then.Token, first.Token)
	}
}

// between demands a duration within bounds.
func (s *scene) between(what string, got, least, most time.Duration) {
	s.t.Helper()
	if s.failed == nil && (got < least || got > most) {
		s.t.Fatalf("%s took %v; it must be between %v and %v", what, got, least, most)
	}
}

func TestFault01HolderCrashes(t *testing.T) {
	s := awake(t, Options{})
	a := s.holds("a", "k")
	b := s.Lock("b", "k")
	s.Run(time.Second)
	s.is(b, Waiting)
	left := s.Left(a)
	s.Crash("a")
	took := s.becomes(b, Granted, 2*sceneTTL)
	s.between("the takeover", took, left, sceneTTL+100*time.Millisecond)
	s.rises(a, b)
}

func TestFault02RequesterDiesWhileItAsks(t *testing.T) {
	s := awake(t, Options{Voters: 5})
	s.Cut("a", "d", "e") // a's three votes stay tentative: two of them don't arrive
	a := s.Lock("a", "k")
	s.CutOneWay("b", "a")
	s.CutOneWay("c", "a")
	s.Run(10 * time.Millisecond)
	s.is(a, Waiting)
	s.PowerOff("a")
	b := s.Lock("b", "k")
	s.between("to get the dead one's votes", s.becomes(b, Granted, 2*sceneTTL), 0, sceneTTL+100*time.Millisecond)
}

func TestFault03VoterRestartsAfterItsVoteDecided(t *testing.T) {
	s := awake(t, Options{})
	s.Cut("a", "c") // so that b's vote decides
	a := s.holds("a", "k")
	s.Restart("b")
	c := s.Lock("c", "k") // c and b's new incarnation would be a majority
	for s.Held(a) && s.failed == nil {
		s.Run(10 * time.Millisecond)
		if s.Held(a) {
			s.is(c, Waiting)
		}
	}
	s.Mend("a", "c")
	s.Run(3 * sceneTTL)
	if a.State == Granted {
		s.Release(a)
	}
	s.becomes(c, Granted, 3*sceneTTL)
	s.rises(a, c)
}

func TestFault04VotersRestartOneAfterTheOther(t *testing.T) {
	s := awake(t, Options{})
	var last *Request
	for range 3 {
		for _, v := range []string{"a", "b", "c"} {
			r := s.holds("a", "k")
			if last != nil {
				s.rises(last, r)
			}
			s.Release(r)
			last = r
			s.Restart(v)
			s.Run(sceneTTL + learning)
		}
	}
}

func TestFault06AllRestartAtOnce(t *testing.T) {
	s := awake(t, Options{})
	old := s.holds("a", "k")
	for _, v := range []string{"a", "b", "c"} {
		s.PowerOff(v)
	}
	for _, v := range []string{"a", "b", "c"} {
		s.Start(v)
	}
	r := s.Lock("b", "k")
	s.stays(r, Waiting, sceneTTL)
	s.becomes(r, Granted, 2*time.Second)
	s.rises(old, r) // the clocks stand above the tokens
	s.Release(r)
}

func TestFault07RollingRestartUnderALongHold(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	r := s.holds("x1", "k")
	for _, v := range []string{"a", "b", "c", "a", "b", "c"} {
		s.Restart(v)
		s.stays(r, Granted, sceneTTL+learning)
	}
	if !s.Held(r) {
		t.Fatal("the lease has ended")
	}
}

// learning is the time to learn of tokens after the startup quarantine, and to get the votes again.
const learning = 1500 * time.Millisecond

func TestFault08SymmetricPartition(t *testing.T) {
	s := awake(t, Options{Voters: 5})
	small, large := []string{"a", "b"}, []string{"c", "d", "e"}
	a := s.holds("a", "k")
	s.Split(small, large)
	b, c := s.Lock("b", "free"), s.Lock("c", "k")
	s.stays(b, Waiting, 3*sceneTTL)
	s.is(a, Lost)
	s.is(c, Granted)
	s.rises(a, c)
	s.Join(small, large)
	s.becomes(b, Granted, 2*sceneTTL)
}

func TestFault09EvenSplitOfAnEvenElectorate(t *testing.T) {
	s := awake(t, Options{Voters: 4})
	one, other := []string{"a", "b"}, []string{"c", "d"}
	s.Split(one, other)
	s.Run(2 * sceneTTL)
	a, c := s.TryLock("a", "k"), s.TryLock("c", "k")
	for _, r := range []*Request{a, c} {
		s.becomes(r, Failed, sceneTTL+100*time.Millisecond)
		if r.Wait.Reason != quorum.WaitNoQuorum || !strings.HasPrefix(r.Wait.Text, "2 of 4 voters count: ") {
			t.Errorf("%s is told %+v", r.Node, r.Wait)
		}
	}
}

func TestFault10OneWayPartition(t *testing.T) {
	for _, row := range []struct {
		name     string
		from, to []string
	}{
		{"the holder isn't heard", []string{"a"}, []string{"b", "c"}},
		{"the holder hears nothing", []string{"b", "c"}, []string{"a"}},
		{"a voter isn't heard", []string{"b"}, []string{"a", "c"}},
		{"a voter hears nothing", []string{"a", "c"}, []string{"b"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := awake(t, Options{})
			a := s.holds("a", "k")
			b, c := s.Lock("b", "k"), s.Lock("c", "k")
			for _, from := range row.from {
				for _, to := range row.to {
					s.CutOneWay(from, to)
				}
			}
			s.Run(4 * sceneTTL)
			if row.name[:3] == "the" {
				s.is(a, Lost)
			} else {
				s.is(a, Granted)
				s.Release(a)
			}
			served := func(r *Request) bool { return r.State == Granted }
			if !s.RunUntil(2*sceneTTL, func() bool { return served(b) || served(c) }) && s.failed == nil {
				t.Fatal("a one-way cut pins the key")
			}
		})
	}
}

func TestFault11OldestReachesAMinorityOnly(t *testing.T) {
	s := awake(t, Options{Voters: 5, Clients: 3})
	s.Cut("x1", "c", "d", "e")
	s.Run(sceneTTL)
	old := s.Lock("x1", "k") // votes of a and b
	s.Cut("x2", "a", "e")
	s.Run(sceneTTL)
	s.is(old, Waiting)
	next := s.Lock("x3", "k")
	s.Run(10 * time.Millisecond)
	young := s.Lock("x2", "k") // needs the votes of b, c and d
	s.becomes(next, Granted, sceneTTL)
	s.Release(next)
	s.becomes(young, Granted, sceneTTL)
	s.Release(young)
	s.is(old, Waiting)
	s.Mend("x1", "c", "d", "e")
	s.becomes(old, Granted, 2*sceneTTL)
}

func TestFault11MinoritiesThatWereCutAcrossAreServedInTheEnd(t *testing.T) {
	// Each request has reached another minority, so each voter has passed over other requests. When
	// all links are open, the voters must agree again.
	s := awake(t, Options{Voters: 5, Clients: 5})
	voters := []string{"a", "b", "c", "d", "e"}
	var all []*Request
	for i, x := range []string{"x1", "x2", "x3", "x4", "x5"} {
		for j, v := range voters {
			if j != i && j != (i+1)%5 {
				s.Cut(x, v)
			}
		}
	}
	s.Run(sceneTTL)
	for range 3 {
		for _, x := range []string{"x1", "x2", "x3", "x4", "x5"} {
			all = append(all, s.Lock(x, "k"))
		}
	}
	s.Run(5 * sceneTTL)
	s.faults.Heal()
	for range all {
		if !s.RunUntil(2*sceneTTL, func() bool { return held(all) != nil }) {
			s.verdict()
			t.Fatal("nobody is served")
		}
		s.Release(held(all))
	}
}

func held(all []*Request) *Request {
	for _, r := range all {
		if r.State == Granted {
			return r
		}
	}
	return nil
}

func TestFault12BridgeSeesBothSides(t *testing.T) {
	s := awake(t, Options{Voters: 5})
	one, other := []string{"a", "b"}, []string{"d", "e"} // c reaches all
	a := s.holds("a", "k")
	s.Split(one, other)
	d := s.Lock("d", "k")
	s.stays(d, Waiting, 3*sceneTTL)
	s.is(a, Granted) // by the votes of a, b and the bridge
	s.Release(a)
	s.becomes(d, Granted, sceneTTL) // by the votes of d, e and the bridge
	b := s.Lock("b", "k")
	s.stays(b, Waiting, 3*sceneTTL)
	s.is(d, Granted)
}

func TestFault13RequestArrivesAfterItsAttemptEnded(t *testing.T) {
	s := awake(t, Options{})
	s.CutOneWay("a", "b")
	s.CutOneWay("a", "c")
	a := s.TryLock("a", "k")
	s.becomes(a, Failed, sceneTTL+100*time.Millisecond)
	s.MendOneWay("a", "b")
	s.MendOneWay("a", "c")
	s.Run(500 * time.Millisecond)
	s.becomes(s.Lock("b", "k"), Granted, 100*time.Millisecond)
}

func TestFault14VoteArrivesAfterExpiry(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	for _, v := range []string{"a", "b", "c"} {
		s.CutOneWay(v, "x1")
	}
	x := s.Lock("x1", "k") // all vote, and no vote arrives
	s.Run(2 * sceneTTL)    // the sessions end
	b := s.holds("b", "k")
	for _, v := range []string{"a", "b", "c"} {
		s.MendOneWay(v, "x1")
	}
	s.stays(x, Waiting, 2*sceneTTL)
	s.Release(b)
	s.becomes(x, Granted, sceneTTL)
	s.rises(b, x)
}

func TestFault16And17LateReleaseMeetsTheNextHolder(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	x := s.holds("x1", "k")
	let := []func(){s.Stall("x1", "a", false), s.Stall("x1", "b", false)}
	s.Release(x) // the release reaches c now, and a and b much later
	s.Run(2 * sceneTTL)
	b := s.holds("b", "k")
	s.rises(x, b)
	for _, f := range let {
		f()
	}
	s.stays(b, Granted, 2*sceneTTL)
}

func TestFault18LostRelease(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	x := s.holds("x1", "k")
	for _, v := range []string{"a", "b", "c"} {
		s.Cut("x1", v)
	}
	s.Release(x)
	b := s.Lock("b", "k")
	s.between("a lost release", s.becomes(b, Granted, 2*sceneTTL), 0, sceneTTL+50*time.Millisecond)
	s.becomes(x, Released, sceneTTL)
	if x.Wait.Reason != quorum.WaitNoQuorum {
		t.Errorf("the release says %+v", x.Wait)
	}
}

func TestFault19And20RenewalRacesExpiry(t *testing.T) {
	t.Parallel()
	// Refreshes are held up and released around the lease's end. A lost lease stays lost, and a
	// renewal after another node's lease is refused.
	for after := sceneTTL - 100*time.Millisecond; after <= sceneTTL+400*time.Millisecond; after += 10 * time.Millisecond {
		s := awake(t, Options{Clients: 1})
		x := s.holds("x1", "k")
		b := s.Lock("b", "k")
		s.Run(200 * time.Millisecond)
		var let []func()
		for _, v := range []string{"a", "b", "c"} {
			let = append(let, s.Stall("x1", v, false))
		}
		s.Run(after)
		for _, f := range let {
			f()
		}
		s.Run(sceneTTL)
		if x.State == Granted == (b.State == Granted) {
			t.Fatalf("released after %v: %v and %v", after, x.State, b.State)
		}
		if x.State == Lost && s.Held(x) {
			t.Fatal("a lost lease is held")
		}
	}
}

func TestFault21To23WallClocksMoveLeasesDoNot(t *testing.T) {
	for _, row := range []struct {
		name string
		by   time.Duration
	}{
		{"forward by a day", 24 * time.Hour},
		{"back by a day", -24 * time.Hour},
		{"back by a minute", -time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := awake(t, Options{})
			a := s.holds("a", "k")
			for _, v := range []string{"a", "b", "c"} {
				s.StepWall(v, row.by)
			}
			b := s.Lock("b", "k")
			s.stays(a, Granted, 2*sceneTTL)
			s.is(b, Waiting)
			s.Restart("c") // c's clock stands behind; the others remember
			s.stays(a, Granted, 2*sceneTTL)
			s.Release(a)
			s.becomes(b, Granted, sceneTTL)
			s.rises(a, b)
		})
	}
}

func TestFault24RatesBeyondTheBoundLeaveTokensRising(t *testing.T) {
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		o := Draw(seed)
		o.TokensOnly = true
		o.Clocks.Spread = 0
		o.Faults.WallSteps = 0
		o.Faults.Weights[fault.Unseen] = 4
		o.Faults.Weights[fault.CrashAll] = 0
		for i := range o.Voters + o.Clients {
			// Rates are a fifth too slow, right, or a fifth too fast.
			o.Clocks.PPM = append(o.Clocks.PPM, int64(i%3-1)*200_000)
		}
		w := New(o)
		w.Run(20 * time.Second)
		if err := w.Settle(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

func TestFault25HolderPaused(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	x := s.holds("x1", "k")
	b := s.Lock("b", "k")
	s.Stop("x1")
	s.becomes(b, Granted, 2*sceneTTL)
	if s.Held(x) {
		t.Fatal("the paused holder would be told that it holds")
	}
	s.Continue("x1")
	if s.Held(x) {
		t.Fatal("the holder that goes on would be told that it holds")
	}
	s.between("to learn of the loss", s.becomes(x, Lost, time.Second), 0, time.Millisecond)
	s.rises(x, b)
}

func TestFault26HolderSuspended(t *testing.T) {
	s := awake(t, Options{})
	a := s.holds("a", "k") // a votes too: the voter's clock stands still, the holder's goes on
	b := s.Lock("b", "k")
	s.Suspend("a")
	s.becomes(b, Granted, 2*sceneTTL)
	s.Continue("a")
	if s.Held(a) {
		t.Fatal("the suspended holder wakes up with its lease")
	}
	s.becomes(a, Lost, time.Second)
	s.rises(a, b)
}

func TestFault27VoterPaused(t *testing.T) {
	for _, how := range []string{"stopped", "suspended"} {
		t.Run(how, func(t *testing.T) {
			s := awake(t, Options{Clients: 1})
			x := s.holds("x1", "k")
			b := s.Lock("b", "k")
			if how == "stopped" {
				s.Stop("c")
			} else {
				s.Suspend("c")
			}
			s.stays(x, Granted, 3*sceneTTL)
			s.Continue("c")
			s.stays(x, Granted, sceneTTL)
			s.Release(x)
			s.becomes(b, Granted, sceneTTL)
		})
	}
}

func TestFault29TwoProcessesWithOneName(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	x := s.holds("x1", "k")
	duplicate := s.Duplicate("x1")
	r := s.Lock(duplicate, "other")
	s.becomes(r, Failed, sceneTTL)
	if r.Wait.Reason != quorum.WaitRefused {
		t.Errorf("the second process is told %+v", r.Wait)
	}
	s.stays(x, Granted, 3*sceneTTL)
	if s.Figures().Alarms == 0 {
		t.Error("nobody is alarmed")
	}
	s.Crash(duplicate)
}

func TestFault30ManyAtTheSameInstant(t *testing.T) {
	for _, voters := range []int{3, 4, 5} {
		for _, try := range []bool{true, false} {
			s := awake(t, Options{Voters: voters, Clients: 3, Seed: uint64(voters)})
			var all []*Request
			for range 4 {
				for _, h := range s.hosts {
					all = append(all, s.Ask(Ask{Node: h.alias, Key: "k", Try: try}))
				}
			}
			s.Run(200 * time.Millisecond) // many round trips
			won, lost := 0, 0
			for _, r := range all {
				switch r.State {
				case Granted:
					won++
				case Failed:
					lost++
				}
			}
			if won != 1 || try && lost != len(all)-1 {
				t.Fatalf("of %d at once with %d voters, %d have won and %d have lost (TryLock: %v)", len(all), voters, won, lost, try)
			}
		}
	}
}

func TestFault31SlowClockOvertakesByTheSkewAtMost(t *testing.T) {
	s := awake(t, Options{Clocks: Clocks{PPM: []int64{0, 0, 0}, Wall: []time.Duration{-time.Hour, 0, 0}}})
	s.Run(sceneTTL)
	hold := s.holds("c", "k")
	early := s.Lock("b", "k")
	s.Run(1100 * time.Millisecond)
	slow := s.Lock("a", "k") // an hour old by a's own clock
	s.Run(100 * time.Millisecond)
	s.Release(hold)
	s.becomes(early, Granted, sceneTTL)
	s.is(slow, Waiting)
	s.Release(early)
	s.becomes(slow, Granted, sceneTTL)
}

func TestFault32WaiterDiesInTheQueue(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	a := s.holds("a", "k")
	s.Lock("x1", "k")
	b := s.Lock("b", "k")
	s.PowerOff("x1")
	s.Run(sceneTTL + 100*time.Millisecond)
	s.Release(a)
	s.between("to skip the dead", s.becomes(b, Granted, sceneTTL), 0, 50*time.Millisecond)
}

func TestFault33VoterLosesItsQueue(t *testing.T) {
	s := awake(t, Options{})
	a := s.holds("a", "k")
	s.Run(10 * time.Millisecond)
	b := s.Lock("b", "k")
	s.Run(10 * time.Millisecond)
	c := s.Lock("c", "k")
	s.Restart("b") // b's own waiter and b's queue are gone
	s.is(b, Crashed)
	s.Run(sceneTTL + learning)
	again := s.Lock("b", "k")
	s.Run(10 * time.Millisecond)
	s.Release(a)
	s.becomes(c, Granted, sceneTTL) // c kept its stamp, so c comes before the newcomer
	s.is(again, Waiting)
	s.Release(c)
	s.becomes(again, Granted, sceneTTL)
}

func TestFault43MessagesOfAnEarlierIncarnation(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	let := s.Stall("x1", "a", false)
	x := s.holds("x1", "k") // by the votes of b and c
	s.Release(x)            // a receives neither the request nor the release
	s.Crash("x1")
	s.Start("x1")
	s.Run(sceneTTL)
	again := s.holds("x1", "k")
	if again.Number != x.Number {
		t.Fatalf("the scenario wants two lives to use one number, not %d and %d", x.Number, again.Number)
	}
	let()
	s.stays(again, Granted, 3*sceneTTL)
}

func TestFault61HintFromTheYear2100(t *testing.T) {
	s := awake(t, Options{Clocks: Clocks{PPM: []int64{0, 0, 0}, Wall: []time.Duration{75 * 365 * 24 * time.Hour, 0, 0}}})
	a := s.holds("a", "k")
	s.Release(a)
	s.Run(time.Second)
	b := s.holds("b", "k")
	s.rises(a, b)
	s.Run(time.Second) // a learns of the lease too, and alone will remember
	// Two of three voters cut the hint to their clocks; a's own voter doesn't, and its proposal is
	// the largest. No request may be refused for a clock, and tokens must rise.
	s.Release(b)
	s.Restart("b")
	s.Restart("c")
	s.Run(sceneTTL + learning)
	c := s.holds("c", "k")
	s.rises(b, c)
}

func TestFault62SessionExpiresAtOneVoterOnly(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	s.Cut("x1", "c")
	x := s.holds("x1", "k") // votes of a and b
	s.Cut("x1", "b")        // x1's session at b ends
	y := s.Lock("x2", "k")  // c votes at once, and b when x1's session ends there
	s.Run(sceneTTL - 300*time.Millisecond)
	s.Mend("x1", "b", "c") // x1 is back about when b votes for x2
	s.Run(2 * sceneTTL)
	if s.Held(x) == s.Held(y) {
		t.Fatalf("%v and %v", x.State, y.State)
	}
}

func TestFault63YieldOrAnswerIsLost(t *testing.T) {
	t.Parallel()
	// The connection breaks at any time around a yield or an answer. No vote is pinned or counted
	// twice.
	for at := time.Duration(0); at < 12*time.Millisecond; at += 250 * time.Microsecond {
		s := awake(t, Options{Clients: 2})
		s.net.slow[3][0] = 2 * time.Millisecond // x1 is far from a, and near b and c
		s.net.slow[4][1], s.net.slow[4][2] = 2*time.Millisecond, 2*time.Millisecond
		y, x := s.Lock("x2", "k"), s.Lock("x1", "k") // the votes are split, and voters inquire
		s.Run(at)
		s.Break("x1", "b")
		s.Break("x2", "a")
		s.Run(100 * time.Millisecond)
		all := []*Request{x, y}
		for range all {
			if !s.RunUntil(sceneTTL, func() bool { return held(all) != nil }) {
				s.verdict()
				t.Fatalf("broken after %v: nobody is served", at)
			}
			s.Release(held(all))
		}
	}
}

func TestFault64SupersededIncarnationStillHolds(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	x := s.holds("x1", "k")
	b := s.Lock("b", "k")
	s.Run(sceneTTL / 2)
	s.Stop("x1") // as good as dead: x1 answers no probe
	left := s.Left(x)
	duplicate := s.Duplicate("x1")
	r := s.Lock(duplicate, "other")
	s.becomes(r, Granted, sceneTTL) // the newer incarnation has taken the name
	took := s.becomes(b, Granted, 2*sceneTTL)
	s.between("the older one's votes", took, 0, sceneTTL)
	if s.Held(x) {
		t.Fatalf("the older life's lease was cut short: %v were left", left)
	}
	s.Continue("x1")
	s.becomes(x, Lost, time.Second)
	s.Crash("x1")
}
