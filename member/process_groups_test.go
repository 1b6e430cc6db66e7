package member

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestProbesOfManyGroupsAreSlower(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		size           groupCount
		timing         Timing
		probe, timeout time.Duration
	}{
		{1, Timing{}, 500 * ms, 1000 * ms / 3},
		{32, Timing{}, 500 * ms, 1000 * ms / 3},
		{33, Timing{}, 1031250 * time.Microsecond, 687500 * time.Microsecond},
		{48, Timing{}, 1500 * ms, 1000 * ms},
		{64, Timing{}, 2000 * ms, 4000 * ms / 3},
		{65, Timing{}, 2000 * ms, 4000 * ms / 3},
		{1_000_000, Timing{}, 2000 * ms, 4000 * ms / 3},
		{48, Timing{Probe: 300 * ms}, 300 * ms, 200 * ms},
		{48, Timing{ProbeTimeout: 400 * ms}, 1500 * ms, 400 * ms},
	} {
		timing := row.timing.withDefaults(row.size)
		if timing.Probe != row.probe || timing.ProbeTimeout != row.timeout {
			t.Errorf("%d groups, %+v: a probe each %v with %v for the answer, want %v and %v", row.size, row.timing, timing.Probe,
				timing.ProbeTimeout, row.probe, row.timeout)
		}
	}
}

// among returns a change of configurations that starts groups beside a number of other groups.
func among(others int64) (all *ProcessGroups, change func(*Config)) {
	all = &ProcessGroups{}
	all.open.Store(others)
	return all, func(c *Config) { c.Groups = all }
}

func TestEachGroupIsCountedUntilItsEnd(t *testing.T) {
	inLab(t, func(l *lab) {
		all, in := among(0)
		want := func(open int64, when string) {
			t.Helper()
			if got := all.open.Load(); got != open {
				t.Errorf("%s: %d groups are counted, want %d", when, got, open)
			}
		}
		a, b, c := l.trio(in)
		want(3, "three have started")
		if _, err := Start(Config{Groups: all}); err == nil {
			t.Error("a group without a name has started")
		}
		want(3, "a start has failed")
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			want(2, "a is closed")
		}
		if err := b.Leave(l.t.Context()); err != nil {
			t.Error(err)
		}
		want(1, "b has left")
		_ = b.Close()
		_ = b.Leave(l.t.Context())
		want(1, "b is closed, too")
		cancelled, cancel := context.WithCancel(l.t.Context())
		cancel()
		_ = c.Leave(cancelled)
		want(0, "c had no time to leave")
		l.start("a", 4, addr(1), in)
		want(1, "a has started again")
	})
}

func TestManyGroupsAreConfiguredForTheirNumber(t *testing.T) {
	inLab(t, func(l *lab) {
		_, in := among(int64(manyGroups) - 1)
		usual := memberlist.DefaultLANConfig().RetransmitMult
		check := func(name string, n *node, probe time.Duration, retransmit int, streams bool) {
			t.Helper()
			m := n.serfConfig(nil).MemberlistConfig
			if m.ProbeInterval != probe || n.Timing().Probe != probe || m.RetransmitMult != retransmit || m.DisableTcpPings {
				t.Errorf("%s: a probe each %v (%v in Timing), RetransmitMult %d, no TCP pings at all: %v", name, m.ProbeInterval,
					n.Timing().Probe, m.RetransmitMult, m.DisableTcpPings)
			}
			if m.DisableTcpPingsForNode("x") == streams {
				t.Errorf("%s: TCP pings %v, want %v", name, !streams, streams)
			}
		}
		alone, last := l.start("a", 1, addr(1)), l.start("b", 2, addr(2), in)
		check("last of few groups", last, probeDefault, usual, true)
		first := l.start("c", 3, addr(3), in)
		check("not counted", alone, probeDefault, usual, true)
		check("last of few groups that have become many", last, probeDefault, usual, false)
		check("first of many groups", first, 33*probePerGroup, manyGroupsRetransmitMult, false)
		last.Close()
		check("one of many groups that have become few", first, 33*probePerGroup, manyGroupsRetransmitMult, true)
	})
}

func TestANodeOfTheMostGroupsIsSeenFailed(t *testing.T) {
	inLab(t, func(l *lab) {
		_, in := among(1000)
		a, b, c := l.trio(in)
		time.Sleep(time.Minute) // simulated time, until there is no news
		before := a.port.sent.Load()
		time.Sleep(time.Minute)
		if sent, most := a.port.sent.Load()-before, int64(1.2*60*UpkeepOf(Timing{Probe: manyGroupsProbeMax}, 3).Probes); sent > most {
			t.Errorf("a has sent %d packets in a minute, want %d at most", sent, most)
		}
		start := time.Now()
		c.Close()
		if took := time.Since(start); took > manyGroupsProbeMax+time.Second {
			t.Errorf("Close took %v", took)
		}
		l.within(inTheEnd, "a and b see c failed", func() bool { return a.told(MemberFailed, "c", 3) && b.told(MemberFailed, "c", 3) })
		t.Logf("seen failed after %v", time.Since(start))
		if got := a.member("c"); got.State != vote.Failed {
			t.Errorf("a sees %v", got)
		}
	})
}
