package lockmeshhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
	"github.com/lockmesh/lockmesh/register"
)

func TestMain(m *testing.M) {
	sampled.Together(4)
	goleak.VerifyTestMain(m)
}

// get asks the handler, and returns the answer as "200 text".
func get(t *testing.T, h http.Handler, method, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	if got := w.Header().Get("Cache-Control"); w.Code < 300 && got != "no-store" {
		t.Errorf("%s may be cached: %q", path, got)
	}
	return fmt.Sprintf("%d %s", w.Code, strings.TrimSuffix(w.Body.String(), "\n"))
}

// want fails unless the answer begins with a text.
func want(t *testing.T, h http.Handler, path, answer string) {
	t.Helper()
	if got := get(t, h, http.MethodGet, path); !strings.HasPrefix(got, answer) {
		t.Errorf("%s: %q, want %q", path, got, answer)
	}
}

func TestProbesOfANodeThatStartsAndEnds(t *testing.T) {
	sampled.Computes(t)
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		m.Crash("c")
		h := New(m.Restart("c"), WithReadyLimit(time.Hour))
		want(t, h, "/livez", "200 ")
		// the voter of c is quiet
		want(t, h, "/readyz?settled=1", "503 lockmesh: settled: too few voters")
		time.Sleep(15 * time.Second)
		want(t, h, "/readyz", "200 ")
		want(t, h, "/readyz?settled=1", "200 ")

		// latched: the loss of the majority is no reason to take every node out of service
		m.Crash("a")
		m.Crash("b")
		time.Sleep(time.Minute)
		for _, path := range []string{"/livez", "/readyz", "/readyz?settled=1"} {
			want(t, h, path, "200 ")
		}
		fresh := New(m.Node("c"), WithReadyLimit(time.Minute))
		want(t, fresh, "/readyz", "503 lockmesh: ready: too few voters answer or count: 1 of 3 voters counts: ")
		time.Sleep(time.Minute)
		want(t, fresh, "/readyz", "200 the node isn't ready after 1m")
		want(t, fresh, "/livez", "200 ")
		never := New(m.Node("c"), WithReadyLimit(0))
		time.Sleep(time.Hour)
		want(t, never, "/readyz", "503 ")

		if err := m.Node("c").Close(); err != nil {
			t.Error(err)
		}
		for _, path := range []string{"/livez", "/readyz", "/readyz?settled=1"} {
			want(t, h, path, "503 ")
		}
	})
}

func TestDrain(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		a := m.Node("a")
		h := New(a, AllowDrain())
		want(t, New(a), "/drain", "404 ")
		lease, err := a.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		want(t, h, "/drain?timeout=3s", `503 lockmesh: drain: the lock is held`)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		want(t, h, "/readyz", "503 the node is draining")
		want(t, h, "/livez", "200 ")
		answer := make(chan string, 1)
		go func() { answer <- get(t, h, http.MethodPost, "/drain") }()
		synctest.Wait()
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-answer; !strings.HasPrefix(got, "200 ") {
			t.Error(got)
		}
		for path, code := range map[string]string{
			"/drain?timeout=x": "400 ", "/drain?timeout=-1s": "400 ", "/drain?timeout=2h": "400 ", "/readyz?settled=yes": "400 ", "/readyz?settled": "400 ", "/readyz?Settled=1": "400 ", "/readyz?settled=1;": "400 ", "/readyz?settled=1%": "400 ",
			"/readyz?settled=0&settled=1": "400 ", "/readyz?verbose": "400 ", "/drain?timout=1s": "400 ", "/": "404 ",
		} {
			want(t, h, path, code)
		}
		if got := get(t, h, http.MethodPost, "/livez"); !strings.HasPrefix(got, "405 ") {
			t.Error(got)
		}
	})
}

// A client gives up, or a node hangs: the handler answers in time.
func TestAnswersComeInTime(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"))
		m.Pause("a")
		for _, path := range []string{"/livez", "/readyz"} {
			began := time.Now()
			want(t, h, path, "503 lockmesh: alive: the node's loop has not answered")
			if took := time.Since(began); took > answerTime {
				t.Errorf("%s took %v", path, took)
			}
		}
		// The limit doesn't apply to a node that doesn't answer.
		want(t, New(m.Node("a"), WithReadyLimit(time.Nanosecond)), "/readyz", "503 lockmesh: alive: the node's loop has not answered")
		m.Resume("a")
		want(t, h, "/readyz", "200 ")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		New(m.Node("b")).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	})
}

// TestARefusedNodeIsNeverLetThrough: a node with another list of voters never becomes ready,
// though its limit is over at once.
func TestARefusedNodeIsNeverLetThrough(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	names := []string{"a", "b", "c"}
	secret := lockmesh.NewSecret() // so no node of another test joins by a port that is used again
	var peers []string
	var nodes []*lockmesh.Mesh
	for _, name := range names {
		list := names
		if name == "c" {
			list = []string{name}
		}
		m, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Name: name, Bind: "127.0.0.1:0", Peers: peers, Voters: list, MaxTTL: time.Second, Secret: secret, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		nodes = append(nodes, m)
		peers = append(peers, m.Addr())
		if name == "b" { // a and b count before c starts, and c has only to wait
			if err := m.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := New(nodes[2], WithReadyLimit(time.Nanosecond))
	wantSoon(t, h, "/readyz", "503 lockmesh: ready: ")
	wantSoon(t, h, "/readyz?settled=1", "503 lockmesh: settled: ")
	want(t, h, "/livez", "200 ")
	wantSoon(t, New(nodes[0]), "/readyz", "200 ")
	h.ready.Store(true) // a node may be refused after having been ready
	want(t, h, "/readyz", "503 lockmesh: ready: ")
}

// wantSoon waits until the answer begins with a text.
func wantSoon(t *testing.T, h http.Handler, path, answer string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		switch got := get(t, h, http.MethodGet, path); {
		case strings.HasPrefix(got, answer):
			return
		case time.Now().After(end):
			t.Fatalf("%s: %q, want %q", path, got, answer)
		}
	}
}

// TestAProcessWithoutItsRegisterIsNotSettled: the gate of a rollout stays shut for a process that
// can't use its register while the mesh grants locks, though its limit is over at once. The process
// itself takes locks.
func TestAProcessWithoutItsRegisterIsNotSettled(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	secret := lockmesh.NewSecret()
	var peers []string
	join := func(r register.Register) *lockmesh.Mesh {
		t.Helper()
		m, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Bind: "127.0.0.1:0", Peers: peers, Expect: 3, MaxTTL: time.Second, Register: r, Secret: secret, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	right, wrong := new(register.Memory), new(register.Memory)
	wrong.Fail(errors.New("403 Forbidden"))
	for range 3 {
		peers = append(peers, join(right).Addr())
	}
	m := join(wrong)
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := New(m, WithReadyLimit(time.Nanosecond))
	wantSoon(t, h, "/readyz?settled=1", "503 lockmesh: settled: ")
	if got := get(t, h, http.MethodGet, "/readyz?settled=1"); !strings.Contains(got, "the register can't be used: 403 Forbidden") {
		t.Error(got)
	}
	want(t, h, "/readyz", "200 ")
}

// TestAProcessOfAnotherSecretOrMeshIsNeverLetThrough: the gate of a rollout stays shut for a
// process with Expect that all others refuse, although such a process waits to be born.
func TestAProcessOfAnotherSecretOrMeshIsNeverLetThrough(t *testing.T) {
	t.Parallel()
	sampled.Waits(t)
	var peers []string
	join := func(secret lockmesh.Secret, name string) *lockmesh.Mesh {
		t.Helper()
		m, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Mesh: name, Bind: "127.0.0.1:0", Peers: peers, Expect: 3, MaxTTL: time.Second, Secret: secret, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	secret := lockmesh.NewSecret()
	for range 3 {
		m := join(secret, "locks")
		peers = append(peers, m.Addr())
		if len(peers) == 3 {
			if err := m.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		secret lockmesh.Secret
		mesh   string
	}{{"secret", lockmesh.NewSecret(), "locks"}, {"mesh", secret, "another"}} {
		t.Run(test.name, func(t *testing.T) {
			stranger := join(test.secret, test.mesh)
			h := New(stranger, WithReadyLimit(time.Nanosecond))
			wantSoon(t, h, "/readyz", "503 lockmesh: ready: the voters refuse this node: ")
			wantSoon(t, h, "/readyz?settled=1", "503 lockmesh: settled: the voters refuse this node: ")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := stranger.Ready(ended); !errors.Is(err, lockmesh.ErrRefused) || !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			want(t, h, "/livez", "200 ")
		})
	}
}

// TestTheWaitBetweenTwoMachinesDoesntGiveWay compares the wait in the page and in the unit for bare
// machines with the answers: a settled node ends the wait, and a node let through by the limit
// doesn't.
func TestTheWaitBetweenTwoMachinesDoesntGiveWay(t *testing.T) {
	wait := regexp.MustCompile(`until curl -fs 'http://127\.0\.0\.1:8080(/\S+)' \| grep -q '([^']+)'\n#?\s*do sleep 1; done`)
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		settled, limited := New(m.Node("a")), New(m.Node("b"))
		get(t, settled, http.MethodGet, "/readyz?settled=1")
		m.Crash("c")
		time.Sleep(DefaultReadyLimit)
		for _, file := range []string{"../docs/deploy-machines.md", "../deploy/systemd/locks.service"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := wait.FindStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"))
			if found == nil {
				t.Errorf("%s has no wait by the text of the answer", file)
				continue
			}
			path, ends := found[1], regexp.MustCompile(found[2])
			for h, want := range map[*Probes]bool{settled: true, limited: false} {
				answer, is := strings.CutPrefix(get(t, h, http.MethodGet, path), "200 ")
				if !is || ends.MatchString(answer) != want {
					t.Errorf("%s: the wait ends by %q: %v, want %v", file, answer, !want, want)
				}
			}
		}
	})
}

// A nil option is none, as it is for a lock.
func TestANilMesh(t *testing.T) {
	New(new(lockmesh.Mesh), nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New((*lockmesh.Mesh)(nil))
}
