//go:build unix

package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

// put sends a request to a listener, and waits for the answer 200. The connection stays open.
func put(ctx context.Context, t *testing.T, l *pipes.Listener, line string) {
	t.Helper()
	here, err := l.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close() })
	if _, err := io.WriteString(here, line+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+openToken+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 64)
	if _, err := here.Read(first); err != nil || !strings.Contains(string(first), http.StatusText(http.StatusOK)) {
		t.Fatalf("%s is answered %q, %v", line, first, err)
	}
	go func() { _, _ = io.Copy(io.Discard, here) }()
}

// TestTheGraceBeginsWithTheSignal: the time that the listeners take to end is a part of --grace,
// since systemd counts from the signal, too.
func TestTheGraceBeginsWithTheSignal(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		const grace = 5 * time.Second
		log, l := slog.New(slog.DiscardHandler), pipes.New()
		h := admin.New(m.Node("a"), admin.WithToken(openToken), admin.AllowLocks(lockmesh.DefaultMaxTTL), admin.WithLogger(log))
		a := &agent{mesh: m.Node("a"), log: log, grace: grace, socket: noSocket}
		ctx, signal := context.WithCancel(t.Context())
		defer signal()
		served := make(chan error)
		go func() {
			served <- a.serve(ctx, &doors{http: []net.Listener{l}}, h, nil, newScrapes(promlock.New(), 1, log))
		}()
		// A client that holds a key over its connection, and doesn't end its work when told, and
		// one that can't be told.
		for _, line := range []string{"PUT /v1/hold/held", "PUT /v1/locks/timed?ttl=10s"} {
			put(ctx, t, l, line)
		}
		from := time.Now()
		signal()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if d := time.Since(from); d > grace+grace/10 {
			t.Errorf("the end took %v", d)
		}
	})
}

// TestAnAgentWithOthersWaitsForItsClients: an agent that other nodes refused at its start, and
// later accepted, releases no key of a client that can't be told of the agent's end.
func TestAnAgentWithOthersWaitsForItsClients(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		const ttl = 3 * time.Second
		log, l := slog.New(slog.DiscardHandler), pipes.New()
		h := admin.New(m.Node("a"), admin.WithToken(openToken), admin.AllowLocks(lockmesh.DefaultMaxTTL), admin.WithLogger(log))
		a := &agent{mesh: m.Node("a"), log: log, grace: time.Minute, socket: noSocket, follows: true}
		ctx, signal := context.WithCancel(t.Context())
		defer signal()
		served := make(chan error)
		go func() {
			served <- a.serve(ctx, &doors{http: []net.Listener{l}}, h, nil, newScrapes(promlock.New(), 1, log))
		}()
		put(ctx, t, l, "PUT /v1/locks/timed?ttl=3s")
		from := time.Now()
		a.granted.Store(false) // as if Ready had been refused
		signal()
		if _, err := m.Node("b").Lock(t.Context(), "timed"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(from); d < ttl-ttl/10 {
			t.Errorf("another client has the key after %v", d)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
