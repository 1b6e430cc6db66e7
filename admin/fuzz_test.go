package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// hostile are parts of requests from an attacker.
var hostile = []string{
	"", "k", "/", "//", "%2f", "%2F..%2F", "..", "../../etc/passwd", "%00", "%0d%0aX: y", "\x7f", "<script>alert(1)</script>", `"';--`, "%ff%fe", "\xff", "%", "%zz",
	strings.Repeat("k", 4096), strings.Repeat("%c3%a4", 300), "a/revoke/evict", "{key}", "?", "#", "\u2028", strings.Repeat("\"", 512), strings.Repeat("<", 8000),
}

// fuzzed returns a handler of a node with quiet voters, so that no request waits for other
// requests.
func fuzzed(f *testing.F) *Handler {
	m := meshtest.New(f, 1)
	return New(m.Node("a"), AllowActions(), AllowLocks(lockmesh.DefaultMaxTTL), WithLogger(slog.New(slog.DiscardHandler)))
}

// check sends a request and checks the form of the answer, whatever the content.
func check(t *testing.T, h *Handler, r *http.Request) {
	t.Helper()
	w := serveOnce(h, r, true)
	body := w.Body.Bytes()
	switch {
	case w.Code == http.StatusNoContent && len(body) == 0:
		return
	case w.Code == http.StatusOK && isPage(t, r.URL.Path, body):
		return
	case !json.Valid(body) || !utf8.Valid(body):
		t.Errorf("%s %q: the answer isn't JSON: %.300q", r.Method, r.URL, body)
	case w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff":
		t.Errorf("the headers are %v", w.Header())
	case len(body) > 64<<10 && r.URL.Path != "/v1/openapi.json":
		t.Errorf("%s %.300q: the answer has %d bytes", r.Method, r.URL, len(body))
	case strings.ContainsAny(string(body), "<>"):
		t.Errorf("%s %.300q: the answer has HTML: %.300q", r.Method, r.URL, body)
	}
	if w.Code >= 400 {
		e := new(Error)
		if err := json.Unmarshal(body, e); err != nil || e.Code == "" || e.Message == "" || e.Advice == "" || !slices.Contains(e.Reasons, e.Code) {
			t.Errorf("the error is %s: %v", body, err)
		}
	}
}

// short returns a request with a context so short that no request waits for the quiet voters.
func short(t *testing.T, method, target, body string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil // net/http refuses such a target
	}
	// These requests end the node. Waits for voters would slow the fuzzing down.
	if slices.Contains([]string{"/v1/stop", "/v1/leave", "/v1/drain"}, u.Path) {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost", strings.NewReader(body))
	if err != nil {
		return nil
	}
	if body == "" {
		r.Body = http.NoBody
	}
	r.URL, r.RequestURI = u, target
	return r
}

func FuzzPaths(f *testing.F) {
	for _, part := range hostile {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			f.Add(method, "/"+part)
			f.Add(method, "/v1/locks/"+part)
			f.Add(method, "/v1/locks/"+part+"/evict")
			f.Add(method, "/v1/leases/"+part+"/extend")
			f.Add(method, "/v1/hold/"+part)
		}
	}
	h := fuzzed(f)
	f.Fuzz(func(t *testing.T, method, target string) {
		if r := short(t, method, target, ""); r != nil {
			check(t, h, r)
		}
	})
}

func FuzzQueries(f *testing.F) {
	for _, part := range hostile {
		for _, name := range slices.Concat(lockQuery, []string{"prefix", "after", "limit", "key", "x"}) {
			f.Add(uint8(0), name+"="+part)
		}
		f.Add(uint8(1), "prefix="+part)
	}
	targets := []string{"PUT /v1/locks/k", "GET /v1/locks", "GET /v1/watch", "PUT /v1/hold/k", "POST /v1/leases/x/extend", "POST /v1/locks/k/evict"}
	h := fuzzed(f)
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		method, path, _ := strings.Cut(targets[int(which)%len(targets)], " ")
		if r := short(t, method, path+"?"+query, ""); r != nil {
			check(t, h, r)
		}
	})
}

func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		"{}", "null", "[]", "1e999", `{"token":-1}`, `{"token":18446744073709551615,"node":"a"}`, `{"node":"` + strings.Repeat("x", 5000) + `"}`, `{"reason":"<b>\u0000"}`,
		`{"voters":["a","a",""]}`, `{"voters":[` + strings.Repeat(`"x",`, 9000) + `"x"]}`, strings.Repeat("[", 10000), "\xff", `{"a":1}{"b":2}`, strings.Repeat(" ", MaxBody+1),
	} {
		for which := range uint8(3) {
			f.Add(which, body)
		}
	}
	targets := []string{"/v1/locks/k/revoke", "/v1/locks/k/evict", "/v1/recover"}
	h := fuzzed(f)
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		if r := short(t, "POST", targets[int(which)%len(targets)], body); r != nil {
			check(t, h, r)
		}
	})
}

// FuzzHeaders sends the headers that decide about the sender of a request. Without the token every
// request over TCP is refused, whatever its headers, and the answer quotes the headers in JSON
// only.
func FuzzHeaders(f *testing.F) {
	for _, part := range append(slices.Clone(hostile), testToken, "Bearer "+testToken[:len(testToken)-1], "Bearer "+testToken+"x", "Bearer  "+testToken,
		"Basic "+testToken, "bearer\x00"+testToken, "localhost:x", "[::1", "::1]", "[::1]:1:1", "http://", "http://[::1", "null", "http://localhost@evil.example",
		"http://evil.example#localhost", "cross-site", "same-origin",
	) {
		f.Add("localhost", part, "", "")
		f.Add(part, "", "", "")
		f.Add("evil.example", "", part, "")
		f.Add("localhost", "", "", part)
	}
	m := meshtest.New(f, 1)
	closed := New(m.Node("a"), WithToken(testToken), WithLogger(slog.New(slog.DiscardHandler)))
	open := New(m.Node("a"), WithToken(testToken), AllowReads(), WithLogger(slog.New(slog.DiscardHandler)))
	f.Fuzz(func(t *testing.T, host, authorization, origin, site string) {
		for _, h := range []*Handler{closed, open} {
			for _, target := range []string{"GET /v1/members", "POST /v1/locks/k/revoke"} {
				method, path, _ := strings.Cut(target, " ")
				r := short(t, method, path, "")
				r.Host = host
				for name, value := range map[string]string{"Authorization": authorization, "Origin": origin, "Sec-Fetch-Site": site} {
					if value != "" {
						r.Header.Set(name, value)
					}
				}
				scheme, token, _ := strings.Cut(authorization, " ")
				proven := strings.EqualFold(scheme, "Bearer") && token == testToken
				w := serveOnce(h, r, false)
				may := proven || h == open && method == "GET" && h.isOwnHost(host)
				if w.Code < 300 && !may {
					t.Errorf("%s of %q, %q, %q, %q is answered with %d", target, host, authorization, origin, site, w.Code)
				}
				told := strings.Contains(w.Body.String(), testToken) && !strings.Contains(host+origin+site, testToken)
				if body := w.Body.String(); !json.Valid(w.Body.Bytes()) && body != "" || strings.ContainsAny(body, "<>") || told {
					t.Errorf("%q, %q, %q, %q: %.300q", host, authorization, origin, site, body)
				}
			}
		}
	})
}

// FuzzClient has a client read hostile answers.
func FuzzClient(f *testing.F) {
	for _, answer := range []string{
		"", "{}", "null", "data: {}\n\n", "data: x\n\n", "event: end\ndata: {}\n\n", "event: end\n\n", ": \n\n", "data: {\"kind\":\"gap\"}\n\n", `{"event":"held","left_ms":-9223372036854775808}`,
		`{"event":"held","left_ms":9223372036854775807}` + "\n" + `{"event":"end"}`, `{"error":"held"}`, `{"value":{"base64":"/w=="}}`, strings.Repeat("x", maxLine+1),
	} {
		f.Add(200, answer)
		f.Add(409, answer)
	}
	f.Fuzz(func(t *testing.T, status int, answer string) {
		if status < 200 || status > 599 {
			return
		}
		c, err := NewClient("http://localhost", "")
		must(t, err)
		c.HTTP.Transport = answers(func() *http.Response {
			w := httptest.NewRecorder()
			w.WriteHeader(status)
			_, _ = w.WriteString(answer)
			return w.Result()
		})
		ctx := t.Context()
		_, _ = c.Status(ctx)
		_, _ = c.Lock(ctx, "k", LockOptions{})
		for _, err := range c.WatchPrefix(ctx, "") {
			if err != nil {
				_ = err.Error()
			}
		}
		if h, err := c.Hold(ctx, "k", LockOptions{}); err == nil {
			_ = h.Release()
		}
	})
}

type answers func() *http.Response

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }
