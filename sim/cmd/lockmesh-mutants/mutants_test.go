package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const sampleText = `package sample

type counter struct{ n, limit int }

func (c *counter) add(by int) bool {
	if by < 0 || c.n+1 > c.limit {
		return false
	}
	c.n += by
	c.note()
	return c.n == c.limit
}

func (c *counter) note() {}

const constant = 1 + 1
`

func TestEachKindOfLineIsBroken(t *testing.T) {
	sites, err := sitesIn("sample", "sample.go", []byte(sampleText))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sites {
		got = append(got, strings.TrimPrefix(s.id, "sample/sample.go:counter.add:")+": "+s.old+" => "+s.now)
	}
	want := []string{
		"omitted:1: c.n += by => (nothing)",
		"omitted:2: c.note() => (nothing)",
		"always:1: by < 0 || c.n+1 > c.limit => true",
		"never:1: by < 0 || c.n+1 > c.limit => false",
		"dropped:1: by < 0 || c.n+1 > c.limit => by < 0",
		"dropped:2: by < 0 || c.n+1 > c.limit => c.n+1 > c.limit",
		"boundary:1: by < 0 => by <= 0",
		"boundary:2: c.n+1 > c.limit => c.n+1 >= c.limit",
		"offbyone:1: c.n+1 => c.n",
		"negate:1: c.n == c.limit => c.n != c.limit",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each name in the patterns of a suite is that of a test, so that a renamed test doesn't leave a
// suite with nothing to run, or with the tests that it means to leave out.
func TestTheTestsThatSuitesNameExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	skipped := make(map[string]bool)
	for _, s := range suites() {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(s.pkg), "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", s.pkg, err)
		}
		var names []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
		}
		for i, arg := range s.args {
			if arg == "-test.run" && !slices.ContainsFunc(names, regexp.MustCompile(s.args[i+1]).MatchString) {
				t.Errorf("%s, %s: no test is named %s", s.name, s.pkg, s.args[i+1])
			}
			if arg != "-test.skip" {
				continue
			}
			for part := range strings.SplitSeq(s.args[i+1], "|") {
				skipped[part] = skipped[part] || slices.ContainsFunc(names, regexp.MustCompile(part).MatchString)
			}
		}
	}
	for part, found := range skipped {
		if !found {
			t.Errorf("no suite has a test named %s, which is to be left out", part)
		}
	}
}

// A program with all switches behaves like the original while no switch is chosen, and otherwise as
// the chosen mutant says. So a surviving mutant isn't a switch without effect.
func TestASwitchDoesWhatItsMutantSays(t *testing.T) {
	sites, err := sitesIn("main", "sample.go", []byte(sampleText))
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]int, len(sites))
	for i := range numbers {
		numbers[i] = i
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewritten := strings.Replace(rewrite(sampleText, sites, numbers), "package sample", "package main", 1)
	write("sample.go", rewritten)
	write("switches.go", strings.Replace(switches, "%s", "main", 1))
	write("main.go", `package main

import "fmt"

func main() {
	c := counter{limit: 3}
	for _, by := range []int{0, 2, 1, 1} {
		done := c.add(by)
		fmt.Printf(" %t %d", done, c.n)
	}
}
`)
	write("go.mod", "module sample\n\ngo 1.26\n")
	bin := filepath.Join(dir, "sample.exe")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, rewritten)
	}
	run := func(mutant string) string {
		cmd := exec.Command(bin)
		cmd.Env = append(os.Environ(), "LOCKMESH_MUTANT="+mutant)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	const plain = " false 0 false 2 true 3 false 3"
	if got := run(""); got != plain {
		t.Errorf("without a mutant it prints %q, not %q", got, plain)
	}
	want := map[string]string{
		"c.n += by":               " false 0 false 0 false 0 false 0",
		"by <= 0":                 " false 0 false 2 true 3 false 3",
		"c.n+1 >= c.limit":        " false 0 false 2 false 2 false 2",
		"c.n":                     " false 0 false 2 true 3 false 4",
		"c.n != c.limit":          " true 0 true 2 false 3 false 3",
		"true":                    " false 0 false 0 false 0 false 0",
		"false":                   " false 0 false 2 true 3 false 4",
		"(nothing) for c.n += by": " false 0 false 0 false 0 false 0",
		"by < 0":                  " false 0 false 2 true 3 false 4",
		"c.n+1 > c.limit":         plain,
		"(nothing) for c.note()":  plain,
	}
	tried := 0
	for i, s := range sites {
		name := s.now
		if name == "(nothing)" {
			name += " for " + s.old
		}
		if w, ok := want[name]; ok {
			tried++
			if got := run(strconv.Itoa(i)); got != w {
				t.Errorf("%s (%s): it prints %q, not %q", s.id, name, got, w)
			}
		}
	}
	if tried != len(sites) {
		t.Errorf("%d of %d mutants were tried", tried, len(sites))
	}
}

// A mutant written by hand breaks nothing if its source line has changed.
func TestTheMutantsWrittenByHandStandInTheSource(t *testing.T) {
	sites, err := aimed(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sites) < 50 {
		t.Errorf("%d mutants written by hand", len(sites))
	}
	seen := make(map[string]bool)
	for _, s := range sites {
		if seen[s.id] {
			t.Errorf("two mutants are called %q", s.id)
		}
		seen[s.id] = true
	}
}

// A verdict about a missing mutant has no use, and would hide a new mutant with the same id.
func TestEachVerdictIsAboutAMutant(t *testing.T) {
	verdicts, err := known()
	if err != nil {
		t.Fatal(err)
	}
	all, err := choice(filepath.Join("..", "..", ".."), options{tenth: -1, keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, s := range all {
		there[s.id] = true
	}
	for id := range verdicts {
		if !there[id] {
			t.Errorf("verdicts.txt has a verdict about %q, and there is no such mutant any more", id)
		}
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-tenth", "10"}, {"-keep", "0"}, {"-workers", "0"}, {"lease"}, {"-unknown"},
	} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
