package admin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

// answer reads the answer to a raw request.
func answer(t *testing.T, r io.Reader) (status int, body string) {
	t.Helper()
	a, err := http.ReadResponse(bufio.NewReader(r), nil)
	must(t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	must(t, err)
	return a.StatusCode, string(data)
}

// TestRequestsWithoutEnd: a client that sends slowly or without end is cut off, and holds nothing
// up.
func TestRequestsWithoutEnd(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		from := time.Now()
		silent := s.raw("GET /v1/status")
		_, _ = io.ReadAll(silent)
		if d := time.Since(from); d != headerTime {
			t.Errorf("an unfinished header was waited for %v", d)
		}
		for _, head := range []string{"Content-Length: 100\n\n{", "Transfer-Encoding: chunked\n\n1\n{\n"} {
			from = time.Now()
			status, body := answer(t, s.raw(request("POST /v1/locks/k/revoke")+head))
			if d := time.Since(from); d != bodyTime || status != http.StatusBadRequest || !strings.Contains(body, "didn't arrive within 10s") {
				t.Errorf("after %v: %d %s", d, status, body)
			}
		}
		if status, body := answer(t, s.raw(request("POST /v1/locks/k/revoke")+"Transfer-Encoding: chunked\n\nZZ\n")); status != http.StatusBadRequest || !strings.Contains(body, "the body can't be read") {
			t.Errorf("a broken chunk: %d %s", status, body)
		}
		// Where the body doesn't matter, the client has its answer before, and is cut in the same
		// time.
		wrong := "Authorization: Bearer kQ7vXw2-wrong-hB9zLm4TgY8s\n"
		for _, row := range []struct {
			head   string
			status int
		}{
			{"GET / HTTP/1.1\nHost: localhost\n", http.StatusOK},
			{"PUT / HTTP/1.1\nHost: localhost\n", http.StatusMethodNotAllowed},
			{"GET /nix HTTP/1.1\nHost: localhost\n", http.StatusNotFound},
			{"POST /v1/watch HTTP/1.1\nHost: localhost\n", http.StatusMethodNotAllowed},
			{"POST /v1/stop HTTP/1.1\nHost: localhost\n", http.StatusUnauthorized},
			{"POST /v1/stop HTTP/1.1\nHost: localhost\n" + wrong, http.StatusUnauthorized},
			{request("POST /v1/stop?nix=1"), http.StatusBadRequest},
		} {
			from = time.Now()
			conn := s.raw(row.head + "Content-Length: 100\n\n{")
			must(t, conn.SetReadDeadline(from.Add(2*bodyTime)))
			status, _ := answer(t, conn)
			if d := time.Since(from); d > time.Second || status != row.status {
				t.Errorf("%q is answered %d after %v, not %d at once", row.head, status, d, row.status)
			}
			_, _ = io.ReadAll(conn)
			if d := time.Since(from); d > bodyTime {
				t.Errorf("%q has its connection for %v", row.head, d)
			}
		}
		// A body without end, sent as fast as the server reads.
		conn := s.raw(request("POST /v1/locks/k/revoke") + "Transfer-Encoding: chunked\n\n")
		go func() {
			for {
				if _, err := io.WriteString(conn, "400\r\n"+strings.Repeat(" ", 1024)+"\r\n"); err != nil {
					return
				}
			}
		}()
		if status, body := answer(t, conn); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "more than 65536 bytes") {
			t.Errorf("%d %s", status, body)
		}
		status, body := answer(t, s.raw(request("GET /v1/status")+"Content-Length: 1\n\nx"))
		if status != http.StatusBadRequest || !strings.Contains(body, "takes none") {
			t.Errorf("%d %s", status, body)
		}
		idle := s.raw("")
		from = time.Now()
		_, _ = io.ReadAll(idle)
		if d := time.Since(from); d > idleTime {
			t.Errorf("an idle connection was kept for %v", d)
		}
	})
}

// TestASlowReaderIsServed: a client that reads steadily gets a long answer, however slow it reads.
func TestASlowReaderIsServed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for i := range 100 {
			must(t, second(m.Node("b").Lock(t.Context(), fmt.Sprint("k", i), lockmesh.WithValue(bytes.Repeat([]byte("v"), lockmesh.MaxValueLen)))))
		}
		from, conn := time.Now(), s.raw(request("GET /v1/locks")+"\n")
		slow := readerFunc(func(p []byte) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return conn.Read(p[:min(len(p), 2<<10)])
		})
		if status, body := answer(t, slow); status != http.StatusOK || !strings.HasSuffix(body, "}\n") {
			t.Errorf("%d, and %d bytes", status, len(body))
		}
		if d := time.Since(from); d < 2*writeTime {
			t.Errorf("the answer took %v, which isn't slow", d)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestConnectionsAreBounded(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		l := pipes.New()
		log := new(bytes.Buffer)
		bounded := newBoundedListener(l, 1, slog.New(slog.NewTextHandler(log, nil)))
		server := &http.Server{Handler: New(m.Node("a"), AllowReads()), ReadHeaderTimeout: time.Minute}
		served := make(chan error)
		go func() { served <- server.Serve(bounded) }()
		dial := func() net.Conn {
			t.Helper()
			synctest.Wait() // the refusal before is over
			c, err := l.Dial(t.Context())
			must(t, err)
			return c
		}
		const text = "GET /v1/members HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
		refused := func(c net.Conn) {
			t.Helper()
			if status, body := answer(t, c); status != http.StatusServiceUnavailable || !strings.Contains(body, `"limit"`) {
				t.Errorf("%d %s", status, body)
			}
			must(t, c.Close())
		}
		first, from := dial(), time.Now()
		for range 3 { // the request is read first
			c := dial()
			must(t, second(io.WriteString(c, text)))
			refused(c)
		}
		if d := time.Since(from); d != 0 {
			t.Errorf("the refusals took %v", d)
		}
		// Silent clients are refused, too, and keep no other client from the refusal: the second
		// client is beyond the limit and refused at once, invisibly on a connection without a
		// buffer.
		silent := dial()
		synctest.Wait()
		hasty := dial()
		if n, err := hasty.Read(make([]byte, 1)); n > 1 || err == nil && n == 0 {
			t.Errorf("%d, %v", n, err)
		}
		must(t, hasty.Close())
		refused(silent)
		if d := time.Since(from); d != refuseTime {
			t.Errorf("the silent client was waited for for %v", d)
		}
		must(t, first.Close())
		third := dial()
		must(t, second(io.WriteString(third, text)))
		if status, body := answer(t, third); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		must(t, third.Close())
		synctest.Wait()
		if n := strings.Count(log.String(), "too many connections"); n != 1 {
			t.Errorf("%d lines in a second: %s", n, log)
		}
		first = dial()
		time.Sleep(logPause - time.Second)
		refused(dial())
		must(t, first.Close())
		synctest.Wait()
		if n := strings.Count(log.String(), "too many connections"); n != 2 || !strings.Contains(log.String(), "others=4") {
			t.Errorf("%d lines after a minute: %s", n, log)
		}
		must(t, server.Close())
		<-served
		bounded.end()
	})
}

// TestAListenerThatFailsForAMoment: the errors of a process without file descriptors are logged
// once, and clients are served afterwards.
func TestAListenerThatFailsForAMoment(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		l := &failing{Listener: pipes.New()}
		l.failures.Store(5)
		log := new(bytes.Buffer)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		h := New(m.Node("a"), WithToken(testToken), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		go func() { served <- serve(ctx, l, h, false) }()
		c, err := l.Dial(t.Context())
		must(t, err)
		must(t, second(io.WriteString(c, "GET /v1/access HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if status, body := answer(t, c); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		cancel()
		must(t, <-served)
		if n := strings.Count(log.String(), "too many open files"); n != 1 {
			t.Errorf("%d lines: %s", n, log)
		}
	})
}

// failing is a listener that fails for some calls, as without file descriptors.
type failing struct {
	*pipes.Listener
	failures atomic.Int32
}

func (f *failing) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

func TestTheStopIsntDelayed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		s.raw("")                      // sends nothing
		s.raw("GET /v1/status HTTP")   // sends half of a request
		for _, head := range []string{ // begin a body, and don't end it
			"GET / HTTP/1.1\nHost: localhost\n", "POST /v1/stop HTTP/1.1\nHost: localhost\n", request("POST /v1/locks/k/revoke"), request("GET /v1/status"),
		} {
			conn := s.raw(head + "Content-Length: 5\n\n")
			go func() { _, _ = io.Copy(io.Discard, conn) }() // reads what comes
		}
		must(t, second(s.c.Status(t.Context())))
		synctest.Wait()
		from := time.Now()
		s.stop()
		if d := time.Since(from); d > 2*time.Second {
			t.Errorf("the stop took %v", d)
		}
	})
}

func TestRequestsThatCantBeUsed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), AllowLocks(10*time.Second), WithLogger(slog.New(slog.DiscardHandler)))
		for _, row := range []struct {
			request, body string
			status        int
			text          string
		}{
			{"GET /v1", "", 404, `there is no \"/v1\"`},
			{"GET /page/", "", 404, "there is no"},
			{"GET /page/index.html", "", 404, "there is no"},
			{"GET /page/../page.go", "", 404, "there is no"},
			{"POST /", "", 405, "GET or HEAD is"},
			{"PUT /page/page.js", "", 405, "GET or HEAD is"},
			{"GET /v1/", "", 404, "there is no"},
			{"GET /v1/status/", "", 404, "there is no"},
			{"POST /v1/status", "", 405, "POST isn't possible here; GET is"},
			{"DELETE /v1/locks/k", "", 405, "GET or PUT is"},
			{"GET /v1/members?pretty=1", "", 400, `there is no parameter \"pretty\" here; there are: none`},
			{"GET /v1/locks?limit=1&limit=2", "", 400, "given 2 times"},
			{"GET /v1/locks?limit=x", "", 400, "a number from 1 to 1000"},
			{"GET /v1/locks?limit=%zz", "", 400, "can't be read"},
			{"GET /v1/watch?key=a&prefix=b", "", 400, "leave one of the two out"},
			{"GET /v1/locks/", "", 400, "key"},
			{"GET /v1/locks/a%00b", "", 400, "control"},
			{"GET /v1/locks/%ff", "", 400, "UTF-8"},
			{"GET /v1/locks/" + strings.Repeat("k", lockmesh.MaxKeyLen+1), "", 400, "512"},
			{"PUT /v1/locks/k?ttl=abc", "", 400, "a duration such as 30s"},
			{"PUT /v1/locks/k?ttl=1ms", "", 400, "200ms"},
			{"PUT /v1/locks/k?mode=both", "", 400, "one of exclusive, shared and permit"},
			{"PUT /v1/locks/k?value=a&value_base64=YQ==", "", 400, "leave one"},
			{"PUT /v1/locks/k?value_base64=*", "", 400, "alphabet"},
			{"PUT /v1/locks/k?value=" + strings.Repeat("v", lockmesh.MaxValueLen+1), "", 400, "4096"},
			{"PUT /v1/locks/k?min_hold=-1s", "", 400, "duration"},
			{"PUT /v1/locks/k?revoke=" + strings.Repeat("v", lockmesh.MaxReasonLen+1), "", 400, "256"},
			{"DELETE /v1/leases/a/b", "", 404, "there is no"},
			{"POST /v1/locks/k/revoke", `{"why":"x"}`, 400, `unknown field \"why\"`},
			{"POST /v1/locks/k/revoke", `{"reason":1}`, 400, "can't be read"},
			{"POST /v1/locks/k/revoke", `{} {}`, 400, "more follows"},
			{"POST /v1/locks/k/revoke", `[`, 400, "can't be read"},
			{"POST /v1/locks/k/evict", ``, 400, "neither a token nor a node"},
			{"POST /v1/drain?wait=1", ``, 400, "a duration such as 30s"},
			{"POST /v1/recover", `{"voters":["a"]}`, 400, "StateDir"},
			{"GET /v1/watch", "", 500, "can't cut a client"}, // a recorder has no deadlines
		} {
			method, path, _ := strings.Cut(row.request, " ")
			var body io.Reader
			if row.body != "" {
				body = strings.NewReader(row.body)
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, body)
			r.Host = "localhost"
			w := serveOnce(h, r, true)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.text) {
				t.Errorf("%.80s %s: %d %s, want %d with %q", row.request, row.body, w.Code, w.Body, row.status, row.text)
			}
			if row.status == 405 && w.Header().Get("Allow") == "" {
				t.Errorf("%s: no header Allow", row.request)
			}
		}
	})
}

// TestKeysInPaths: every key has a path, and gets through unchanged.
func TestKeysInPaths(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		for _, key := range []string{
			"a", "a/b", "/", "//", "a//b/", ".", "..", "...", "../..", "/../", "a/revoke", "revoke", "/extend", "%", "%2F", "a b", "a+b", "?x=1&y", "#", "ä", "<b>", `"`, `\`,
			"status", "openapi.json", "{key}", strings.Repeat("/", lockmesh.MaxKeyLen),
		} {
			l, err := s.c.Lock(ctx, key, LockOptions{})
			must(t, err)
			info, err := m.Node("b").Inspect(ctx, key)
			must(t, err)
			if len(info.Holders) != 1 || l.Key != key {
				t.Errorf("%q is held as %q", key, l.Key)
			}
			must(t, s.c.Revoke(ctx, key, ""))
			lock, err := s.c.Inspect(ctx, key)
			must(t, err)
			if lock.Key != key || len(lock.Holders) != 1 {
				t.Errorf("%q is inspected as %+v", key, lock)
			}
			l, err = s.c.Extend(ctx, l.ID, 0)
			must(t, err)
			if len(l.Revocations) != 1 {
				t.Errorf("%q has %d revocations", key, len(l.Revocations))
			}
		}
	})
}

// TestInAnApplicationsServer: behind a ServeMux with a prefix, and wrappers of the writer.
func TestInAnApplicationsServer(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		l := pipes.New()
		h := New(m.Node("a"), WithToken(testToken), AllowLocks(10*time.Second))
		mux := http.NewServeMux()
		mux.Handle("/lockmesh/", http.StripPrefix("/lockmesh", h))
		server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		s := &site{t: t, l: l}
		c := s.client(testToken)
		c.base += "/lockmesh"
		for _, key := range []string{"a/b", "..", "x//y", "/"} {
			l, err := c.Lock(t.Context(), key, LockOptions{})
			must(t, err)
			if l.Key != key {
				t.Errorf("%q is held as %q", key, l.Key)
			}
		}
		hold, err := c.Hold(t.Context(), "long", LockOptions{})
		must(t, err)
		time.Sleep(time.Minute) // longer than the server's own limits
		must(t, hold.Err())

		h.Close()
		wantError(t, second(c.Status(t.Context())), ErrStopping)
		<-hold.Done()
		wantError(t, hold.Err(), ErrStopping)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, server.Shutdown(ctx))
		<-served
		wantError(t, hold.Release(), lockmesh.ErrLost)
	})
}

func TestAnswersThatArentOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes.New()
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/status":
				http.Error(w, "bad gateway", http.StatusBadGateway)
			case "/v1/locks/k":
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "{")
			case "/v1/members":
				http.Redirect(w, r, "http://elsewhere.example/", http.StatusTemporaryRedirect)
			default:
				fmt.Fprint(w, "<html>")
			}
		})}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		c := (&site{t: t, l: l}).client(testToken)
		for _, err := range []error{second(c.Status(t.Context())), second(c.Members(t.Context())), second(c.Electorate(t.Context()))} {
			if err == nil || !strings.HasPrefix(err.Error(), "admin: the answer ") {
				t.Errorf("the error is %v", err)
			}
		}
		wantError(t, second(c.Inspect(t.Context(), "k")), ErrNoAnswer, io.ErrUnexpectedEOF)
		must(t, server.Close())
		<-served
		wantError(t, second(c.Inspect(t.Context(), "k")), ErrNoAnswer)
	})
}

func TestAddressesOfClients(t *testing.T) {
	for _, address := range []string{"", "localhost:80", "ftp://x", "http://", "http://x?y", "http://u:p@x", "://"} {
		if _, err := NewClient(address, ""); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
	for _, address := range []string{"/run/x", "./x", "unix:/run/x", "unix:///run/x", "http://localhost:80/", "https://x/y"} {
		must(t, second(NewClient(address, "")))
	}
	_, err := NewClient("/run/x", "short")
	if err == nil {
		t.Error("a short token is accepted")
	}
}
