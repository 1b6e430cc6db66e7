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
	"github.com/lockmesh/lockmesh/meshtest"
)

// TestTheGraceBeginsWithTheSignal : the time that the listeners take to end is a part of --grace,
// since systemd counts from the signal, too.
func TestTheGraceBeginsWithTheSignal(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		const grace = 5 * time.Second
		log, l := slog.New(slog.DiscardHandler), newPipes()
		h := admin.New(m.Node("a"), admin.Token(openToken), admin.AllowLocks(lockmesh.DefaultMaxTTL), admin.Logger(log))
		a := &agent{mesh: m.Node("a"), log: log, grace: grace, socket: noSocket}
		ctx, signal := context.WithCancel(t.Context())
		defer signal()
		served := make(chan error)
		go func() {
			served <- a.serve(ctx, &doors{http: []net.Listener{l}}, h, nil, newScrapes(promlock.New(), 1, log))
		}()
		// A client that holds a key over its connection, and doesn't end its work when told, and one
		// that can't be told.
		for _, line := range []string{"PUT /v1/hold/held", "PUT /v1/locks/timed?ttl=10s"} {
			here, err := l.dial(ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer here.Close()
			if _, err := io.WriteString(here, line+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+openToken+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 64)
			if _, err := here.Read(first); err != nil || !strings.Contains(string(first), http.StatusText(http.StatusOK)) {
				t.Fatalf("%s is answered %q, %v", line, first, err)
			}
			go func() { _, _ = io.Copy(io.Discard, here) }()
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
