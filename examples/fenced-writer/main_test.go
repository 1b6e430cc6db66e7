package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test's binary the program itself, also when the program starts itself again.
const asProgram = "FENCED_WRITER_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program runs the program, and returns its output and its exit code.
func program(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

func TestAPausedHolderIsRefused(t *testing.T) {
	for _, pause := range pauses {
		t.Run(pause, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			out, log, code := program(t, "-pause", pause)
			t.Logf("it took %v", time.Since(began))
			if code != 0 {
				t.Fatalf("it ends with %d:\n%s%s", code, out, log)
			}
			// The lines in order. The tokens are the first writer's, the second's, and the first's
			// next token.
			steps := regexp.MustCompile(`(?s)` + strings.Join([]string{
				`first +holds +the lock by token (\d+)\n`,
				`first +wrote +1 of 2 by token (\d+)\n`,
				`first +checks +its lease, which is held`,
				`first +is paused `,
				`second +holds +the lock by token (\d+)\n`,
				`second +wrote +1 of 2 by token `,
				`first +wakes up `,
				`first +refused +fence: token (\d+) is stale: "billing/ledger" has seen (\d+)\n`,
				`first +notes +what its lease says by now: lockmesh: [^\n]*the lease is lost`,
				`second +wrote +2 of 2 by token `,
				`first +holds +the lock by token (\d+)\n`,
				`first +wrote +2 of 2 by token `,
				`ledger `,
				`done `,
			}, `.*`)).FindStringSubmatch(out)
			if steps == nil {
				t.Fatalf("it tells another story:\n%s", out)
			}
			var tokens []uint64
			for _, s := range steps[1:] {
				token, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				tokens = append(tokens, token)
			}
			first, second, next := tokens[0], tokens[2], tokens[5]
			if tokens[1] != first || tokens[3] != first || tokens[4] != second {
				t.Errorf("the tokens don't fit each other: %d", tokens)
			}
			if first >= second || second >= next {
				t.Errorf("tokens %d, %d and %d don't rise", first, second, next)
			}
			if strings.Count(out, "refused") != 1 {
				t.Errorf("one write is refused, not:\n%s", out)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	_, help, code := program(t, "-h")
	if code != 0 || !strings.Contains(help, "-pause") || !strings.Contains(help, "paused holder") {
		t.Errorf("-h ends with %d and says:\n%s", code, help)
	}
}

func TestWhatItDoesntKnowItRefuses(t *testing.T) {
	for _, args := range [][]string{{"-pause", "gently"}, {"-nonsense"}, {"more"}} {
		if out, log, code := program(t, args...); code != 2 || out != "" || log == "" {
			t.Errorf("%q ends with %d and says:\n%s%s", args, code, out, log)
		}
	}
}
