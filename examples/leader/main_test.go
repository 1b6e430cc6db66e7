package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/exampletest"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func noEnv(string) string { return "" }

func TestTheDemoNamesTheNextHolder(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-demo", "-for", "1s"}, noEnv, &out, &log); code != 0 {
		t.Fatalf("it ends with %d:\n%s%s", code, &out, &log)
	}
	found := regexp.MustCompile(`(?s)leader +node ([abc]) leads by token (\d+)\n.*crash +node ([abc]) is killed.*takeover +node ([abc]) leads by token (\d+), `).
		FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("it tells another story:\n%s", &out)
	}
	if found[1] != found[3] || found[1] == found[4] || number(t, found[2]) >= number(t, found[5]) {
		t.Errorf("first %s led by %s, then %s was killed and %s led by %s", found[1], found[2], found[3], found[4], found[5])
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The pages of the live nodes show the new leader and the previous leader.
func TestThePagesOfTheOthersShowTheNewLeader(t *testing.T) {
	t.Parallel()
	p := exampletest.Start(t, "-demo")
	dead := p.Await(`crash +node ([abc]) `)[1]
	next := p.Await(`takeover +node ([abc]) leads by token (\d+),`)
	for _, name := range names {
		if name == dead {
			continue
		}
		url := p.Await(name + ` +shows (http://127\.0\.0\.1:\d+/)\n`)[1]
		// On a busy machine another node may lead by now, but never the dead node.
		var s state
		inTheEnd(t, func() (text string, ok bool) {
			_, _, body := get(t, url+"state.json")
			if err := json.Unmarshal([]byte(body), &s); err != nil {
				t.Fatal(err)
			}
			return body, s.Node == name && s.Leader != nil && s.Leader.Token >= number(t, next[2])
		})
		if s.Leader.Node == dead {
			t.Errorf("node %s shows that the dead node %s leads, by token %d", name, dead, s.Leader.Token)
		}
		inTheEnd(t, func() (text string, ok bool) {
			_, _, body := get(t, url)
			return body, regexp.MustCompile(`<span class="who">[^`+dead+`]</span>`).MatchString(body) && strings.Contains(body, `<th scope="row">`+dead+`</th>`)
		})
	}
	p.Stop()
}

// inTheEnd waits until a check succeeds.
func inTheEnd(t *testing.T, look func() (text string, ok bool)) {
	t.Helper()
	for end := time.Now().Add(exampletest.Patience); ; time.Sleep(10 * time.Millisecond) {
		text, ok := look()
		switch {
		case ok:
			return
		case time.Now().After(end):
			t.Fatalf("in the end it shows:\n%s", text)
		}
	}
}

// Three processes; the leader is interrupted, and another process leads.
func TestProcessesTakeOverFromEachOther(t *testing.T) {
	t.Parallel()
	procs := map[string]*exampletest.Program{}
	peers := ""
	for _, name := range names {
		procs[name] = exampletest.Start(t, "-name", name, "-peers", peers, "-voters", strings.Join(names, ","))
		peers += "," + procs[name].Await(`listens on (\S+) and shows http://`)[1]
	}
	leads := regexp.MustCompile(`sees node ([abc]) lead by token (\d+)\n`)
	last := uint64(0)
	// the leader after the last leader, other than but
	next := func(observer, but string) (leader string) {
		procs[observer].Until("the next leader", func(out string) bool {
			for _, m := range leads.FindAllStringSubmatch(out, -1) {
				if token, _ := strconv.ParseUint(m[2], 10, 64); token > last && m[1] != but {
					leader, last = m[1], token
					return true
				}
			}
			return false
		})
		return leader
	}
	first := next("a", "")
	observer := other(first)
	procs[first].Stop()
	next(observer, first) // the first may have led once more before the stop
	for name := range procs {
		if name != first {
			procs[name].Stop()
		}
	}
}

func other(name string) string {
	if name == "b" {
		return "c"
	}
	return "b"
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, help bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, noEnv, &out, &help); code != 0 || !strings.Contains(help.String(), "standbys") {
		t.Errorf("-h ends with %d and says:\n%s", code, &help)
	}
}

func TestWhatItDoesntKnowItRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-nonsense"}, {"more"}, {"-for", "-1s"}, {"-max-ttl", "1ms"}, {"-http", "127.0.0.1:0"}, {"-name", "a"}, {"-name", "a", "-voters", "a", "-demo"},
		{"-name", "a", "-voters", "a", "-http", "x"},
	} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, noEnv, &out, &log); code != 2 || out.Len() > 0 || log.Len() == 0 {
			t.Errorf("%q ends with %d and says:\n%s%s", args, code, &out, &log)
		}
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	p := shown(t, state{})
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-name", "a", "-voters", "a", "-http", p.addr}, noEnv, &out, &log); code != 1 || !strings.Contains(log.String(), "-http") {
		t.Errorf("it ends with %d and says:\n%s%s", code, &out, &log)
	}
}
