package registertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/register"
)

// inChild names the fault of the register in a child process of the test.
const inChild = "REGISTERTEST_FAULT"

// broken is a register with a fault; without a fault the register is right.
type broken struct {
	fault string

	mu      sync.Mutex
	record  []byte
	version int
	late    chan struct{} // closed once two stores have compared
	waits   int
}

func (b *broken) Load(ctx context.Context) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil && b.fault != "contexts are ignored" {
		return nil, "", err
	}
	switch {
	case b.fault == "it can't be read":
		return nil, "", errors.New("can't be read")
	case b.fault == "there is a record at first" && b.version == 0:
		return []byte("x"), "0", nil
	case b.fault == "lines are trimmed":
		return []byte(strings.TrimSpace(strings.ReplaceAll(string(b.record), "\r\n", "\n"))), fmt.Sprint(b.version), nil
	case b.fault == "versions are few":
		return b.record, fmt.Sprint(b.version % 2), nil
	}
	return b.record, fmt.Sprint(b.version), nil
}

func (b *broken) Store(ctx context.Context, record []byte, version string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		switch b.fault {
		case "contexts are ignored":
		case "an ended context is a change":
			return register.ErrChanged
		default:
			return err
		}
	}
	now := fmt.Sprint(b.version)
	if b.fault == "versions are few" {
		now = fmt.Sprint(b.version % 2)
	}
	changed := version != now
	switch {
	case b.fault == "nothing is compared", b.fault == "a first record isn't compared" && version == "0":
		changed = false
	case b.fault == "long records are cut" && len(record) > 100:
		record = record[:100]
	case b.fault == "comparison and store are two steps" && !changed && b.version > 0:
		if b.waits++; b.waits == 2 {
			close(b.late)
		}
		if b.waits <= 2 {
			b.mu.Unlock()
			<-b.late
			b.mu.Lock()
		}
	}
	if changed {
		if b.fault == "a change is another error" {
			return errors.New("changed")
		}
		return register.ErrChanged
	}
	b.version++
	b.record = record
	return nil
}

func TestRegisterInChild(t *testing.T) {
	fault := os.Getenv(inChild)
	if fault == "" {
		t.Skip("TestFaultsAreFound runs it")
	}
	Run(t, func(t *testing.T) func() register.Register {
		b := &broken{fault: fault, late: make(chan struct{})}
		if !strings.Contains(t.Name(), "many_at_once") {
			b.waits = 2
		}
		return func() register.Register { return b }
	})
}

func TestFaultsAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, by := range map[string]string{
		"none":                               "",
		"it can't be read":                   "there_is_no_record_at_first",
		"there is a record at first":         "there_is_no_record_at_first",
		"lines are trimmed":                  "what_is_stored_is_loaded",
		"long records are cut":               "what_is_stored_is_loaded",
		"a first record isn't compared":      "of_two_that_add",
		"nothing is compared":                "a_record_that_has_changed",
		"a change is another error":          "a_record_that_has_changed",
		"versions are few":                   "a_record_that_has_changed",
		"comparison and store are two steps": "of_many_at_once",
		"contexts are ignored":               "a_call_ends",
		"an ended context is a change":       "a_call_ends",
	} {
		t.Run(fault, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestRegisterInChild$", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), inChild+"="+fault)
			out, err := cmd.CombinedOutput()
			switch {
			case by == "" && err != nil:
				t.Errorf("a register without a fault fails: %v\n%s", err, out)
			case by != "" && (err == nil || !strings.Contains(string(out), "--- FAIL: TestRegisterInChild/"+by)):
				t.Errorf("%s doesn't find it: %v\n%s", by, err, out)
			}
		})
	}
}
