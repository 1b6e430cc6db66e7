package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim/shrink"
)

// shrinkFor is how long shrinking may take. After this time the best result so far is used.
const shrinkFor = time.Minute

// The files left by shrinking in its folder.
const (
	shrunkTest    = "shrunk_test.go"
	shrunkPicture = "shrunk.svg"
)

// reduce shrinks a failure, and writes a test and a picture.
func (s *settings) reduce(stdout, stderr io.Writer, f *failure) error {
	if err := os.MkdirAll(s.shrink, 0o755); err != nil { // before the work
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), shrinkFor)
	defer cancel()
	start := time.Now()
	told := start
	small, err := shrink.Run(ctx, s.options(f.seed), duration(s.seconds), shrink.Settings{Progress: func(runs int, size shrink.Size) {
		if time.Since(told) < progressEvery {
			return
		}
		told = time.Now()
		_, _ = fmt.Fprintf(stderr, "%v: after %d runs %d faults, %d nodes and %d requests are left\n", told.Sub(start).Round(time.Second),
			runs, size.Acts, size.Nodes, size.Requests)
	}})
	if err != nil {
		return fmt.Errorf("seed %d can't be shrunk: %w", f.seed, err)
	}
	test, picture := filepath.Join(s.shrink, shrunkTest), filepath.Join(s.shrink, shrunkPicture)
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{test, small.WriteTest}, {picture, small.WritePicture}} {
		flush, err := create(file.name, file.write)
		if err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, summary(small, time.Since(start), test, picture))
	return err
}

// summary describes the result of shrinking a failure.
func summary(s *shrink.Result, took time.Duration, test, picture string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-22s %14s %14s\n", fmt.Sprintf("shrunk in %d runs", s.Runs), "before", "after")
	for _, row := range []struct {
		name          string
		before, after int
	}{
		{"faults", s.Before.Acts, s.After.Acts},
		{"nodes", s.Before.Nodes, s.After.Nodes},
		{"requests", s.Before.Requests, s.After.Requests},
	} {
		fmt.Fprintf(&b, "%-22s %14d %14d\n", row.name, row.before, row.after)
	}
	fmt.Fprintf(&b, "%-22s %14.2f %14.2f\n", "simulated seconds", s.Before.Lasted.Seconds(), s.After.Lasted.Seconds())
	if s.Early {
		fmt.Fprintf(&b, "it was ended after %.0f s; there may be a smaller run\n", took.Seconds())
	}
	fmt.Fprintf(&b, "it fails with: %v\n", s.Violation)
	fmt.Fprintf(&b, "its picture: %s\n", picture)
	fmt.Fprintf(&b, "its test: %s; to run it: cp %s sim/ && go test ./sim -run '^%s$'\n", test, quote(test), s.Test())
	return b.String()
}

// quote makes a name one word for a shell.
func quote(name string) string {
	if strings.ContainsAny(name, " \t\n'\"$`\\*?[]()<>|&;!#~{}") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
