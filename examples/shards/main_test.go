package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/exampletest"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func noEnv(string) string { return "" }

func TestTheDemoSharesEvenlyAsNodesComeAndGo(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-max-ttl", "1s"}, noEnv, &out, &log); code != 0 {
		t.Fatalf("it ends with %d:\n%s%s", code, &out, &log)
	}
	steps := regexp.MustCompile(`(?s)` + strings.Join([]string{
		`start +nodes a and b share 64`,
		`even +a 32 #{16} +b 32 #{16}\n`,
		`join +node c comes\n`,
		`even +a 2[12] #{11} +b 2[12] #{11} +c 2[12] #{11}\n`,
		`crash +node a is killed`,
		`even +b 32 #{16} +c 32 #{16}\n`,
		`done +\d+ units of work, and at no time`,
	}, `.*`))
	if !steps.MatchString(out.String()) {
		t.Fatalf("it tells another story:\n%s", &out)
	}
}

// Three processes; one is killed, and another leaves.
func TestProcessesShareEvenly(t *testing.T) {
	t.Parallel()
	procs := map[string]*exampletest.Program{}
	peers := ""
	for _, name := range voters {
		procs[name] = exampletest.Start(t, "-name", name, "-peers", peers, "-voters", strings.Join(voters, ","), "-max-ttl", "1s")
		peers += "," + procs[name].Await(`listens on (\S+)\n`)[1]
	}
	for _, name := range voters {
		procs[name].Until("its share of three", says(`has 2[12] of 64 partitions, as one of 3 workers`))
	}
	procs["b"].Kill()
	for _, name := range []string{"a", "c"} {
		procs[name].Until("its share of two", says(`has 32 of 64 partitions, as one of 2 workers`))
	}
	procs["c"].Stop()
	procs["a"].Stop() // the last node; no voter is left to confirm the releases
}

// says returns a condition that holds once the output matches a pattern.
func says(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }

func TestOneNodeEndsAfterAWhile(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-name", "a", "-voters", "a", "-max-ttl", "200ms", "-for", "1s"}, noEnv, &out, &log); code != 0 {
		t.Fatalf("it ends with %d:\n%s%s", code, &out, &log)
	}
}

func TestTheBoardFindsOutWhatMustNotBe(t *testing.T) {
	t.Parallel()
	mesh, err := lockmesh.Join(t.Context(), lockmesh.Config{Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a"}, MaxTTL: lockmesh.MinTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mesh.Leave(context.Background()) }()
	var leases []*lockmesh.Lease
	for range 2 {
		l, err := mesh.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	held, err := mesh.Lock(t.Context(), "another key")
	if err != nil {
		t.Fatal(err)
	}
	older, newer := leases[0], leases[1]
	for _, c := range []struct {
		first, second *lockmesh.Lease
		want          string
	}{
		{older, newer, "<nil>"},
		{newer, older, "isn't larger than"},
		{held, newer, "work on partition 7 at once"},
	} {
		b := newBoard()
		b.begin(7, "x", c.first)
		b.begin(7, "y", c.second)
		if _, _, wrong := b.snapshot(); !strings.Contains(fmt.Sprint(wrong), c.want) {
			t.Errorf("it says %v, want %s", wrong, c.want)
		}
	}
	b := newBoard()
	if err := b.write(7, newer); err != nil {
		t.Error(err)
	}
	if err := b.write(7, older); err == nil {
		t.Error("a late write is accepted")
	}
}

func TestFairSharesAddUp(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 70; n++ {
		least, most := fairShare(parts, n)
		if n*least > parts || n*most < parts || most-least > 1 {
			t.Errorf("of %d workers each should have %d to %d", n, least, most)
		}
	}
	for want, has := range map[bool]map[string]int{true: {"a": 32, "b": 32}, false: {"a": 33, "b": 31}} {
		if balanced(has, []string{"a", "b"}) != want {
			t.Errorf("%v is even: %v", has, !want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, help bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, noEnv, &out, &help); code != 0 || !strings.Contains(help.String(), "partitions") {
		t.Errorf("-h ends with %d and says:\n%s", code, &help)
	}
}

func TestWhatItDoesntKnowItRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-nonsense"}, {"more"}, {"-for", "-1s"}, {"-max-ttl", "1ms"}, {"-voters", "a"}, {"-name", "a"}, {"-name", "a", "-voters", "a,a"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, noEnv, &out, &log); code != 2 || out.Len() > 0 || log.Len() == 0 {
			t.Errorf("%q ends with %d and says:\n%s%s", args, code, &out, &log)
		}
	}
}
