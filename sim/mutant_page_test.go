package sim

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of mutants in docs/simulation.md anew")

// TestTheTableOfMutantsIsTrue holds the table in docs/simulation.md to what happens. It is written anew by:
// go test ./sim -run TableOfMutants -update
func TestTheTableOfMutantsIsTrue(t *testing.T) {
	const file, begin, end = "../docs/simulation.md", "<!-- mutants -->\n", "<!-- end of mutants -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, ok := strings.Cut(page, begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	check := func(err error) string {
		var v *Violation
		if errors.As(err, &v) {
			return v.Check
		}
		return "none"
	}
	var b strings.Builder
	b.WriteString("| mutant | seeds to kill | check | its scenario | check | by what users see |\n|---|--:|---|---|---|---|\n")
	for _, m := range mutants {
		seeds, by := fmt.Sprintf("over %d", m.seeds()), ""
		if m.seed != 0 {
			seeds, by = fmt.Sprint(m.seed), check(m.run(m.seed, m.build))
		}
		name := runtime.FuncForPC(reflect.ValueOf(m.scenario).Pointer()).Name()
		seen := "not: " + m.unseen
		if m.unseen == "" {
			seen = check(m.play(m.build, outcomes))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s | %s |\n", m.name, seeds, by, name[strings.LastIndex(name, ".")+1:], check(m.play(m.build, nil)), seen)
	}
	switch {
	case table == b.String():
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table isn't what happens (-update writes it anew); it should be\n%s", b.String())
	}
}
