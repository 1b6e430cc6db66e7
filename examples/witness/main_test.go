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

// Two servers and a witness: with one server down, the other goes on by the witness's vote.
func TestAWitnessStandsInForAServer(t *testing.T) {
	voters := []string{"a", "b", "w"}
	w := exampletest.Start(t, "-name", "w", "-bind", "127.0.0.1:0", "-voters", strings.Join(voters, ","), "-max-ttl", "2s")
	addr := w.Await(`w listens on (\S+)\n`)[1]
	join := func(name string) *lockmesh.Mesh {
		m, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Name: name, Bind: "127.0.0.1:0", Peers: []string{addr}, Voters: voters, MaxTTL: 2 * time.Second,
			Secret: fmt.Appendf(nil, "the secret of %s in process %d", t.Name(), os.Getpid()),
			Logger: slog.New(slog.DiscardHandler),
		})
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
