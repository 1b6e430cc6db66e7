package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/cmd/internal/shown"
	"github.com/lockmesh/lockmesh/sim/plan"
)

var update = flag.Bool("update", false, "write docs/planning.md's outputs and its table of fields anew")

const planningPage = "docs/planning.md"

// atRoot has a test run at the root, where the page's commands are meant to run.
func atRoot(t *testing.T) { t.Chdir("../../..") }

func TestFlagsThatDoNotGoWithAPlan(t *testing.T) {
	atRoot(t)
	for _, row := range []struct{ flags, want string }{
		{"-set ttl=5s", "-set is for planning"},
		{"-json", "-json is for planning"},
		{"-plan=", "-plan is for planning: name a scenario's file"},
		{"-plan docs/plans/rack.json -seeds 3", "-seeds: can't be combined with -plan"},
		{"-plan docs/plans/rack.json -nodes 3 -svg x", "-nodes, -svg: can't be combined with -plan"},
		{"-plan docs/plans/rack.json -seconds 3", "-set simulate.for=1h"},
		{"-plan docs/plans/rack.json -set ttl", "isn't field=value"},
		{"-plan docs/plans/rack.json -set ttl=1ms", "docs/plans/rack.json:\nttl: 1ms: it must be 200ms to 24h"},
		{"-plan docs/plans/rack.json -set nodes=4", "nodes: there is no such field"},
		{"-plan docs/plans/rack.json x", "isn't a flag"},
	} {
		err := run(strings.Fields(row.flags), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want something with %q", row.flags, err, row.want)
		}
	}
	if err := run([]string{"-plan", "docs/plans/none.json"}, io.Discard, io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func TestAViolationInAPlanIsReported(t *testing.T) {
	atRoot(t)
	for _, flags := range []string{"-plan docs/plans/rack.json", "-plan docs/plans/rack.json -json"} {
		s, err := parse(strings.Fields(flags), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		s.simulate = func(*plan.Scenario, plan.Progress) *plan.Report {
			text := "exclusion violated at 1s: two hold it"
			return &plan.Report{Violation: &text, ViolatedIn: 2, Worlds: 8}
		}
		var out bytes.Buffer
		if err := s.runPlan(&out, io.Discard); !errors.Is(err, errViolated) || !strings.Contains(out.String(), "exclusion violated at 1s") {
			t.Errorf("%s ends with %v:\n%s", flags, err, out.String())
		}
	}
}

func TestTheHelpTellsOfPlanning(t *testing.T) {
	var b bytes.Buffer
	if err := run([]string{"-h"}, io.Discard, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-plan docs/plans/rack.json -set ttl=5s", planningPage, "-json"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the help doesn't mention %s", want)
		}
	}
}

// TestTheExamples runs each example file for a short time, in both formats.
func TestTheExamples(t *testing.T) {
	sampled.Computes(t)
	atRoot(t)
	files, err := filepath.Glob("docs/plans/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		args := []string{"-plan", file, "-set", "simulate.for=8m", "-set", "simulate.worlds=2", "-seed", "3"}
		var text, machine bytes.Buffer
		if err := errors.Join(run(args, &text, io.Discard), run(append(args, "-json"), &machine, io.Discard)); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, text.String())
		}
		for _, want := range []string{"in 2 worlds, seed 3", "availability", "take-over", "hand-over", "messages per lock", "in one round", "no violation"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: the report lacks %q:\n%s", file, want, text.String())
			}
		}
		var r struct {
			Availability, Majority float64
			Seed                   uint64
			ByNode                 []struct{ Probes, Failed uint64 } `json:"availability_by_node"`
			Free                   struct {
				Count  int
				Median float64 `json:"median_s"`
				P99    float64 `json:"p99_s"`
			} `json:"free_lock"`
			HandOver struct{ Count int } `json:"hand_over"`
			Locks    struct {
				Messages float64 `json:"messages_per_lock"`
				Share    float64 `json:"in_one_round_share"`
			} `json:"messages_and_rounds_free"`
			Upkeep    float64 `json:"upkeep_messages_per_node_second"`
			Violation *string
		}
		if err := json.Unmarshal(machine.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, machine.String())
		}
		// As in "a* b* c*".
		voters := float64(strings.Count(text.String(), "* ") + strings.Count(text.String(), "*\n"))
		switch {
		case r.Violation != nil, r.Seed != 3,
			r.Availability < 0.9 || r.Availability > 1, r.Majority < 0.9 || r.Majority > 1,
			r.Free.Count < 90 || r.Free.Median <= 0 || r.Free.P99 < r.Free.Median, r.HandOver.Count < 20,
			r.Locks.Messages < 2*(voters-1) || r.Locks.Messages > 6*voters, r.Locks.Share < 0.9 || r.Locks.Share > 1, r.Upkeep <= 0,
			len(r.ByNode) < 3:
			t.Errorf("%s: with %v voters these figures make no sense:\n%s", file, voters, machine.String())
		}
	}
}

// consoles finds the page's commands and their outputs.
var consoles = regexp.MustCompile("(?s)```console\n\\$ go run ./sim/cmd/lockmesh-sim ([^\n]*)\n(.*?)```")

// prints runs a command of the page. The command may end with grep -E, to select lines.
func prints(t *testing.T, command string) string {
	t.Helper()
	command, choice, chosen := strings.Cut(command, " | grep -E ")
	var out bytes.Buffer
	if err := run(strings.Fields(command), &out, io.Discard); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if !chosen {
		return out.String()
	}
	wanted := regexp.MustCompile(strings.Trim(choice, "'"))
	var b strings.Builder
	for line := range strings.Lines(out.String()) {
		if wanted.MatchString(strings.TrimSuffix(line, "\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// envPages, if set, has every output of the page compared with the command's output, as the hunt
// does, in half a minute. Otherwise only the first output is compared.
const envPages = "LOCKMESH_PAGES"

// drift is how far a figure of the page may be off before the page must be updated: more than the
// difference between seeds, and less than a difference on which a reader would decide otherwise.
const drift = 0.25

const (
	figuresAt = 25 // where the column of figures begins in a report
	samplesAt = 64 // where the column with the number of samples begins
)

// rare lists the lines of a report with figures that depend on few rare events.
var rare = []string{"what happened", "  worst node", "split votes", "leases lost"}

// steady returns a report without the figures that chance decides: counts, and the slowest of some
// samples.
func steady(report string) string {
	var b strings.Builder
	for line := range strings.Lines(report) {
		columns := []rune(strings.TrimSuffix(line, "\n"))
		if len(columns) > samplesAt {
			columns = columns[:samplesAt]
		}
		text, _, _ := strings.Cut(string(columns), ", 99th ")
		if slices.ContainsFunc(rare, func(label string) bool { return strings.HasPrefix(text, label) }) {
			text = text[:figuresAt]
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// TestThePlanningPageShowsWhatTheCommandPrints compares docs/planning.md with the command's output
// and with the fields of a scenario. To update the page:
// go test ./sim/cmd/lockmesh-sim -run PlanningPage -update
func TestThePlanningPageShowsWhatTheCommandPrints(t *testing.T) {
	sampled.Computes(t)
	atRoot(t)
	text, err := os.ReadFile(planningPage)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")

	const begin, end = "<!-- fields -->\n", "<!-- end of fields -->"
	before, rest, ok := strings.Cut(page, begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("the page has no table of fields between %q and %q", begin, end)
	}
	if want := plan.Reference(); table != want && !*update {
		t.Errorf("the page's table of fields differs from the fields there are; -update writes it anew")
	}
	page = before + begin + plan.Reference() + end + after

	if found := consoles.FindAllStringSubmatch(page, -1); len(found) < 3 || len(found) != strings.Count(page, "```console") {
		t.Fatalf("%d of the page's %d outputs are of lockmesh-sim", len(found), strings.Count(page, "```console"))
	}
	everyOutput, n := os.Getenv(envPages) != "", 0
	page = consoles.ReplaceAllStringFunc(page, func(block string) string {
		m := consoles.FindStringSubmatch(block)
		if n++; n > 1 && !everyOutput && !*update {
			return block
		}
		got := prints(t, m[1])
		if why := shown.Differ(steady(m[2]), steady(got), drift); why != "" && !*update {
			t.Errorf("%s: %s\nIt prints\n%s\nand the page shows\n%s\n-update writes it anew", m[1], why, got, m[2])
		}
		return "```console\n$ go run ./sim/cmd/lockmesh-sim " + m[1] + "\n" + got + "```"
	})
	if *update {
		if err := os.WriteFile(planningPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestThePlanningPageShowsTheExamples(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile(planningPage)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	for _, m := range regexp.MustCompile("(?s)```json\n(\\{.*?\n\\}\n)```").FindAllStringSubmatch(page, -1) {
		if _, err := plan.Read(strings.NewReader(m[1])); err != nil {
			t.Errorf("the page shows a scenario that is refused: %v\n%s", err, m[1])
		}
	}
	// Figures that a table repeats must be in the outputs.
	outputs := ""
	for _, m := range consoles.FindAllStringSubmatch(page, -1) {
		outputs += m[2]
	}
	rows := regexp.MustCompile(`(?m)^\| \d+ s \|(.*)\|$`).FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		for cell := range strings.SplitSeq(row[1], "|") {
			figure := strings.ReplaceAll(strings.TrimSpace(cell), " s", "s")
			if !regexp.MustCompile(`[ ]` + regexp.QuoteMeta(figure) + `[ ,]`).MatchString(outputs) {
				t.Errorf("the page's table says %s, which none of its outputs does", figure)
			}
		}
	}
	if len(rows) < 3 {
		t.Errorf("the page's table of TTLs has %d rows", len(rows))
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join("docs", m[1])); err != nil {
			t.Errorf("the page links to %s: %v", m[1], err)
		}
	}
}
