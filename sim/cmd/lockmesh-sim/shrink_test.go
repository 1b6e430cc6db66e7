package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
)

func TestAFailureIsShrunk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "one")
	s, err := parse([]string{"-seed", "3", "-seconds", "12.5", "-shrink", dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.alter = early
	var out bytes.Buffer
	if err := s.run(&out, io.Discard); !errors.Is(err, errViolated) {
		t.Fatalf("it ends with %v\n%s", err, out.String())
	}
	for _, want := range []string{
		"VIOLATION in seed 3: quiet violated", "to see it again: go run", "shrunk in ", "before", "after", "requests", "it fails with: quiet violated",
		filepath.Join(dir, "shrunk.svg"), "cp " + filepath.Join(dir, "shrunk_test.go") + " sim/ && go test ./sim -run '^TestShrunkSeed3$'",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if !bytes.Contains(wellFormed(t, filepath.Join(dir, "shrunk.svg")), []byte("VIOLATION")) {
		t.Error("the picture doesn't show it")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "shrunk_test.go")); err != nil || !bytes.Contains(b, []byte("func TestShrunkSeed3(t *testing.T)")) {
		t.Errorf("the test: %v\n%s", err, b)
	}
}

func TestAGoodWorldIsNotShrunk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if err := run([]string{"-seconds", "1", "-shrink", dir}, &out, io.Discard); err != nil || !strings.Contains(out.String(), "there is nothing to shrink") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is written: %v", err)
	}
}

func TestAFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse([]string{"-seconds", "2", "-shrink", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.alter = early
	if err := s.run(io.Discard, io.Discard); err == nil || errors.Is(err, errViolated) || !strings.Contains(err.Error(), file) {
		t.Errorf("it ends with %v", err)
	}
}

// forgetful makes voters that start late count without a quiet time.
func forgetful(o *sim.Options) {
	o.Build = func(w *sim.World, cfg node.Config, now vote.Now) (sim.Machine, error) {
		if w.Now() > 3*time.Second {
			now.Slow = now.Slow.Add(-cfg.MaxTTL)
		}
		return node.New(cfg, now)
	}
}

// TestThePrintedCommandReplays runs worlds as TestSwarm does, and then the command that TestSwarm
// prints for failing worlds. The command runs the world in pieces, and the test in one go.
func TestThePrintedCommandReplays(t *testing.T) {
	sampled.Computes(t)
	failed := 0
	for seed := uint64(1); seed <= 100 && (seed <= 4 || failed < 2); seed++ {
		const length = 7500 * time.Millisecond
		o, flags := sim.Draw(seed), []string(nil)
		if seed%2 == 0 {
			o, flags = sim.DrawBeyond(seed), []string{"-beyond"}
		}
		o.History = true
		forgetful(&o)
		w := sim.New(o)
		w.Run(length)
		want := w.Settle()
		words, ok := strings.CutPrefix(sim.ShrinkCommand(seed, length, flags...), "go run ./sim/cmd/lockmesh-sim ")
		if !ok {
			t.Fatalf("the command is %q", sim.ShrinkCommand(seed, length, flags...))
		}
		s, err := parse(strings.Fields(words), io.Discard)
		if err != nil || s.shrink == "" {
			t.Fatalf("the command %q: %v", words, err)
		}
		s.alter, s.shrink = forgetful, "" // shrinking begins with the very same run
		var out bytes.Buffer
		if err := s.run(&out, io.Discard); want == nil && err != nil || want != nil && !errors.Is(err, errViolated) {
			t.Fatalf("seed %d says %v, and the command ends with %v", seed, want, err)
		}
		if want != nil {
			failed++
			if !strings.Contains(out.String(), want.Error()) {
				t.Errorf("seed %d says %v, and the command\n%s", seed, want, out.String())
			}
		}
		if figures := w.Figures().Table(0); !strings.Contains(out.String(), figures) {
			t.Errorf("seed %d %v has the figures\n%s\nand the command\n%s", seed, flags, figures, out.String())
		}
	}
	if failed < 2 {
		t.Errorf("only %d seeds fail", failed)
	}
}

func TestNamesAreQuotedForAShell(t *testing.T) {
	for name, want := range map[string]string{"a/b-c.d": "a/b-c.d", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		if got := quote(name); got != want {
			t.Errorf("%s is quoted as %s, want %s", name, got, want)
		}
	}
}
