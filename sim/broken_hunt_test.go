//go:build hunt && !race

package sim

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// breaker builds a lockmesh-sim for all broken rules.
func breaker(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "lockmesh-sim")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay(t), "-o", program, "./cmd/lockmesh-sim")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

var violated = regexp.MustCompile(`VIOLATION in seed (\d+): (.+?) violated at`)

// runBroken runs worlds with a broken rule, one seed after the other, until a world violates a
// check. The results are the seed of this world, or zero, and the violated check.
func runBroken(t *testing.T, program, rule string, seed, seeds uint64) (found uint64, check string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), program, "-dynamic", "-seed", fmt.Sprint(seed), "-seeds", fmt.Sprint(seeds), "-seconds", fmt.Sprint(brokenSeconds))
	run.Env = append(os.Environ(), envBroken+"="+rule)
	var out, complaints bytes.Buffer
	run.Stdout, run.Stderr = &out, &complaints
	err := run.Run()
	m := violated.FindStringSubmatch(out.String())
	if m == nil {
		if err != nil {
			t.Fatalf("%v: %s", err, complaints.String())
		}
		return 0, ""
	}
	found, err = strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return found, m[2]
}

// TestBrokenRulesAreFoundByRandomWorlds breaks each rule of elections in the source, and runs the
// world listed in docs/simulation.md as the first to find the broken rule. If the core has changed
// since and this world finds nothing, the test runs all worlds up to the first with a violation.
// The same world must pass without the broken rule. The table is written anew by:
// go test -tags hunt ./sim -run BrokenRules -update -timeout 0
func TestBrokenRulesAreFoundByRandomWorlds(t *testing.T) {
	page := tableOfBrokenRules(t)
	program := breaker(t)
	if *update {
		table := brokenHead
		for _, b := range brokenRules {
			seed, check := runBroken(t, program, b.name, 1, brokenSeeds)
			worlds := fmt.Sprint(seed)
			if seed == 0 {
				worlds = fmt.Sprintf("over %d", brokenSeeds)
			}
			t.Logf("%s: %s, %s", b.name, worlds, check)
			table += fmt.Sprintf("| %s | `%s` | %s | %s |\n", b.name, b.file, worlds, check)
		}
		if err := os.WriteFile(brokenPage, []byte(page.before+brokenBegin+table+brokenEnd+page.after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	type finding struct {
		seed uint64
		over bool // no world up to seed finds the broken rule
	}
	found := make(map[string]finding)
	for _, row := range brokenRow.FindAllStringSubmatch(page.rows, -1) {
		seed, err := strconv.ParseUint(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		found[row[1]] = finding{seed, row[2] != ""}
	}
	for _, b := range brokenRules {
		t.Run(b.name, func(t *testing.T) {
			f, ok := found[b.name]
			if !ok || f.seed == 0 || f.seed > brokenSeeds {
				t.Fatalf("%s names no world among the first %d that finds it", brokenPage, brokenSeeds)
			}
			if f.over {
				t.Skipf("none of %d worlds finds it: a gap that the page states", f.seed)
			}
			seed, _ := runBroken(t, program, b.name, f.seed, 1)
			if seed == 0 { // the core has changed since the page was written
				now, check := runBroken(t, program, b.name, 1, brokenSeeds)
				if now == 0 {
					t.Fatalf("none of %d worlds finds it, and %s says that one does", brokenSeeds, brokenPage)
				}
				t.Logf("the core has changed: %d was the first world that finds it, and now %d is, by %s", f.seed, now, check)
				seed = now
			}
			if found, check := runBroken(t, program, "", seed, 1); found != 0 {
				t.Errorf("world %d violates %q though no rule is broken", seed, check)
			}
		})
	}
}
