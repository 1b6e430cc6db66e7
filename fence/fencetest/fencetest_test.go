package fencetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
)

// inChild names the fault of the resource in a child process of the test.
const inChild = "FENCETEST_FAULT"

// broken is a resource with a fault; without a fault the resource is right.
type broken struct {
	fault string
	test  string

	mu     sync.Mutex
	moved  *sync.Cond // newest has changed
	newest uint64
	writes map[uint64]int
	lines  []string
}

func (b *broken) Append(_ context.Context, token uint64, line string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault != "token 0 is accepted" || token != 0 {
		if err := fence.Validate(token); err != nil {
			return err
		}
	}
	stale := token < b.newest
	switch b.fault {
	case "nothing is refused":
		stale = false
	case "an equal token is refused":
		stale = token <= b.newest
	case "tokens are floats":
		stale = float64(token) < float64(b.newest)
	}
	if stale {
		switch b.fault {
		case "it writes before it refuses":
			b.lines = append(b.lines, line)
		case "the refusal has no tokens":
			return fence.ErrStale
		case "the refusal has other tokens":
			return &fence.StaleError{Token: b.newest, Newest: token}
		}
		return &fence.StaleError{Token: token, Newest: b.newest}
	}
	b.newest = max(b.newest, token)
	b.moved.Broadcast()
	b.writes[token]++
	if b.fault == "check and write are two steps" && strings.HasSuffix(b.test, "at_once,_too") && b.writes[token] == 2 {
		// stopped between check and write, until there is a newer holder
		for b.newest == token && token < 6 {
			b.moved.Wait()
		}
	}
	switch {
	case b.fault == "writes get lost" && b.writes[token] == 2:
	case b.fault == "writes are repeated" && b.writes[token] == 2:
		b.lines = append(b.lines, line, line)
	default:
		b.lines = append(b.lines, line)
	}
	return nil
}

func (b *broken) Lines(context.Context) ([]string, error) {
	if b.fault == "it can't be read" {
		return nil, errors.New("can't be read")
	}
	return b.lines, nil
}

func TestResourceInChild(t *testing.T) {
	fault := os.Getenv(inChild)
	if fault == "" {
		t.Skip("TestFaultsAreFound runs it")
	}
	Run(t, func(t *testing.T) Log {
		b := &broken{fault: fault, test: t.Name(), writes: map[uint64]int{}}
		b.moved = sync.NewCond(&b.mu)
		return b
	})
}

func TestFaultsAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, by := range map[string]string{
		"none":                          "",
		"nothing is refused":            "an_older_token_is_refused",
		"an equal token is refused":     "the_first_token_is_accepted",
		"token 0 is accepted":           "the_first_token_is_accepted",
		"tokens are floats":             "tokens_have_63_bits",
		"it writes before it refuses":   "an_older_token_is_refused",
		"the refusal has no tokens":     "an_older_token_is_refused",
		"the refusal has other tokens":  "an_older_token_is_refused",
		"check and write are two steps": "at_once",
		"writes get lost":               "at_once",
		"writes are repeated":           "at_once",
		"it can't be read":              "at_once",
	} {
		t.Run(fault, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestResourceInChild$", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), inChild+"="+fault)
			out, err := cmd.CombinedOutput()
			switch {
			case by == "" && err != nil:
				t.Errorf("a resource without a fault fails: %v\n%s", err, out)
			case by != "" && (err == nil || !strings.Contains(string(out), "--- FAIL: TestResourceInChild/"+by)):
				t.Errorf("%s doesn't find it: %v\n%s", by, err, out)
			}
		})
	}
}
