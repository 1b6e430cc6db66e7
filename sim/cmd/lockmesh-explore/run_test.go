package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/explore"
	"github.com/lockmesh/lockmesh/sim/explore/elect"
)

// one sets every limit, for a single scope.
const one = "-want locks -voters 3 -keys 1 -apart=false -every=false -locks 1 -ticks 1 -breaks 0 -crashes 0 -late 0 "

func TestBadFlagsAreRefused(t *testing.T) {
	for _, row := range []struct{ flags, want string }{
		{"-want everything", "-want everything: it must be one of downgrade, locks, permit, permits, readers, upgrade, upgrades"},
		{"-voters 2", "-voters 2: it must be in 3..5"},
		{"-voters 6", "3..5"},
		{"-keys 3", "1..2"},
		{"-keys 0", "1..2"},
		{"-ticks -1", "0..50"},
		{"-breaks 51", "0..50"},
		{"-crashes x", "-crashes"},
		{"-late 99999999999999999999", "-late"},
		{"-locks 0", "1..50"},
		{"-for 0s", "above 0"},
		{"-for 10", "-for"},
		{"-states 0", "at least 1"},
		{"-electorate -ticks 1", "-ticks means nothing with -electorate"},
		{"-propose a:ab", "-propose needs -electorate"},
		{"-electorate -crashes 1", "-crashes needs -propose"},
		{"-electorate -propose z:ab", "z:ab"},
		{"-electorate -propose a:ab -idles 3", "idles"},
		{"-birth -ticks 1", "-ticks means nothing with -birth"},
		{"-birth -electorate", "-electorate means nothing with -birth"},
		{"-what", "-h lists"},
		{"5", "isn't a flag"},
	} {
		err := run(t.Context(), strings.Fields(row.flags), io.Discard, io.Discard)
		if err == nil || errors.Is(err, errViolated) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want something with %q", row.flags, err, row.want)
		}
	}
}

func TestHelpHelps(t *testing.T) {
	var b bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, io.Discard, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Examples", "-want", "readers", "-voters", "-keys", "-ticks", "-crashes", "-breaks", "-late", "-locks", "-apart", "-every", "-electorate", "-birth", "-propose", "-idles", "-for", "-states", "Exit status", "50s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the help doesn't mention %s", want)
		}
	}
}

func TestOneChangeOfTheElectorate(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-electorate -propose a:ab -breaks 1 -states 2000"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a:ab: 200", "the limit of 2000 states", "the joint electorate is decided in", "no violation in 200"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report doesn't have %q:\n%s", want, &out)
		}
	}
}

func TestAChangeBeginsWithLocks(t *testing.T) {
	sampled.Computes(t)
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-electorate -states 500"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one lock while a become abc, 0 crashes: 5", "three become four: 5", "a ballot is given up: 5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report doesn't have %q:\n%s", want, &out)
		}
	}
}

// breaks is a machine that panics when a state is stored.
type breaks struct{ elect.Genuine }

func (breaks) Saved(vote.Now, uint64, string) { panic("broken") }

func TestAFaultInAChangeIsReported(t *testing.T) {
	s, err := parse(strings.Fields("-electorate -propose a:ab"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.changes.build = func(cfg electorate.Config, state vote.DiskState, now vote.Now) elect.Machine {
		return breaks{elect.Genuine{Machine: electorate.New(cfg, state, now)}}
	}
	var out bytes.Buffer
	if err := s.run(t.Context(), &out, io.Discard); !errors.Is(err, errViolated) || !strings.Contains(out.String(), "VIOLATION: a: it panics: broken") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

func TestOneScope(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields(one), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want one of the scope and one of the sum:\n%s", n, out.String())
	}
	for _, want := range []string{
		"3 voters, 1 keys: locks 1, ticks 1, breaks 0, crashes 0, late 0: ", " states, ", " transitions, depth ", " s, exhausted",
		"no violation in ", "of 1 scopes, 1 of them exhausted", "nothing is left to explore",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestTheLimitOfStatesIsTold(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields(one+"-late 1 -states 20"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not exhausted: the limit of 20 states is reached; -states sets it") || !strings.Contains(out.String(), "0 of them exhausted") {
		t.Errorf("the report doesn't tell:\n%s", out.String())
	}
}

func TestTheTimeIsKept(t *testing.T) {
	sampled.Waits(t)
	var out bytes.Buffer
	began := time.Now()
	if err := run(t.Context(), []string{"-for", "300ms"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if !strings.Contains(out.String(), "; the time is over") {
		t.Errorf("the report doesn't tell:\n%s", out.String())
	}
}

func TestAnInterruptEndsItWithTheReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "; interrupted") {
		t.Errorf("the report doesn't tell:\n%s", out.String())
	}
}

func TestAViolationIsReported(t *testing.T) {
	sampled.Computes(t)
	s, err := parse(strings.Fields(one+"-ticks 0 -breaks 2 -crashes 1"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.build = func(cfg node.Config, now vote.Now) (explore.Machine, error) { // without a quiet time
		now.Slow = now.Slow.Add(-cfg.MaxTTL)
		return node.New(cfg, now)
	}
	var out bytes.Buffer
	if err := s.run(t.Context(), &out, io.Discard); !errors.Is(err, errViolated) {
		t.Fatalf("it ends with %v\n%s", err, out.String())
	}
	for _, want := range []string{"VIOLATED", "VIOLATION of validity: a believes that it holds k, and 1 of 3 voters stand by that\n  1  ", "crash ", "start "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestProgressIsTold(t *testing.T) {
	var told bytes.Buffer
	s, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := &session{settings: s, stderr: &told, began: time.Now().Add(-time.Minute)}
	if r.look(t.Context(), "locks", time.Now().Add(-2*time.Second), 1000, 7, 11) {
		t.Error("it ends")
	}
	if r.look(t.Context(), "locks", time.Now(), 0, 0, 0) {
		t.Error("it ends at the next look")
	}
	for _, want := range []string{"1m0s: ", ": 1000 states, depth 7, queue 11, ", " states/s, ", " MB\n"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("progress lacks %q: %s", want, told.String())
		}
	}
	if n := strings.Count(told.String(), "\n"); n != 1 {
		t.Errorf("%d lines at once", n)
	}
}

// TestScopesGrow demands that the scopes begin small, grow in all limits, and keep the limits set
// by flags.
func TestScopesGrow(t *testing.T) {
	s, err := parse([]string{"-voters", "5", "-crashes", "2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var widest scope
	seen, met := map[scope]bool{}, map[string]bool{}
	for c := range s.scopes() {
		switch {
		case c.voters != 5 || c.crashes != 2:
			t.Fatalf("%v: the flags don't hold", c)
		case seen[c]:
			t.Fatalf("%v comes twice", c)
		}
		seen[c], met[c.want] = true, true
		widest.locks, widest.ticks = max(widest.locks, c.locks), max(widest.ticks, c.ticks)
		widest.breaks, widest.late, widest.keys = max(widest.breaks, c.breaks), max(widest.late, c.late), max(widest.keys, c.keys)
		if len(seen) == 1000 {
			break
		}
	}
	if widest.locks < 2 || widest.ticks < 6 || widest.breaks < 3 || widest.late < 3 || widest.keys != 2 || len(met) != len(wants) {
		t.Errorf("after %d scopes they are no wider than %v", len(seen), widest)
	}
}

func TestBirthsAreExplored(t *testing.T) {
	sampled.Computes(t)
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-birth -states 3000"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 of 4 processes, 3 at a time", "a mesh is born in", "the limit of 3000 states", "no violation in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it doesn't say %q:\n%s", want, out.String())
		}
	}
}
