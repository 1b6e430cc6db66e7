//go:build hunt

package proctest

import (
	"strings"
	"testing"
	"time"
)

// cutLasts is the length of the cut: long enough for a line repeated by gossip each minute to be
// logged twice.
const cutLasts = 2 * time.Minute

// Bounds the number of lines logged by five real processes, gossip's lines included: in a first
// start, in a rolling restart after kills, and in a cut. Package meshtest checks the log line by
// line, for two simulated minutes of a cut and for a calm hour.
func TestTheLogOfRealProcessesIsWorthReading(t *testing.T) {
	t.Parallel()
	h := newNetwork(t)
	names := []string{"a", "b", "c", "d", "e"}
	start := func(i int) *process {
		return h.launch(byte(i+1), names[i], "-voters", strings.Join(names, ","), "-peers", addresses(5), "-max-ttl", ttl.String())
	}
	procs := make([]*process, len(names))
	for i := range names {
		procs[i] = start(i)
	}
	every := append([]*process(nil), procs...) // killed processes as well
	// expect bounds the log since the last call: the lines of each level by the arguments, and
	// gossip's complaints by a line for each node and each minute begun.
	last := time.Now()
	expect := func(what string, infos, warns, errors int) {
		t.Helper()
		count, all := make(map[string]int), []string(nil)
		complaints := len(procs) * (1 + int(time.Since(last)/time.Minute))
		last = time.Now()
		for i, p := range procs {
			for _, line := range p.said() {
				for _, level := range []string{"level=INFO", "level=WARN", "level=ERROR"} {
					if strings.Contains(line, level) && !strings.Contains(line, `msg="gossip has reported a problem`) {
						count[level]++
					}
				}
				all = append(all, names[i]+": "+line)
			}
		}
		gossip := strings.Count(strings.Join(all, "\n"), `msg="gossip has reported a problem`)
		t.Logf("%s: %d INFO, %d WARN, %d ERROR, and %d complaints of gossip", what, count["level=INFO"], count["level=WARN"], count["level=ERROR"], gossip)
		if count["level=INFO"] > infos || count["level=WARN"] > warns || count["level=ERROR"] > errors || gossip > complaints {
			t.Errorf("%s: %v and %d complaints of gossip; at most %d INFO, %d WARN, %d ERROR and %d were expected:\n%s", what, count, gossip, infos, warns, errors, complaints, strings.Join(all, "\n"))
		}
	}
	settled := func() {
		t.Helper()
		for _, p := range procs {
			for _, other := range names {
				p.awaitVoter(other, "reachable")
			}
		}
	}
	settled()
	expect("a first start", 5, 0, 0)

	for i := range names {
		procs[i].kill()
		for j, p := range procs {
			if j != i {
				p.awaitLog("doesn't count", "voter="+names[i])
			}
		}
		h.unplug(byte(i + 1))
		procs[i] = start(i)
		every = append(every, procs[i])
		procs[i].reached("ready")
		settled()
		for j, p := range procs {
			if j != i {
				// Otherwise the line may be counted in the next step.
				p.awaitLog("counts again", "voter="+names[i])
			}
		}
	}
	expect("a rolling restart", 5+5*4, 5*4, 0)

	h.split([]byte{1, 2}, []byte{3, 4, 5})
	procs[0].awaitLog("no majority")
	for _, other := range names[2:] { // after gossip has lost them, too
		procs[0].awaitVoter(other, "unreachable")
	}
	select {
	case <-time.After(cutLasts):
	case <-procs[0].ended:
		t.Fatal("a process ended in the cut")
	}
	h.heal()
	procs[0].awaitLog("majority back")
	settled()
	expect("a cut", 12+2, 12+2, 0)
	for _, p := range every {
		p.neverLogged("names must be unique")
	}
}
