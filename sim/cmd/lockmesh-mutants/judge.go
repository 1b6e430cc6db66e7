package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// patience is the multiple of its usual time that a suite may take with a mutant before the
	// mutant counts as noticed: an endless loop is noticed by any person waiting.
	patience = 8
	// patienceLeast keeps a busy machine from looking like an endless loop.
	patienceLeast = 20 * time.Second
)

// A verdict is the result for a mutant.
type verdict struct {
	killer string // the suite that noticed the mutant; empty: the mutant survives
	ran    bool   // a suite ran the broken line
}

// trial runs a suite with no mutant active, and returns the duration and the lines run.
func (s *suite) trial(ctx context.Context, p *plant) (time.Duration, map[int]bool, error) {
	notes := filepath.Join(p.dir, "reached")
	defer func() { _ = os.Remove(notes) }()
	began := time.Now()
	out, err := s.command(ctx, p, "LOCKMESH_MUTANT_REACHED="+notes).CombinedOutput()
	if err != nil {
		return 0, nil, fmt.Errorf("%s of %s fails without any mutant: %w\n%s", s.name, s.pkg, err, tail(out))
	}
	took := time.Since(began)
	text, err := os.ReadFile(notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, nil, err
	}
	reached := make(map[int]bool)
	for line := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(line); err == nil {
			reached[n] = true
		}
	}
	return took, reached, nil
}

func (s *suite) command(ctx context.Context, p *plant, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin, s.args...)
	cmd.Dir = filepath.Join(p.root, filepath.FromSlash(s.pkg))
	cmd.Env = slices.Concat(os.Environ(), s.env, env)
	cmd.WaitDelay = time.Second
	return cmd
}

func tail(out []byte) string {
	const most = 2000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return string(out)
}

// judge runs the suites on all mutants, several at a time. With an error it returns the results so
// far.
func (p *plant) judge(ctx context.Context, workers int, log io.Writer) ([]verdict, error) {
	all := suites()
	if err := p.binaries(ctx, all); err != nil {
		return nil, err
	}
	verdicts := make([]verdict, len(p.sites))
	for _, s := range all {
		took, reached, err := s.trial(ctx, p)
		if err != nil {
			return verdicts, err
		}
		var turn []int
		for n, m := range p.sites {
			mine := len(s.guards) == 0 || slices.Contains(s.guards, m.pkg)
			if mine && !p.dead[n] && verdicts[n].killer == "" && reached[n] {
				verdicts[n].ran = true
				turn = append(turn, n)
			}
		}
		began, killed := time.Now(), 0
		limit := max(patience*took, patienceLeast)
		var mu sync.Mutex
		var wg sync.WaitGroup
		work := make(chan int)
		for range workers {
			wg.Go(func() {
				for n := range work {
					if s.notices(ctx, p, n, limit) && ctx.Err() == nil {
						mu.Lock()
						verdicts[n].killer = s.name
						killed++
						mu.Unlock()
					}
				}
			})
		}
		for _, n := range turn {
			work <- n
		}
		close(work)
		wg.Wait()
		if err := context.Cause(ctx); err != nil {
			return verdicts, err
		}
		printf(log, "%-22s %-20s %4d mutants run, %4d noticed, in %v\n",
			s.name, s.pkg, len(turn), killed, time.Since(began).Round(time.Second))
	}
	return verdicts, nil
}

// notices reports whether a suite fails with a mutant active.
func (s *suite) notices(ctx context.Context, p *plant, n int, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := s.command(ctx, p, "LOCKMESH_MUTANT="+strconv.Itoa(n))
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	return cmd.Run() != nil
}
