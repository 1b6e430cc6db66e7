package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Workers on all nodes contend for a lock while holders are killed. The test judges the ledger, a
// common file in which the holders record their leases.
func TestHoldersNeverOverlapWhileNodesAreKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	m := startMesh(t, abc, "-lock", "k", "-hold", "100ms", "-pause", "1ms", "-ledger", file)
	for i, name := range abc {
		if !sampled.Case(i, len(abc)) {
			break // each restart takes two MaxTTL
		}
		for held := false; !held; {
			m.procs[name].forget()
			m.procs[name].awaitEvent("working", "k")
			m.procs[name].kill()
			held = holdsInLedger(t, file, name) // on a busy machine the kill may come too late
			p := m.start(name, m.addrs[name])
			p.awaitVoter(name, "reachable") // a second dead or quiet voter would leave no majority
		}
	}
	for _, name := range abc {
		m.procs[name].forget()
		for range 3 {
			m.procs[name].awaitEvent("granted", "k")
		}
	}
	m.end("leave", abc...)
	for _, name := range abc {
		m.procs[name].none("lost")
	}
	leases, cutShort := judgeFile(t, file)
	t.Logf("%d leases one after the other, %d of them cut short by a kill", len(leases), len(cutShort))
	if len(cutShort) == 0 {
		t.Error("no holder was killed while it held the lock; the test has shown nothing")
	}
}

// holdsInLedger reports whether the last entry of a ledger is of the named node and leaves the
// lease open.
func holdsInLedger(t *testing.T, file, name string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) != 5 { // half a line: the process was killed while writing
		return true
	}
	return fields[2] != "end" && fields[3] == name
}

// holding is a lease as recorded in a ledger.
type holding struct {
	name  string
	token uint64
	began time.Time
}

// judgeFile judges the ledger in a file.
func judgeFile(t *testing.T, file string) (leases []holding, cutShort []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	leases, cutShort, err = judge(string(text))
	if err != nil {
		t.Errorf("%v\nin a ledger that ends with:\n%s", err, tail(string(text), 4000))
	}
	return leases, cutShort
}

// judge reads a ledger in the order of writing, and returns the leases and the indexes of the
// leases cut short: the holder never wrote an end, and another lease follows.
func judge(text string) (leases []holding, cutShort []int, err error) {
	var last struct {
		token    uint64
		ended    bool
		deadline time.Time
	}
	last.ended = true
	for entry := range strings.Lines(text) {
		var (
			at, deadline int64
			word, name   string
			token        uint64
		)
		if _, err := fmt.Sscan(entry, &at, &deadline, &word, &name, &token); err != nil {
			return leases, cutShort, fmt.Errorf("unreadable line %q: %w", entry, err)
		}
		began, ends := time.Unix(0, at), time.Unix(0, deadline)
		switch {
		case word == "begin" && token <= last.token:
			return leases, cutShort, fmt.Errorf("token %d of %s comes after %d", token, name, last.token)
		case word == "begin" && !last.ended && began.Before(last.deadline):
			return leases, cutShort, fmt.Errorf("%s began %v before the lease of the dead holder had ended, token %d", name, last.deadline.Sub(began), last.token)
		case word == "begin":
			if !last.ended {
				cutShort = append(cutShort, len(leases)-1)
			}
			leases = append(leases, holding{name, token, began})
			last.token, last.ended, last.deadline = token, false, ends
		case token != last.token:
			return leases, cutShort, fmt.Errorf("%s wrote %q by token %d while %d had the lock", name, word, token, last.token)
		case last.ended:
			return leases, cutShort, fmt.Errorf("%s wrote %q by token %d after it had ended its lease", name, word, token)
		default:
			last.ended, last.deadline = word == "end", ends
		}
	}
	return leases, cutShort, nil
}

func TestTheJudgeSeesOverlaps(t *testing.T) {
	good := "100 900 begin a 1\n200 900 work a 1\n300 900 end a 1\n400 950 begin b 2\n950 1900 begin a 3\n"
	if leases, cut, err := judge(good); len(leases) != 3 || !slices.Equal(cut, []int{1}) || err != nil {
		t.Errorf("good ledger: %d leases, %v cut short, error %v; want 3, the second, none", len(leases), cut, err)
	}
	for name, bad := range map[string]string{
		"a token that falls":                  "100 900 begin a 2\n300 900 end a 2\n400 950 begin b 1\n",
		"a token that stays":                  "100 900 begin a 2\n300 900 end a 2\n400 950 begin b 2\n",
		"a begin before the dead lease's end": "100 900 begin a 1\n800 950 begin b 2\n",
		"an end that moved":                   "100 900 begin a 1\n500 1200 work a 1\n1000 1950 begin b 2\n",
		"a late write":                        "100 900 begin a 1\n950 1800 begin b 2\n1000 1900 work a 1\n",
		"a write after the end":               "100 900 begin a 1\n300 900 end a 1\n350 900 work a 1\n",
		"half a line":                         "100 900 begin\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := judge(bad); err == nil {
				t.Error("it passes")
			}
		})
	}
}
