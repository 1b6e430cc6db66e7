package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// witness starts the witness with further arguments.
func witness(t *testing.T, args ...string) *exampletest.Program {
	return exampletest.Start(t, append([]string{"-name", "w", "-bind", "127.0.0.1:0", "-voters", "a,b,w", "-max-ttl", "2s"}, args...)...)
}

// server starts a server beside the witness.
func server(t *testing.T, name string, cfg lockmesh.Config) *lockmesh.Mesh {
	cfg.Name, cfg.Bind, cfg.Voters, cfg.MaxTTL = name, "127.0.0.1:0", []string{"a", "b", "w"}, 2*time.Second
	cfg.Secret = fmt.Appendf(nil, "the secret of %s in process %d", t.Name(), os.Getpid())
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := lockmesh.Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Two servers and a witness: with one server down, the other goes on by the witness's vote.
func TestAWitnessStandsInForAServer(t *testing.T) {
	t.Parallel()
	w := witness(t)
	addr := w.Await(`w listens on (\S+)\n`)[1]
	join := func(name string) *lockmesh.Mesh { return server(t, name, lockmesh.Config{Peers: []string{addr}}) }
	a, b := join("a"), join("b")
	ctx, cancel := context.WithTimeout(t.Context(), exampletest.Patience)
	defer cancel()
	if err := a.Settled(ctx); err != nil {
		t.Fatal(err)
	}
	w.Await(`electorate of a, b, w: 3 of 3 count, 2 needed, ready\n`)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	w.Await(`electorate of a, b, w: 2 of 3 count, 2 needed, ready\n`)
	lease, err := a.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Unlock(ctx); err != nil {
		t.Error(err)
	}
	w.Stop()
	if code := w.Code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// With state directories the witness helps to found the mesh, and is back after a restart.
func TestAWitnessWithADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := witness(t, "-state-dir", dir, "-bootstrap")
	addr := w.Await(`w listens on (\S+)\n`)[1]
	a := server(t, "a", lockmesh.Config{Peers: []string{addr}, StateDir: t.TempDir(), Bootstrap: true})
	server(t, "b", lockmesh.Config{Peers: []string{addr}, StateDir: t.TempDir(), Bootstrap: true})
	ctx, cancel := context.WithTimeout(t.Context(), exampletest.Patience)
	defer cancel()
	settled := func() {
		t.Helper()
		if err := a.Settled(ctx); err != nil {
			t.Fatal(err)
		}
	}
	settled()
	w.Stop()
	if code := w.Code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	w = witness(t, "-state-dir", dir, "-peers", a.Addr())
	w.Await(`3 of 3 count, 2 needed, ready\n`)
	settled()
}

// A mesh of fixed voters is converted with its witness: beside a server past the first restart, and
// another before.
func TestAWitnessIsConverted(t *testing.T) {
	t.Parallel()
	w := witness(t, "-state-dir", t.TempDir(), "-from-fixed")
	addr := w.Await(`w listens on (\S+)\n`)[1]
	a := server(t, "a", lockmesh.Config{Peers: []string{addr}, StateDir: t.TempDir(), FromFixed: true})
	b := server(t, "b", lockmesh.Config{Peers: []string{addr}})
	ctx, cancel := context.WithTimeout(t.Context(), exampletest.Patience)
	defer cancel()
	for _, m := range []*lockmesh.Mesh{a, b} {
		if err := m.Settled(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.Await(`3 of 3 count, 2 needed, ready\n`)
	if e := a.Status().Electorate; !e.FromFixed || !e.Dynamic || e.Version != 1 {
		t.Errorf("the electorate of a is %+v", e)
	}
}

// During a change of the secret the witness takes part as the servers do.
func TestSeveralSecrets(t *testing.T) {
	const first, second = "kQ7vXw2-first-hB9zLm4TgY8s", "kQ7vXw2-second-hB9zLm4TgY8s"
	for _, env := range []string{first + "\n" + second, " " + first + "\r\n\n" + second + "\n"} {
		cfg, err := parse([]string{"-voters", "a,b,w"}, func(string) string { return env }, t.Output())
		if err != nil || len(cfg.Secret) != 0 || len(cfg.Secrets) != 2 || string(cfg.Secrets[0]) != first || string(cfg.Secrets[1]) != second {
			t.Errorf("%q: %d secrets, %v", env, len(cfg.Secrets), err)
		}
	}
}

func TestACommandLineThatCannotBeUsed(t *testing.T) {
	for want, args := range map[string][]string{
		"list the nodes that vote": nil,
		`"x" is no flag`:           {"-voters", "a,b,w", "x"},
		"Try -h":                   {"-voters", "a,b,w", "-peers", "nowhere"},
		"not defined: -secret":     {"-secret", "x"},
	} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, func(string) string { return "" }, &out, &log); code != 2 || !strings.Contains(log.String(), want) {
			t.Errorf("%v: exit code %d:\n%s", args, code, &log)
		}
	}
	var out, log bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, func(string) string { return "" }, &out, &log); code != 0 || !strings.Contains(log.String(), "Example") {
		t.Errorf("-h: exit code %d:\n%s", code, &log)
	}
}
