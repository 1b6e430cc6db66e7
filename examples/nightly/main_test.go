package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/exampletest"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func noEnv(string) string { return "" }

func TestTheDemoRunsEachTickOnceAndSurvivesACrash(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var out, log bytes.Buffer
	if code := run(t.Context(), nil, noEnv, &out, &log); code != 0 {
		t.Fatalf("it ends with %d:\n%s%s", code, &out, &log)
	}
	steps := regexp.MustCompile(`(?s)` + strings.Join([]string{
		`start +three nodes`,
		`runs the job by token \d+\n`,
		`is done; its report bears the token \d+\n`,
		`runs the job by token \d+\n`,
		`crash +node [abc] is killed in the middle`,
		`runs the job by token \d+\n`,
		`is done; its report bears`,
		`done +\d+ runs, and no tick was run twice`,
	}, `.*`))
	if !steps.MatchString(out.String()) {
		t.Fatalf("it tells another story:\n%s", &out)
	}
	if n, err := onceEach(out.String()); err != nil || n < 3 {
		t.Errorf("%d runs, %v:\n%s", n, err, &out)
	}
}

var beganLine = regexp.MustCompile(`(\d\d:\d\d:\d\d)  runs the job by token (\d+)\n`)

// onceEach counts the runs in the output of nodes, and fails if a tick was run twice.
func onceEach(out string) (runs int, err error) {
	ticks := make(map[string]bool)
	tokens := make(map[uint64]bool)
	for _, m := range beganLine.FindAllStringSubmatch(out, -1) {
		token, err := strconv.ParseUint(m[2], 10, 64)
		switch {
		case err != nil:
			return runs, err
		case ticks[m[1]]:
			return runs, fmt.Errorf("the tick %s was run twice", m[1])
		case tokens[token]:
			return runs, fmt.Errorf("the token %d was given twice", token)
		}
		ticks[m[1]], tokens[token] = true, true
		runs++
	}
	return runs, nil
}

// Three processes; the process that runs the job is killed, and the others go on.
func TestProcessesRunEachTickOnce(t *testing.T) {
	t.Parallel()
	args := []string{"-voters", "a,b,c", "-every", "1s"}
	procs := map[string]*exampletest.Program{}
	peers := ""
	for _, name := range []string{"a", "b", "c"} {
		procs[name] = exampletest.Start(t, append([]string{"-name", name, "-peers", peers}, args...)...)
		peers += "," + procs[name].Await(`listens on (\S+)\n`)[1]
	}
	whole := func() string {
		var all strings.Builder
		for _, p := range procs {
			all.WriteString(p.Out())
		}
		return all.String()
	}
	victim, survivor := "c", "a" // either would do; rather the node that runs the job
	procs["a"].Await(`  (runs|leaves) the job`)
	for name, p := range procs {
		if beganLine.MatchString(p.Out()) {
			victim = name
		}
	}
	if victim == survivor {
		survivor = "b"
	}
	procs[victim].Kill()
	before, _ := onceEach(whole())
	// every node reports each tick
	procs[survivor].Until("a run after the crash", func(string) bool {
		n, err := onceEach(whole())
		return n > before || err != nil
	})
	for name, p := range procs {
		if name != victim {
			p.Stop()
		}
	}
	if n, err := onceEach(whole()); err != nil || n < 2 {
		t.Errorf("%d runs, %v:\n%s", n, err, whole())
	}
}

func TestOneNodeEndsAfterAWhile(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-name", "a", "-voters", "a", "-every", "1s", "-for", "3s"}, noEnv, &out, &log); code != 0 {
		t.Fatalf("it ends with %d:\n%s%s", code, &out, &log)
	}
	if n, err := onceEach(out.String()); err != nil {
		t.Errorf("%d runs, %v:\n%s", n, err, &out)
	}
}

// A node that was paused between the tick and its request must not run a job that another node has
// run and finished.
func TestATickThatIsLongPastIsLeftOut(t *testing.T) {
	t.Parallel()
	mesh, err := lockmesh.Join(t.Context(), lockmesh.Config{Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a"}, MaxTTL: lockmesh.MinTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mesh.Leave(context.Background()) }()
	if err := mesh.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var told []event
	j := &job{
		mesh: mesh, every: time.Hour, maxTTL: time.Hour, report: func(e event) { told = append(told, e) },
		work: func(context.Context, time.Time, uint64) error { return nil },
	}
	for _, c := range []struct {
		ago  time.Duration
		want []what
	}{{20 * time.Minute, []what{leftOut}}, {10 * time.Minute, []what{began, done}}} {
		told = nil
		err := j.attempt(t.Context(), time.Now().Add(-c.ago))
		var got []what
		for _, e := range told {
			got = append(got, e.what)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("a tick of %v ago: %v, %v, want %v", c.ago, got, err, c.want)
		}
	}
}

// The job of a tick is run once, though its node is gone afterwards and the lease ends after
// MaxTTL, long before the next tick.
func TestATickIsRunOnceThoughItsNodeIsGoneAfterwards(t *testing.T) {
	for what, end := range map[string]func(m *meshtest.Mesh){
		"it dies":   func(m *meshtest.Mesh) { m.Crash("a") },
		"it leaves": func(m *meshtest.Mesh) { _ = m.Node("a").Leave(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
				const every = time.Hour
				runs := 0
				newJob := func(name string, late time.Duration) *job {
					mesh := m.Node(name)
					return &job{
						mesh: mesh, every: every, maxTTL: lockmesh.DefaultMaxTTL, late: late, report: func(event) {},
						work: func(context.Context, time.Time, uint64) error { runs++; return nil },
					}
				}
				tick := time.Now()
				_ = newJob("a", 0).attempt(t.Context(), tick)
				end(m)
				for time.Since(tick) < every-time.Minute { // whenever another node tries
					_ = newJob("b", 0).attempt(t.Context(), tick)
					time.Sleep(time.Second)
				}
				if runs != 1 {
					t.Errorf("%d runs", runs)
				}
			})
		})
	}
}

func TestTheDemoFindsOutWhatMustNotBe(t *testing.T) {
	t.Parallel()
	tick := time.Now()
	for want, second := range map[string]report{
		"was run by node a and by node b": {event: event{what: began, tick: tick, token: 6}, node: &node{name: "b"}},
		"isn't larger than 5":             {event: event{what: began, tick: tick.Add(time.Second), token: 5}, node: &node{name: "b"}},
	} {
		s := &demoRun{ran: make(map[time.Time]string), printf: printer(io.Discard)}
		if err := s.take(report{event: event{what: began, tick: tick, token: 5}, node: &node{name: "a"}, resume: make(chan struct{})}); err != nil {
			t.Fatal(err)
		}
		if err := s.take(second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, help bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, noEnv, &out, &help); code != 0 || !strings.Contains(help.String(), "-every") {
		t.Errorf("-h ends with %d and says:\n%s", code, &help)
	}
}

func TestWhatItDoesntKnowItRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-nonsense"}, {"more"}, {"-every", "1ms"}, {"-max-ttl", "1ms"}, {"-for", "-1s"}, {"-voters", "a"}, {"-name", "a"}, {"-name", "a", "-voters", "a,a"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, noEnv, &out, &log); code != 2 || out.Len() > 0 || log.Len() == 0 {
			t.Errorf("%q ends with %d and says:\n%s%s", args, code, &out, &log)
		}
	}
}
