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

// The place of the table of mutants in docs/simulation.md.
const (
	mutantsPage  = "../docs/simulation.md"
	mutantsBegin = "<!-- mutants -->\n"
	mutantsEnd   = "<!-- end of mutants -->"
	mutantsHead  = "| mutant | seeds to kill | check | its scenario | check | by what users see |\n|---|--:|---|---|---|---|\n"

	updateMutants = "go test ./sim -run TableOfMutants -update -timeout 0"
)

// mutantRow is a row of the table: the mutant, "over " if no seed finds the mutant, the seed, the
// check violated in this seed, and the rest.
var mutantRow = regexp.MustCompile(`(?m)^\| (.+?) \| (over )?(\d+) \| (.*?) \| (.*) \|$`)

// readMutants returns the table of mutants, and the page before and after the table.
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

// noted returns, for each mutant of a table, the seed that finds the mutant, or zero.
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

// steady returns a table without the columns that change with nearly every change of the core: the
// seed that finds a mutant, and the check. The page states these columns for the day of its
// writing.
func steady(table string) string {
	return mutantRow.ReplaceAllString(table, "| $1 | $5 |")
}

// TestTheTableOfMutantsIsTrue compares the table in docs/simulation.md with the mutants, their
// scenarios, and the checks that find the mutants in the scenarios. TestEveryMutantIsFound compares
// the table with the results of random worlds. With -update the test searches the first seed of
// every mutant, which takes minutes, and writes the table anew.
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
