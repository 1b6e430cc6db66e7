package sim

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of mutants and of broken rules in docs/simulation.md anew")

// Where docs/simulation.md lists each mutant with what finds it.
const (
	mutantsPage  = "../docs/simulation.md"
	mutantsBegin = "<!-- mutants -->\n"
	mutantsEnd   = "<!-- end of mutants -->"
	mutantsHead  = "| mutant | seeds to kill | check | its scenario | check | by what users see |\n|---|--:|---|---|---|---|\n"

	updateMutants = "go test ./sim -run TableOfMutants -update -timeout 0"
)

// mutantRow is a row of the table: the mutant, "over " if no seed finds it, the seed, the check that finds it there, and the rest.
var mutantRow = regexp.MustCompile(`(?m)^\| (.+?) \| (over )?(\d+) \| (.*?) \| (.*) \|$`)

// readMutants returns the table of mutants, and the page before and after it.
func readMutants(t *testing.T) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(mutantsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), mutantsBegin)
	table, after, closed := strings.Cut(rest, mutantsEnd)
	if !ok || !closed {
		t.Fatalf("%s has no table between %q and %q", mutantsPage, mutantsBegin, mutantsEnd)
	}
	return before, table, after
}

// noted returns the seed that finds each mutant of a table, zero if none does.
func noted(table string) map[string]uint64 {
	seeds := make(map[string]uint64)
	for _, row := range mutantRow.FindAllStringSubmatch(table, -1) {
		seed, err := strconv.ParseUint(row[3], 10, 64)
		if err != nil || row[2] != "" {
			seed = 0
		}
		seeds[row[1]] = seed
	}
	return seeds
}

// steady is a table without what changes with nearly every change of the core, and which the page states for the day of its writing:
// which seed finds a mutant, and by which check.
func steady(table string) string {
	return mutantRow.ReplaceAllString(table, "| $1 | $5 |")
}

// TestTheTableOfMutantsIsTrue holds the table in docs/simulation.md to the mutants, to their scenarios, and to the checks that find
// them there; TestEveryMutantIsFound holds it to what random worlds find. With -update it looks for the first seeds of all mutants,
// which takes minutes, and writes the table anew.
func TestTheTableOfMutantsIsTrue(t *testing.T) {
	t.Parallel()
	check := func(err error) string {
		var v *Violation
		if errors.As(err, &v) {
			return v.Check
		}
		return "none"
	}
	rows := make([]string, len(mutants))
	write := func(m *mutant) string {
		seeds, by := fmt.Sprintf("over %d", mutantSeeds), ""
		if *update {
			if seed, err := m.firstKill(); seed != 0 {
				seeds, by = fmt.Sprint(seed), check(err)
			}
		}
		name := runtime.FuncForPC(reflect.ValueOf(m.scenario).Pointer()).Name()
		seen := "not: " + m.unseen
		if m.unseen == "" {
			seen = check(m.play(m.build, outcomes))
		}
		return fmt.Sprintf("| %s | %s | %s | `%s` | %s | %s |\n", m.name, seeds, by, name[strings.LastIndex(name, ".")+1:], check(m.play(m.build, nil)), seen)
	}
	var (
		workers sync.WaitGroup
		next    = make(chan int)
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				rows[i] = write(&mutants[i])
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	workers.Wait()

	before, table, after := readMutants(t)
	want := mutantsHead + strings.Join(rows, "")
	switch {
	case *update:
		if err := os.WriteFile(mutantsPage, []byte(before+mutantsBegin+want+mutantsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case steady(table) != steady(want):
		t.Errorf("the table isn't what happens, seeds aside (%s writes it anew); it should be\n%s", updateMutants, steady(want))
	}
}
