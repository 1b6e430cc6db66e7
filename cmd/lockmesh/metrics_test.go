//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// ask sends a request, and returns the status and the body of the answer.
func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestMetrics: an agent with --metrics answers Prometheus, and refuses all other requests.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	addr := freeport.Address(t)
	b.startAgent("--name", "a", "--voters", "a", "--max-ttl", "1s", "--metrics", addr)
	has := func(line string) bool {
		status, body := ask(t, http.MethodGet, "http://"+addr+"/metrics")
		return status == http.StatusOK && strings.Contains("\n"+body, "\n"+line)
	}
	for _, line := range []string{
		"lockmesh_ready 1\n", `lockmesh_voters{state="reachable"} 1` + "\n", "lockmesh_voters_needed 1\n", "lockmesh_voters_spare 0\n",
		"lockmesh_leases 0\n", "lockmesh_electorate_changes_total 0\n", "lockmesh_loop_busy_seconds_total 0.", "go_goroutines ",
	} {
		testwait.Until(t, line, func() bool { return has(line) })
	}

	const key = "a-key-that-is-no-label"
	run, in := b.startPiped("run", key, "--", "sh", "-c", "echo ready; read x")
	run.prints("ready")
	for _, line := range []string{"lockmesh_leases 1\n", `lockmesh_acquire_seconds_count{op="lock",outcome="granted"} 1` + "\n"} {
		testwait.Until(t, line, func() bool { return has(line) })
	}
	testwait.Until(t, "a renewal is measured", func() bool {
		return has("lockmesh_lease_margin_ratio_count") && !has("lockmesh_lease_margin_ratio_count 0\n")
	})
	if _, body := ask(t, http.MethodGet, "http://"+addr+"/metrics"); strings.Contains(body, key) {
		t.Error("the metrics name a key")
	}
	in.Close()
	run.waitInTime()
	testwait.Until(t, "no lease is left", func() bool { return has("lockmesh_leases 0\n") })

	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 404}, {"GET", "/metrics/", 404}, {"GET", "/v1/status", 404}, {"GET", "/debug/pprof/", 404}, {"PUT", "/v1/locks/k", 404},
		{"POST", "/metrics", 405}, {"DELETE", "/metrics", 405}, {"HEAD", "/metrics", 200},
	} {
		if status, _ := ask(t, c.method, "http://"+addr+c.path); status != c.status {
			t.Errorf("%s %s is answered %d, not %d", c.method, c.path, status, c.status)
		}
	}
	b.agent.signal(sigTerm)
	if code := b.agent.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d: %s", code, b.agent.err.String())
	}
}

// TestMetricsByTheEnvironment: the flag has a variable, and the log shows a port chosen by the
// system.
func TestMetricsByTheEnvironment(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	p := b.command("agent", "--expect", "1", "--bind", "127.0.0.1:0", "--socket", filepath.Join(b.dir, "other"))
	p.Env = append(p.Env, "LOCKMESH_METRICS=127.0.0.1:0,localhost:0")
	p.start()
	p.complains("locks can be granted")
	n := 0
	for line := range strings.Lines(p.err.String()) {
		if _, addr, is := strings.Cut(strings.TrimSpace(line), "the agent listens for Prometheus\" at="); is {
			n++
			if status, body := ask(t, http.MethodGet, "http://"+addr+"/metrics"); status != 200 || !strings.Contains(body, "lockmesh_ready") {
				t.Errorf("%s answers %d %s", addr, status, body)
			}
		}
	}
	if n != 2 {
		t.Errorf("the agent listens for Prometheus at %d addresses: %s", n, p.err.String())
	}
}

// TestScrapersAreBounded: a client without a place waits until another client has gone, and the
// end of the server cuts all connections.
func TestScrapersAreBounded(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- newScrapes(promlock.New(), 1, slog.New(slog.DiscardHandler)).serve(ctx, l) }()

	dial := func() *guest {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return &guest{c, bufio.NewReader(c)}
	}
	first, second := dial(), dial()
	defer first.Close()
	defer second.Close()
	if status, body, err := first.request("GET /metrics", ""); err != nil || status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Fatal(status, body, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := second.request("GET /metrics", "")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("the second client is served beside the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	if err := <-answered; err != nil {
		t.Errorf("the second client has no answer: %v", err)
	}
	second.Close()
	third := dial()
	defer third.Close()
	long := "X: " + strings.Repeat("x", 2*maxScrapeHeader) + "\r\n"
	if status, _, err := third.request("GET /metrics", long); err == nil && status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header is answered %d", status)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
