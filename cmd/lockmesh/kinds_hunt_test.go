//go:build hunt && unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
)

// kindsDir has the programs in other languages.
const kindsDir = "testdata/kinds"

// script returns the path of a program of kindsDir.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(kindsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// isThere reports whether a program is installed, and logs a missing program as untried.
func isThere(t *testing.T, program string) bool {
	t.Helper()
	_, err := exec.LookPath(program)
	if err != nil {
		t.Logf("!!!! NOT TRIED: %s isn't installed", program)
	}
	return err == nil
}

// site is a directory with the counter of all kinds of clients: see section.sh.
type site struct {
	t   *testing.T
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{"counter": "0\n", "order": "", "faults": ""} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// section is the work under the lock, as in section.sh.
func (s *site) section(who string, token uint64) error {
	marker, err := os.OpenFile(filepath.Join(s.dir, "inside"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	marker.Close()
	text, err := os.ReadFile(filepath.Join(s.dir, "counter"))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "counter"), fmt.Appendf(nil, "%d\n", n+1), 0o600); err != nil {
		return err
	}
	order, err := os.OpenFile(filepath.Join(s.dir, "order"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer order.Close()
	if _, err := fmt.Fprintf(order, "%d %s\n", token, who); err != nil {
		return err
	}
	return os.Remove(marker.Name())
}

// check fails unless each kind has been inside so many times, never two at a time, with rising
// tokens.
func (s *site) check(kinds []string, rounds int) {
	s.t.Helper()
	if faults := s.read("faults"); faults != "" {
		s.t.Errorf("two held the key at a time: %s", faults)
	}
	if n := strings.TrimSpace(s.read("counter")); n != strconv.Itoa(rounds*len(kinds)) {
		s.t.Errorf("the counter is %s after %d rounds of %v", n, rounds, kinds)
	}
	inside := make(map[string]int)
	turns, before := 0, ""
	last := uint64(0)
	for line := range strings.Lines(s.read("order")) {
		var token uint64
		var who string
		if _, err := fmt.Sscan(line, &token, &who); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		if token <= last {
			s.t.Errorf("%s has token %d after %d", who, token, last)
		}
		if who != before {
			turns++
		}
		last, before = token, who
		inside[who]++
	}
	for _, kind := range kinds {
		if inside[kind] != rounds {
			s.t.Errorf("%s was inside %d times, not %d", kind, inside[kind], rounds)
		}
	}
	s.t.Logf("inside: %v, in %d turns", inside, turns)
}

// TestKindsOfClientsContend: a client over HTTP in Python, another in Node, a shell with lockmesh
// run, a Redis client and a Go program that embeds a node contend for one key at two agents.
func TestKindsOfClientsContend(t *testing.T) {
	const rounds, key = 40, "contended"
	t.Parallel()
	voter := newOpenBench(t, 0, "--name", "a", "--voters", "a", "--max-ttl", brief)
	mesh := voter.address()
	other := newOpenBench(t, 0, "--name", "b", "--voters", "a", "--peers", mesh, "--max-ttl", brief)
	s := newSite(t)
	n := strconv.Itoa(rounds)
	all := map[string]*process{
		"shell": voter.program("bash", "-ec", `for ((i = 0; i < $3; i++)); do lockmesh run "$1" -- bash -c 'exec bash "$0" "$1" shell "$LOCKMESH_TOKEN"' "$2" "$4"; done`,
			"sh", key, script(t, "section.sh"), n, s.dir),
	}
	if isThere(t, "python3") {
		all["python"] = voter.program("python3", script(t, "client.py"), voter.http, key, n, s.dir)
	}
	if isThere(t, "node") {
		all["node"] = other.program("node", script(t, "client.mjs"), other.http, key, n, s.dir)
	}
	if isThere(t, "redis-cli") {
		host, port, _ := strings.Cut(other.resp, ":")
		all["redis"] = other.program("bash", script(t, "redis.sh"), host, port, key, n, s.dir)
	}
	kinds := []string{"go"}
	for name, p := range all {
		p.Env = append(p.Env, "LOCKMESH_ADMIN_TOKEN="+openToken, "REDISCLI_AUTH="+openPassword)
		kinds = append(kinds, name)
		p.start()
	}
	embedded(t, mesh, func(ctx context.Context, m *lockmesh.Mesh) error {
		for range rounds {
			lease, err := m.Lock(ctx, key)
			if err != nil {
				return err
			}
			if err := s.section("go", lease.Token()); err != nil {
				return err
			}
			if err := lease.Unlock(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	for name, p := range all {
		if code := p.waitInTime(); code != 0 {
			t.Errorf("%s ends with %d: %s%s", name, code, p.out.String(), p.err.String())
		}
	}
	slices.Sort(kinds)
	s.check(kinds, rounds)
}

// embedded calls f with a node of this process, in the mesh of a voter a.
func embedded(t *testing.T, peer string, f func(context.Context, *lockmesh.Mesh) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	maxTTL, err := time.ParseDuration(brief)
	if err != nil {
		t.Fatal(err)
	}
	m, err := lockmesh.Join(ctx, lockmesh.Config{
		Name: "embedded", Bind: "127.0.0.1:0", Peers: []string{peer}, Voters: []string{"a"}, MaxTTL: maxTTL,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := f(ctx, m); err != nil {
		t.Errorf("the Go program: %v", err)
	}
}

// TestKindsOfClientsWatch: curl, Python's standard library and Node's fetch read the events of a
// watch one by one.
func TestKindsOfClientsWatch(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, 0, "--name", "a", "--voters", "a", "--max-ttl", brief)
	all := map[string]*process{}
	if isThere(t, "python3") {
		all["python"] = b.program("python3", script(t, "watch.py"), b.http, "w/", "w/1")
	}
	if isThere(t, "node") {
		all["node"] = b.program("node", script(t, "watch.mjs"), b.http, "w/", "w/1")
	}
	if isThere(t, "curl") {
		all["curl over TCP"] = b.program("curl", "-sSN", "--oauth2-bearer", openToken, "http://"+b.http+"/v1/watch?prefix=w/")
		all["curl over the socket"] = b.program("curl", "-sSN", "--unix-socket", b.socket, "http://lockmesh/v1/watch?prefix=w/")
	}
	for _, p := range all {
		p.Env = append(p.Env, "LOCKMESH_ADMIN_TOKEN="+openToken)
		p.start()
	}
	for _, p := range all {
		p.prints("synced")
	}
	b.wants(0, "run", "w/1", "--", "true")
	for name, p := range all {
		for _, word := range []string{"granted", "released"} {
			p.prints(word)
		}
		if strings.HasPrefix(name, "curl") {
			p.signal(sigTerm)
			p.waitInTime()
			continue
		}
		if code := p.waitInTime(); code != 0 {
			t.Errorf("%s ends with %d: %s%s", name, code, p.out.String(), p.err.String())
		}
	}
}

// TestKindsOfUsers: the socket's mode keeps other users out, even users that can enter its
// directory.
func TestKindsOfUsers(t *testing.T) {
	if os.Geteuid() != 0 || !isThere(t, "setpriv") || !isThere(t, "curl") {
		t.Skip("!!!! NOT TRIED: only root can be another user")
	}
	b := newBench(t)
	if err := os.Chmod(b.dir, 0o755); err != nil { //nolint:gosec // for this test
		t.Fatal(err)
	}
	curl := []string{"curl", "-sS", "--unix-socket", b.socket, "http://lockmesh/v1/access"}
	if p := b.program(curl[0], curl[1:]...); p.run() != 0 || !strings.Contains(p.out.String(), `"lock":true`) {
		t.Errorf("the owner gets %s%s", p.out.String(), p.err.String())
	}
	p := b.program("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups"}, curl...)...)
	if code := p.run(); code != 7 || p.out.String() != "" {
		t.Errorf("another user's curl ends with %d: %s%s", code, p.out.String(), p.err.String())
	}
}
