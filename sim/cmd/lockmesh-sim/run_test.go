package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
)

func TestBadFlagsAreRefused(t *testing.T) {
	for _, row := range []struct{ flags, want string }{
		{"-nodes 0", "1..26"},
		{"-nodes -3", "1..26"},
		{"-nodes 27", "1..26"},
		{"-nodes five", "-nodes"},
		{"-seed -1", "-seed"},
		{"-seeds 0", "at least 1"},
		{"-seed 18446744073709551615 -seeds 2", "2^64"},
		{"-for 0s", "-for"},
		{"-for -1s", "-for"},
		{"-for 1s -seeds 3", "leave one out"},
		{"-for 1s -trace t", "-trace is for one world"},
		{"-seconds 0", "above 0"},
		{"-seconds NaN", "above 0"},
		{"-seconds Inf", "above 0"},
		{"-seeds 2 -trace t", "-trace is for one world"},
		{"-from 3", "-svg"},
		{"-to 3", "-svg"},
		{"-svg x -from -1", "-from -1"},
		{"-svg x -from 3 -to 3", "after -from"},
		{"-svg x -to 0", "after -from"},
		{"-svg x -trace x", "two files"},
		{"-dynamic -beyond", "don't go together"},
		{"-by-count -over-bound", "leave all but one out"},
		{"-over-bound -register", "leave all but one out"},
		{"-misconfigured -by-count", "leave all but one out"},
		{"-register -beyond", "leave all but one out"},
		{"-by-count -dynamic", "leave all but one out"},
		{"-over-bound -nodes 4", "each seed draws"},
		{"-from-fixed -dynamic", "leave all but one out"},
		{"-from-fixed -by-count", "leave all but one out"},
		{"-from-fixed -nodes 4", "each seed draws"},
		{"-from-fixed -shrink x", "doesn't work with -from-fixed"},
		{"-by-count -shrink x", "doesn't work with -by-count"},
		{"-dynamic -shrink x", "-shrink doesn't work with -dynamic"},
		{"-what", "-h lists"},
		{"run.svg", "isn't a flag"},
	} {
		err := run(strings.Fields(row.flags), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want something with %q", row.flags, err, row.want)
		}
	}
}

func TestHelpHelps(t *testing.T) {
	var b bytes.Buffer
	if err := run([]string{"-h"}, io.Discard, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Examples", "-seed", "-seeds", "-nodes", "-seconds", "-svg", "-from", "-to", "-trace", "-shrink", "-beyond", "-dynamic", "-by-count", "-over-bound", "-register", "-misconfigured", "-from-fixed", "-coalescing", "-pieces", "Exit status"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the help doesn't mention %s", want)
		}
	}
}

func TestARunForAWhile(t *testing.T) {
	sampled.Waits(t)
	var out bytes.Buffer
	if err := run([]string{"-for", "200ms", "-seconds", "1", "-seed", "77"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`no violation in (\d+) worlds, from seed 77 on`).FindStringSubmatch(out.String())
	if m == nil || m[1] == "0" || m[1] == "1" {
		t.Errorf("it says\n%s", out.String())
	}
}

func TestAFileThatCannotBeWritten(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "no", "file")
	for _, name := range []string{"-svg", "-trace"} {
		if err := run([]string{"-seconds", "1", name, nowhere}, io.Discard, io.Discard); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := run([]string{"-seconds", "1", "-svg", nowhere, "-from", "500"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "lasted only") {
		t.Errorf("a window after the end: %v", err)
	}
}

func wellFormed(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARunWithAPictureAndATrace(t *testing.T) {
	dir := t.TempDir()
	var pictures [2][]byte
	for i := range pictures {
		svg, trace := filepath.Join(dir, "run.svg"), filepath.Join(dir, "trace")
		var out bytes.Buffer
		if err := run([]string{"-seed", "7", "-nodes", "5", "-seconds", "10", "-svg", svg, "-trace", trace}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"simulated hours", "events a second", "fault: one-way cut", "acquisitions", "no violation in 1 worlds"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the summary lacks %q", want)
			}
		}
		pictures[i] = wellFormed(t, svg)
		if b, err := os.ReadFile(trace); err != nil || bytes.Count(b, []byte("\n")) < 1000 {
			t.Errorf("a trace of %d bytes: %v", len(b), err)
		}
	}
	if !bytes.Equal(pictures[0], pictures[1]) {
		t.Error("two runs give two pictures")
	}
	if !bytes.Contains(pictures[0], []byte("seed 7, 5 voters")) {
		t.Error("the picture doesn't say what it shows")
	}
}

// early makes voters count without a quiet time, in worlds with a long quiet time.
func early(o *sim.Options) {
	o.MaxTTL, o.TTL = 5*time.Second, nil
	o.Build = func(_ *sim.World, cfg node.Config, now vote.Now) (sim.Machine, error) {
		now.Slow = now.Slow.Add(-cfg.MaxTTL)
		return node.New(cfg, now)
	}
}

func TestAViolationIsReported(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "run.svg")
	s, err := parse([]string{"-seed", "3", "-seeds", "4", "-nodes", "3", "-seconds", "12.5", "-svg", svg}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.alter = early
	var out bytes.Buffer
	if err := s.run(&out, io.Discard); !errors.Is(err, errViolated) {
		t.Fatalf("it ends with %v\n%s", err, out.String())
	}
	for _, want := range []string{"VIOLATION in seed 3: quiet violated", "go run ./sim/cmd/lockmesh-sim -seed 3 -nodes 3 -seconds 12.5 -svg " + svg,
		"go run ./sim/cmd/lockmesh-sim -seed 3 -nodes 3 -seconds 12.5 -shrink shrunk"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if !bytes.Contains(wellFormed(t, svg), []byte("VIOLATION")) {
		t.Error("the picture doesn't show it")
	}
}

// TestADynamicWorld runs a world with dynamic membership, and worlds of this kind until a world
// fails: the printed command repeats the failure.
func TestADynamicWorld(t *testing.T) {
	sampled.Computes(t)
	svg := filepath.Join(t.TempDir(), "run.svg")
	var out bytes.Buffer
	if err := run([]string{"-dynamic", "-seed", "4", "-seconds", "20", "-svg", svg}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`electorates +(\d+)`).FindStringSubmatch(out.String()); m == nil || len(m[1]) == 1 && m[1] < "3" {
		t.Errorf("the electorate hasn't changed:\n%s", out.String())
	}
	if !bytes.Contains(wellFormed(t, svg), []byte("seed 4")) {
		t.Error("the picture doesn't say what it shows")
	}
	s, err := parse([]string{"-dynamic", "-seeds", "9", "-seconds", "20"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.alter = func(o *sim.Options) {
		o.Build = func(_ *sim.World, cfg node.Config, now vote.Now) (sim.Machine, error) {
			cfg.Dynamic.Fresh = true // no voter is quiet
			return node.New(cfg, now)
		}
	}
	out.Reset()
	if err := s.run(&out, io.Discard); !errors.Is(err, errViolated) {
		t.Fatalf("it ends with %v\n%s", err, out.String())
	}
	m := regexp.MustCompile(`VIOLATION in seed (\d+): (.+)\nto see it again: go run ./sim/cmd/lockmesh-sim (.+ -dynamic .+) -svg run.svg\n`).FindStringSubmatch(out.String())
	if m == nil || strings.Contains(out.String(), "to shrink it") {
		t.Fatalf("it says\n%s", out.String())
	}
	again, err := parse(strings.Fields(m[3]), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again.alter = s.alter
	out.Reset()
	if err := again.run(&out, io.Discard); !errors.Is(err, errViolated) || !strings.Contains(out.String(), m[2]) {
		t.Errorf("%s: %v\n%s", m[3], err, out.String())
	}
}

func TestTheWindow(t *testing.T) {
	const none = time.Duration(-1)
	for _, row := range []struct {
		flags                              string
		lasted, violated, wantFrom, wantTo time.Duration
	}{
		{"", time.Hour, none, 0, shownFirst},
		{"", time.Second, none, 0, time.Second},
		{"", time.Hour, time.Hour, time.Hour - shownBefore, time.Hour},
		{"", time.Second, time.Second, 0, time.Second},
		{"-from 5", time.Hour, none, 5 * time.Second, 5*time.Second + shownFirst},
		{"-from 5 -to 6.5", time.Hour, time.Hour, 5 * time.Second, 6500 * time.Millisecond},
		{"-to 100", time.Hour, none, 70 * time.Second, 100 * time.Second},
		{"-to 3", time.Hour, none, 0, 3 * time.Second},
	} {
		s, err := parse(append([]string{"-svg", "x"}, strings.Fields(row.flags)...), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if from, to := s.window(row.lasted, row.violated); from != row.wantFrom || to != row.wantTo {
			t.Errorf("%q shows %v to %v, want %v to %v", row.flags, from, to, row.wantFrom, row.wantTo)
		}
	}
}
