package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// step is the state of the voters from a time on: "a b- c~" has a counting, b unreachable and c
// quiet.
type step struct {
	at     time.Duration
	voters string
}

// notices plays steps to a voter monitor of a node with a MaxTTL of 10 s, checks every tenth of a
// second until the end, and returns the lines of the log.
func notices(steps []step, end time.Duration) []string {
	const start = vote.Instant(1e9)
	o, told := newVoterMonitor(start, 10*time.Second), []string(nil)
	voters := []quorum.VoterState(nil)
	for at := time.Duration(0); at <= end; at += voterCheckEvery {
		for len(steps) > 0 && steps[0].at <= at {
			voters = nil
			for _, word := range strings.Fields(steps[0].voters) {
				v := quorum.VoterState{Name: vote.NodeID(word[:1]), State: quorum.Reachable}
				switch word[1:] {
				case "-":
					v.State = quorum.Unreachable
				case "~":
					v.State = quorum.Quiet
				case "?":
					v.State = quorum.Connecting
				case "!":
					v.State, v.Text = quorum.Refused, "no"
				}
				voters = append(voters, v)
			}
			steps = steps[1:]
		}
		counting := 0
		for _, v := range voters {
			if v.State == quorum.Reachable {
				counting++
			}
		}
		now := vote.Now{Slow: start.Add(at), Fast: start.Add(at), Wall: vote.Micros(at.Microseconds())}
		for _, n := range o.check(now, 2*counting > len(voters), voters) {
			told = append(told, fmt.Sprintf("%v %v %s %v", at, n.level, n.text, n.args))
		}
	}
	return told
}

func TestTheLogTellsOfVotersOnce(t *testing.T) {
	const first = "a? b? c?"
	for _, row := range []struct {
		name  string
		steps []step
		end   time.Duration
		want  []string
	}{
		{name: "a healthy first start", steps: []step{{0, first}, {time.Second, "a~ b~ c?"}, {4 * time.Second, "a~ b~ c~"}, {11 * time.Second, "a b c~"}, {15 * time.Second, "a b c"}},
			end: time.Hour},
		{name: "one never comes", steps: []step{{0, first}, {time.Second, "a~ b~ c-"}, {11 * time.Second, "a b c-"}}, end: time.Hour,
			want: []string{"5s WARN a voter doesn't count [voter c state c unreachable]"}},
		{name: "two never come", steps: []step{{0, first}, {time.Second, "a~ b- c-"}, {11 * time.Second, "a b- c-"}}, end: 20 * time.Minute,
			want: []string{
				"5s WARN a voter doesn't count [voter b state b unreachable]", "5s WARN a voter doesn't count [voter c state c unreachable]",
				"15s WARN no majority: locks can't be granted [since 1970-01-01T00:00:00Z for 15s voters 1 of 3 voters counts: b unreachable, c unreachable]",
				"10m15s WARN no majority: locks can't be granted [since 1970-01-01T00:00:00Z for 10m15s voters 1 of 3 voters counts: b unreachable, c unreachable]",
			}},
		{name: "a connection breaks and comes back", steps: []step{{0, "a b c"}, {time.Minute, "a b c?"}, {time.Minute + 900*time.Millisecond, "a b c"}}, end: time.Hour},
		{name: "one is killed and restarted", steps: []step{{0, "a b c"}, {time.Minute, "a b c?"}, {time.Minute + 2*time.Second, "a b c-"}, {65 * time.Second, "a b c~"},
			{75 * time.Second, "a b c"}}, end: time.Hour, want: []string{
			"1m1s WARN a voter doesn't count [voter c state c connecting]", "1m15s INFO a voter counts again [voter c after 15s]",
		}},
		{name: "one is restarted at once", steps: []step{{0, "a b c"}, {time.Minute, "a b c~"}, {70 * time.Second, "a b c"}}, end: time.Hour, want: []string{
			"1m1s INFO a voter has restarted, and doesn't count yet [voter c state c quiet until other voters have reported the highest token]",
			"1m10s INFO a voter counts again [voter c after 10s]",
		}},
		{name: "one is restarted, and dies while it is quiet", steps: []step{{0, "a b c"}, {time.Minute, "a b c~"}, {65 * time.Second, "a b c?"}, {67 * time.Second, "a b c-"}},
			end: time.Hour, want: []string{
				"1m1s INFO a voter has restarted, and doesn't count yet [voter c state c quiet until other voters have reported the highest token]",
				"1m6s WARN a voter doesn't count [voter c state c connecting]",
			}},
		{name: "one is restarted twice, and its connection breaks for a moment", steps: []step{{0, "a b c"}, {time.Minute, "a b c~"}, {65 * time.Second, "a b c?"},
			{65*time.Second + 500*time.Millisecond, "a b c~"}, {68 * time.Second, "a b c?"}, {68*time.Second + 900*time.Millisecond, "a b c~"}, {80 * time.Second, "a b c"}},
			end: time.Hour, want: []string{
				"1m1s INFO a voter has restarted, and doesn't count yet [voter c state c quiet until other voters have reported the highest token]",
				"1m20s INFO a voter counts again [voter c after 20s]",
			}},
		{name: "one dies while it is quiet, and is back", steps: []step{{0, "a b c"}, {time.Minute, "a b c~"}, {65 * time.Second, "a b c-"}, {90 * time.Second, "a b c~"},
			{100 * time.Second, "a b c"}, {5 * time.Minute, "a b c-"}}, end: time.Hour, want: []string{
			"1m1s INFO a voter has restarted, and doesn't count yet [voter c state c quiet until other voters have reported the highest token]",
			"1m6s WARN a voter doesn't count [voter c state c unreachable]",
			"1m40s INFO a voter counts again [voter c after 40s]",
			"5m1s WARN a voter doesn't count [voter c state c unreachable]",
		}},
		{name: "one dies while it is quiet after the first start", steps: []step{{0, first}, {time.Second, "a~ b~ c~"}, {7 * time.Second, "a~ b~ c-"}, {11 * time.Second, "a b c-"}},
			end: time.Hour, want: []string{"8s WARN a voter doesn't count [voter c state c unreachable]"}},
		{name: "a cut of two minutes", steps: []step{{0, "a b c"}, {time.Minute, "a b? c?"}, {63 * time.Second, "a b- c-"}, {3 * time.Minute, "a b c-"}, {181 * time.Second, "a b c"}},
			end: time.Hour, want: []string{
				"1m1s WARN a voter doesn't count [voter b state b connecting]", "1m1s WARN a voter doesn't count [voter c state c connecting]",
				"1m1s WARN no majority: locks can't be granted [since 1970-01-01T00:01:00Z for 1s voters 1 of 3 voters counts: b connecting, c connecting]",
				"3m0s INFO a voter counts again [voter b after 2m0s]", "3m0s INFO majority back: locks can be granted again [after 2m0s]",
				"3m1s INFO a voter counts again [voter c after 2m1s]",
			}},
		{name: "one is voted out", steps: []step{{0, "a b c"}, {time.Minute, "a b c-"}, {2 * time.Minute, "a b"}}, end: time.Hour, want: []string{
			"1m1s WARN a voter doesn't count [voter c state c unreachable]",
		}},
		{name: "no electorate is known", steps: []step{{0, ""}}, end: time.Minute, want: []string{
			"15s WARN no majority: locks can't be granted [since 1970-01-01T00:00:00Z for 15s voters no electorate is known]",
		}},
		{name: "one refuses", steps: []step{{0, "a b c!"}}, end: time.Minute, want: []string{"5s WARN a voter doesn't count [voter c state c refuses (no)]"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := notices(row.steps, row.end)
			if strings.Join(got, "\n") != strings.Join(row.want, "\n") {
				t.Errorf("the log says\n%s\nand should say\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
		})
	}
}

// A monitor with nothing left to log waits for events, and costs an idle node nothing.
func TestAVoterMonitorRestsWhileAllIsWell(t *testing.T) {
	const start = vote.Instant(1e9)
	o := newVoterMonitor(start, 10*time.Second)
	if _, waits := o.due(start); !waits {
		t.Error("the first look isn't due")
	}
	now := vote.Now{Slow: start}
	o.check(now, true, []quorum.VoterState{{Name: "a", State: quorum.Reachable}})
	if d, waits := o.due(start); waits {
		t.Errorf("it wants to look again after %v though all is well", d)
	}
	if !o.isThrottled(start.Add(voterCheckEvery / 2)) {
		t.Error("it looks again at once")
	}
	if d, waits := o.due(start.Add(voterCheckEvery / 2)); !waits || d > outageGrace {
		t.Errorf("something happened while it rested: the next look is due after %v (%v)", d, waits)
	}
	look := func(after time.Duration, state quorum.State) (time.Duration, bool) {
		now := vote.Now{Slow: start.Add(after)}
		o.check(now, true, []quorum.VoterState{{Name: "a", State: state}})
		return o.due(now.Slow)
	}
	for _, step := range []struct {
		at    time.Duration
		state quorum.State
		waits bool
		name  string
	}{
		{time.Second, quorum.Quiet, true, "a voter has restarted"},
		{3 * time.Second, quorum.Quiet, false, "the log tells of the restart"},
		{4 * time.Second, quorum.Unreachable, true, "the voter can't be reached any more"},
		{6 * time.Second, quorum.Unreachable, false, "the log tells of the outage"},
	} {
		if d, waits := look(step.at, step.state); waits != step.waits || waits && (d <= 0 || d > outageGrace) {
			t.Errorf("%s: the next look is due after %v (%v)", step.name, d, waits)
		}
	}
}
