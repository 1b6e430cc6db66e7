package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const aSecret = "kq3Zf8vB1xTn6WcR0aYs"

func environment(pairs ...string) func(string) string {
	all := map[string]string{"LOCKMESH_EXPECT": "1", "LOCKMESH_BIND": "127.0.0.1:0", "SERVICE_HTTP": "127.0.0.1:0"}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return all[name] }
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(aSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse(environment("LOCKMESH_EXPECT", "3", "LOCKMESH_PEERS", "dns:locks:7950, 10.0.0.1:7950", "LOCKMESH_SECRET_FILE", file, "LOCKMESH_MAX_TTL", "3s",
		"LOCKMESH_REGISTER", "https://host/bucket/mesh.json", "LOCKMESH_REGISTER_TERM", "5m", "SERVICE_KEYS", "a,b"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.lock
	if c.Expect != 3 || len(c.Peers) != 2 || len(c.Secrets) != 1 || string(c.Secrets[0]) != aSecret || c.MaxTTL != 3*time.Second || c.Register == nil || c.RegisterTerm != 5*time.Minute {
		t.Errorf("%+v", c)
	}
	if len(s.keys) != 2 || s.hold != time.Second || s.pause != 100*time.Millisecond || s.grace != 25*time.Second {
		t.Errorf("%+v", s)
	}
	const another = "mW4pRz8-second-tD6kQy1HsUe2"
	if err := os.WriteFile(file, []byte("\n"+another+"\r\n "+aSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = parse(environment("LOCKMESH_EXPECT", "3", "LOCKMESH_PEERS", "dns:locks:7950", "LOCKMESH_SECRET_FILE", file))
	if got := s.lock.Secrets; err != nil || len(got) != 2 || string(got[0]) != another || string(got[1]) != aSecret {
		t.Errorf("the secrets are %d, %v", len(got), err)
	}
	for _, test := range [][3]string{
		{"LOCKMESH_EXPECT", "three", `LOCKMESH_EXPECT: "three" is no number`},
		{"LOCKMESH_MAX_TTL", "10", `LOCKMESH_MAX_TTL: "10" is no duration such as 10s`},
		{"SERVICE_HOLD", "-1s", "SERVICE_HOLD: "},
		{"LOCKMESH_NON_VOTING", "maybe", `LOCKMESH_NON_VOTING: "maybe" is neither true nor false`},
		{"LOCKMESH_SECRET_FILE", file + "x", "LOCKMESH_SECRET_FILE: "},
		{"LOCKMESH_REGISTER", "configmap:x", "LOCKMESH_REGISTER: configmap:x: kuberegister: KUBERNETES_SERVICE_HOST"},
		{"LOCKMESH_REGISTER", "locks", `LOCKMESH_REGISTER: "locks" is no register: name a ConfigMap`},
		{"LOCKMESH_VOTERS", "a,b,c", "either a list of voters or a number of processes"},
	} {
		if _, err := parse(environment(test[0], test[1])); err == nil || !strings.Contains(err.Error(), test[2]) {
			t.Errorf("%s=%s: %v, want %q", test[0], test[1], err, test[2])
		}
	}
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		args []string
		env  func(string) string
		code int
		says string
	}{
		{[]string{"-h"}, environment(), 0, "LOCKMESH_EXPECT"},
		{[]string{"-check"}, environment(), 0, ""},
		{[]string{"-check"}, environment("LOCKMESH_EXPECT", "-3"), 2, "Expect: -3 is negative"},
		{[]string{"serve"}, environment(), 2, "all settings come from the environment"},
		{nil, environment("SERVICE_HTTP", "nowhere"), 1, "nowhere"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), test.args, test.env, io.Discard, &stderr); code != test.code || !strings.Contains(stderr.String(), test.says) {
			t.Errorf("%v: code %d, %s", test.args, code, stderr.String())
		}
	}
}

// TestWorkOfALostLeaseIsNotDone: another node evicts the lease in the middle of the work.
func TestWorkOfALostLeaseIsNotDone(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out, in := io.Pipe()
		var work sync.WaitGroup
		work.Go(func() {
			s := &settings{hold: time.Minute, pause: time.Hour}
			s.work(ctx, m.Node("a"), "one", &events{out: json.NewEncoder(in)})
			_ = in.Close()
		})
		lines := json.NewDecoder(out)
		next := func() (e event) {
			if err := lines.Decode(&e); err != nil {
				t.Fatal(err)
			}
			return e
		}
		granted := next()
		if err := m.Node("b").Evict(ctx, "one", granted.Token); err != nil {
			t.Fatal(err)
		}
		if e := next(); e.Event != "lost" || e.Token != granted.Token {
			t.Errorf("after %+v comes %+v", granted, e)
		}
		stop()
		_ = out.Close()
		work.Wait()
	})
}

// The service works under its lock, answers probes, and ends in good order.
func TestTheServiceWorksAndEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, nil, environment("SERVICE_KEYS", "one,two", "SERVICE_HOLD", "10ms", "SERVICE_PAUSE", "1ms"), in, &stderr)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	next := func(wanted func(event) bool) event {
		t.Helper()
		for lines.Scan() {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%v in %s", err, lines.Text())
			}
			if wanted(e) {
				return e
			}
		}
		t.Fatalf("the output is over: %s", stderr.String())
		return event{}
	}
	at := next(func(e event) bool { return e.Event == "listening" }).HTTP
	for _, key := range []string{"one", "two", "one"} {
		first := next(func(e event) bool { return e.Event == "granted" && e.Key == key })
		next(func(e event) bool { return e.Event == "done" && e.Key == key && e.Token == first.Token })
	}
	answer := make(chan int, 1)
	go func() {
		defer http.DefaultClient.CloseIdleConnections()
		resp, err := http.Get("http://" + at + "/readyz")
		if err != nil {
			answer <- 0
			return
		}
		_ = resp.Body.Close()
		answer <- resp.StatusCode
	}()
	for answered := false; !answered && lines.Scan(); { // so that the service isn't held up
		select {
		case status := <-answer:
			answered = true
			if status != http.StatusOK {
				t.Errorf("/readyz answers %d", status)
			}
		default:
		}
	}
	asked := make(chan int, 1)
	go func() {
		var text bytes.Buffer
		asked <- run(t.Context(), []string{"-alive"}, environment("SERVICE_HTTP", at), io.Discard, &text)
	}()
	for answered := false; !answered && lines.Scan(); {
		select {
		case got := <-asked:
			answered = true
			if got != 0 {
				t.Errorf("-alive ends with %d", got)
			}
		default:
		}
	}
	stop()
	ended := next(func(e event) bool { return e.Event == "ended" })
	for lines.Scan() {
		t.Errorf("after its end it says %s", lines.Text())
	}
	var text bytes.Buffer
	if got := run(t.Context(), []string{"-alive"}, environment("SERVICE_HTTP", at), io.Discard, &text); got != 1 || text.Len() == 0 {
		t.Errorf("after the end -alive ends with %d and says %q", got, text.String())
	}
	if got := <-code; got != 0 {
		t.Errorf("code %d, %q, %s", got, ended.Text, stderr.String())
	}
}
