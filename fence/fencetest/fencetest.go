// Package fencetest tests that a resource refuses stale tokens, in any order of writes.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
)

// Log is a fenced resource under test, used as a list of lines. Its methods are called from several
// goroutines.
type Log interface {
	// Append appends a line by a fenced write.
	Append(ctx context.Context, token uint64, line string) error
	// Lines returns all lines in the order in which they took effect.
	Lines(ctx context.Context) ([]string, error)
}

// Run tests the resource returned by open. Each call of open must return a resource that is empty
// and has seen no token.
func Run(t *testing.T, open func(t *testing.T) Log) {
	t.Run("the first token is accepted, and no token is none", func(t *testing.T) { testFirst(t, open(t)) })
	t.Run("an older token is refused with both tokens and changes nothing", func(t *testing.T) { testOlder(t, open(t)) })
	t.Run("tokens have 63 bits", func(t *testing.T) { test63Bits(t, open(t)) })
	t.Run("whatever order writes arrive in, accepted tokens never fall", func(t *testing.T) {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { testAnyOrder(t, open(t), rand.New(rand.NewPCG(seed, 0))) })
		}
	})
	t.Run("at once, too", func(t *testing.T) { testConcurrent(t, open(t)) })
}

func testFirst(t *testing.T, l Log) {
	for _, token := range []uint64{0, fence.MaxToken + 1, 1<<64 - 1} {
		if err := l.Append(t.Context(), token, "nobody's"); !errors.Is(err, fence.ErrToken) {
			t.Errorf("token %d: %v, not an ErrToken", token, err)
		}
	}
	accept(t, l, 7, "first")
	accept(t, l, 7, "again")
	wantLines(t, l, "first", "again")
}

func testOlder(t *testing.T, l Log) {
	accept(t, l, 5, "by 5")
	accept(t, l, 9, "by 9")
	refuse(t, l, 5, 9)
	refuse(t, l, 8, 9)
	accept(t, l, 9, "by 9 again")
	refuse(t, l, 1, 9)
	wantLines(t, l, "by 5", "by 9", "by 9 again")
}

func test63Bits(t *testing.T, l Log) {
	accept(t, l, 1<<53+1, "beyond what a float can tell")
	refuse(t, l, 1<<53, 1<<53+1)
	accept(t, l, fence.MaxToken, "the last")
	accept(t, l, fence.MaxToken, "the last again")
	refuse(t, l, fence.MaxToken-1, fence.MaxToken)
	wantLines(t, l, "beyond what a float can tell", "the last", "the last again")
}

func testAnyOrder(t *testing.T, l Log, r *rand.Rand) {
	var newest uint64
	var want []string
	for i := range 30 {
		token := 1 + r.Uint64N(12)
		if token < newest {
			refuse(t, l, token, newest)
			continue
		}
		newest = token
		line := fmt.Sprintf("%d by %d", i, token)
		accept(t, l, token, line)
		want = append(want, line)
	}
	wantLines(t, l, want...)
}

// testConcurrent runs successive holders, each starting before its predecessor has stopped, with
// two goroutines each.
func testConcurrent(t *testing.T, l Log) {
	const holders, writers, writes = 6, 2, 5
	var mu sync.Mutex
	accepted := map[string]bool{}
	begun := make([]chan struct{}, holders+1)
	for i := range begun {
		begun[i] = make(chan struct{})
	}
	close(begun[0])
	var work sync.WaitGroup
	for h := range holders {
		begin := sync.OnceFunc(func() { close(begun[h+1]) })
		for w := range writers {
			work.Go(func() {
				defer begin()
				<-begun[h]
				token := uint64(h + 1)
				for i := range writes {
					line := fmt.Sprintf("%d %d %d", token, w, i)
					err := l.Append(t.Context(), token, line)
					var stale *fence.StaleError
					switch {
					case err == nil:
						mu.Lock()
						accepted[line] = true
						mu.Unlock()
					case !errors.As(err, &stale):
						t.Errorf("%s: %v", line, err)
					case stale.Token != token || stale.Newest <= token || stale.Newest > holders:
						t.Errorf("%s: refused by %v", line, err)
					}
					begin()
				}
			})
		}
	}
	work.Wait()
	lines := linesOf(t, l)
	var last uint64
	for _, line := range lines {
		number, _, _ := strings.Cut(line, " ")
		token, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if token < last {
			t.Errorf("a write by %d took effect after one by %d: %q", token, last, lines)
		}
		last = token
		if !accepted[line] {
			t.Errorf("%q took effect though it was refused, or twice", line)
		}
		delete(accepted, line)
	}
	for line := range accepted {
		t.Errorf("%q was accepted and isn't there", line)
	}
	if last != holders {
		t.Errorf("the last write is by %d, not by %d", last, holders)
	}
}

func accept(t *testing.T, l Log, token uint64, line string) {
	t.Helper()
	if err := l.Append(t.Context(), token, line); err != nil {
		t.Fatalf("token %d: %v", token, err)
	}
}

func refuse(t *testing.T, l Log, token, newest uint64) {
	t.Helper()
	err := l.Append(t.Context(), token, "refused")
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) {
		t.Fatalf("token %d after %d: %v, not a StaleError", token, newest, err)
	}
	if stale.Token != token || stale.Newest != newest {
		t.Errorf("token %d after %d: the error has %d and %d", token, newest, stale.Token, stale.Newest)
	}
}

func wantLines(t *testing.T, l Log, want ...string) {
	t.Helper()
	if lines := linesOf(t, l); !slices.Equal(lines, want) {
		t.Errorf("the resource has %q, not %q", lines, want)
	}
}

func linesOf(t *testing.T, l Log) []string {
	t.Helper()
	lines, err := l.Lines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
