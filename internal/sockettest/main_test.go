package sockettest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestMain(m *testing.M) {
	sampled.Together(map[bool]int{false: 24, true: 4}[sampled.Raced])
	goleak.VerifyTestMain(suite{m})
}

// names is the name server of all tests.
var names *dnsServer

// suite serves names, and closes the shared mesh after all tests, before leaks are looked for.
type suite struct{ *testing.M }

func (s suite) Run() int {
	d, end, err := serveNames()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the tests' name server:", err)
		return 1
	}
	names = d
	defer end()
	defer closeCalmMesh()
	return s.M.Run()
}

// count returns a number of rounds: the number in an environment variable if the variable is set,
// else the first number under the race detector and the second number without.
func count(t *testing.T, variable string, slow, fast int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q: it must be a whole number above 0", variable, text)
		}
		return n
	}
	if sampled.Raced {
		return slow
	}
	return fast
}

// check ends the test at an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantIs fails unless the error is each of the others.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v is not %v", err, target)
		}
	}
}

// logs collects the lines of a log.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count returns the number of lines with all the words.
func (l *logs) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}
