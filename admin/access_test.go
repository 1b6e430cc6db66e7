package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

// TestThePermissionsOfEachClient has a row for each kind of handler and of sender, and the statuses
// of the answers to requests that read, act, recover, lock, and lock by GET.
func TestThePermissionsOfEachClient(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		tok, lock := WithToken(testToken), AllowLocks(time.Second)
		const good, bad = "Bearer " + testToken, "Bearer " + testToken + "!"
		requests := []struct{ method, path string }{
			{"GET", "/v1/members"}, {"POST", "/v1/locks/k/revoke"}, {"POST", "/v1/recover"}, {"GET", "/v1/leases/x"}, {"PUT", "/v1/locks/k?wait=x"}, {"GET", "/v1/hold/k?wait=x"},
		}
		for _, row := range []struct {
			name  string
			opts  []Option
			owner bool
			auth  string
			want  string // of the requests, in their order
		}{
			// 404 and 400 are answers to the contents of the requests: they were let through.
			{"nothing is allowed by default", nil, false, "", "403 403 403 403 403 403"},
			{"the owner may all but lock", nil, true, "", "200 204 400 403 403 403"},
			{"the owner of an agent", []Option{lock}, true, "", "200 204 400 404 400 403"},
			{"the owner needs no token", []Option{lock, tok}, true, "", "200 204 400 404 400 403"},
			{"a wrong token is no harm to the owner", []Option{lock, tok}, true, bad, "200 204 400 404 400 403"},
			{"the owner locks by GET with a token", []Option{lock, tok}, true, good, "200 204 400 404 400 400"},
			{"no token", []Option{lock, tok}, false, "", "401 401 403 401 401 401"},
			{"a wrong token", []Option{lock, tok}, false, bad, "401 401 401 401 401 401"},
			{"a wrong scheme", []Option{lock, tok}, false, "Basic " + testToken, "401 401 401 401 401 401"},
			{"a token", []Option{lock, tok}, false, good, "200 204 403 404 400 400"},
			{"a token in another case of the scheme", []Option{lock, tok}, false, "bearer " + testToken, "200 204 403 404 400 400"},
			{"a token where there is none", []Option{lock}, false, good, "403 403 403 403 403 403"},
			{"a token, and no locks", []Option{tok}, false, good, "200 204 403 403 403 403"},
			{"reads without a token", []Option{lock, tok, AllowReads()}, false, "", "200 401 403 401 401 401"},
			{"reads without a token, and a wrong one", []Option{lock, tok, AllowReads()}, false, bad, "401 401 401 401 401 401"},
			{"reads, and no token at all", []Option{lock, AllowReads()}, false, "", "200 403 403 403 403 403"},
			{"actions without a token", []Option{lock, AllowActions()}, false, "", "200 204 403 404 400 403"},
			{"actions don't weaken a token", []Option{lock, tok, AllowActions()}, false, "", "401 401 403 401 401 401"},
			{"read-only for the owner", []Option{lock, ReadOnly()}, true, "", "200 403 403 404 400 403"},
			{"read-only with a token", []Option{tok, ReadOnly()}, false, good, "200 403 403 403 403 403"},
		} {
			h := New(m.Node("a"), append(row.opts, WithLogger(slog.New(slog.DiscardHandler)))...)
			var got []string
			for _, r := range requests {
				req := httptest.NewRequestWithContext(t.Context(), r.method, r.path, nil)
				req.Host = "localhost"
				if row.auth != "" {
					req.Header.Set("Authorization", row.auth)
				}
				got = append(got, fmt.Sprint(serveOnce(h, req, row.owner).Code))
			}
			if g := strings.Join(got, " "); g != row.want {
				t.Errorf("%s: %s, want %s", row.name, g, row.want)
			}
		}
	})
}

// serveOnce serves a request, as over the owner's socket if owner is set.
func serveOnce(h http.Handler, r *http.Request, owner bool) *httptest.ResponseRecorder {
	ctx := r.Context()
	conn := &connection{ownerOnly: owner, serving: ctx}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, connectionKey{}, conn)))
	return w
}

// TestPagesOfOtherSites: a page of any site can have a browser send requests.
func TestPagesOfOtherSites(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), AllowActions(), AllowHosts("status.example"), WithLogger(slog.New(slog.DiscardHandler)))
		for _, row := range []struct {
			host, header, value string
			want                int
		}{
			{"localhost", "", "", 204},
			{"localhost:80", "", "", 204},
			{"127.0.0.1:80", "", "", 204},
			{"[::1]:80", "", "", 204},
			{"Status.example:80", "", "", 204},
			{"evil.example", "", "", 403}, // a name with an address of this machine
			{"", "", "", 403},
			{"localhost.evil.example", "", "", 403},
			{"localhost", "Origin", "http://localhost", 204},
			{"localhost", "Origin", "https://status.example", 204},
			{"localhost", "Origin", "http://evil.example", 403},
			{"localhost", "Origin", "null", 403},
			{"localhost:80", "Origin", "http://localhost:8080", 403},
			{"localhost", "Sec-Fetch-Site", "same-origin", 204},
			{"localhost", "Sec-Fetch-Site", "none", 204},
			{"localhost", "Sec-Fetch-Site", "same-site", 403},
			{"localhost", "Sec-Fetch-Site", "cross-site", 403},
		} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/locks/k/revoke", nil)
			r.Host = row.host
			if row.header != "" {
				r.Header.Set(row.header, row.value)
			}
			if got := serveOnce(h, r, false).Code; got != row.want {
				t.Errorf("%+v: %d", row, got)
			}
		}
	})
}

// TestPagesOfOtherSitesAtTheOwnersSocket: a forwarded port leads a browser to the owner's socket,
// and a site with a name that resolves to the port gets no access.
func TestPagesOfOtherSitesAtTheOwnersSocket(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), WithToken(testToken), AllowHosts("status.example"), WithLogger(slog.New(slog.DiscardHandler)))
		for _, row := range []struct {
			host, auth string
			read, act  int
		}{
			{"localhost:7951", "", 200, 204},
			{"127.0.0.1:7951", "", 200, 204},
			{"lockmesh", "", 200, 204}, // invented by a client such as curl
			{"", "", 200, 204},         // every browser sends the header
			{"status.example", "", 200, 204},
			{"evil.example:7951", "", 403, 403},
			{"evil.example:7951", "Bearer " + testToken, 200, 204},
		} {
			for path, want := range map[string]int{"GET /v1/status": row.read, "POST /v1/locks/k/revoke": row.act} {
				method, path, _ := strings.Cut(path, " ")
				r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
				r.Host = row.host
				if row.auth != "" {
					r.Header.Set("Authorization", row.auth)
				}
				if got := serveOnce(h, r, true).Code; got != want {
					t.Errorf("%+v: %s %s: %d, want %d", row, method, path, got, want)
				}
			}
		}
	})
}

// TestAccess has a row for each kind of handler and of sender, with the rights reported to the
// sender.
func TestAccess(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		tok, lock := WithToken(testToken), AllowLocks(time.Second)
		for _, row := range []struct {
			name   string
			opts   []Option
			owner  bool
			host   string
			auth   string
			want   Access
			reason string // a part of
		}{
			{"nothing by default", nil, false, "localhost", "", Access{}, "AllowReads"},
			{"the owner", nil, true, "localhost", "", Access{Read: true, Act: true, Recover: true}, ""},
			{"the owner of an agent", []Option{lock, tok}, true, "localhost", "", Access{Read: true, Act: true, Lock: true, Recover: true}, ""},
			{"no token", []Option{lock, tok}, false, "localhost", "", Access{Token: true}, "no token"},
			{"a token", []Option{lock, tok}, false, "localhost", testToken, Access{Read: true, Act: true, Lock: true}, ""},
			{"reads without a token", []Option{tok, AllowReads()}, false, "localhost", "", Access{Read: true, Token: true}, "no token"},
			{"reads, and no token at all", []Option{AllowReads()}, false, "localhost", "", Access{Read: true}, "no token"},
			{"a token would change nothing", []Option{tok, AllowReads(), ReadOnly()}, false, "localhost", "", Access{Read: true}, "read-only"},
			{"actions without a token", []Option{AllowActions(), lock}, false, "localhost", "", Access{Read: true, Act: true, Lock: true}, ""},
			{"a foreign name", []Option{tok, AllowReads()}, false, "evil.example", "", Access{Token: true}, "evil.example"},
			{"a foreign name, and the token", []Option{tok}, false, "evil.example", testToken, Access{Read: true, Act: true}, ""},
			{"a foreign name at the owner's socket", nil, true, "evil.example", "", Access{}, "evil.example"},
		} {
			h := New(m.Node("a"), append(row.opts, WithLogger(slog.New(slog.DiscardHandler)))...)
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/access", nil)
			r.Host = row.host
			if row.auth != "" {
				r.Header.Set("Authorization", "Bearer "+row.auth)
			}
			w := serveOnce(h, r, row.owner)
			var got Access
			must(t, json.Unmarshal(w.Body.Bytes(), &got))
			if w.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%s: the answer asks for a token", row.name)
			}
			if w.Code != 200 || !strings.Contains(got.Reason, row.reason) || (got.Reason == "") != (row.reason == "") {
				t.Errorf("%s: %d %s", row.name, w.Code, w.Body)
			}
			got.Reason = ""
			if got != row.want {
				t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
			}
		}
	})
}

func TestTokensThatCantBeUsed(t *testing.T) {
	for _, token := range []string{"", "short", strings.Repeat("x", MinTokenLen-1), strings.Repeat("x", 20) + " ", strings.Repeat("x", 20) + "\n", strings.Repeat("é", 20)} {
		err := CheckToken(token)
		if err == nil || len(token) > 5 && strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("WithToken(%q) doesn't panic", token)
				}
			}()
			WithToken(token)
		}()
	}
	must(t, CheckToken(strings.Repeat("x", MinTokenLen)))
}

// TestServeRefusesToBeOpen: Serve refuses a listener on which any process could act.
func TestServeRefusesToBeOpen(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		for _, opts := range [][]Option{nil, {AllowActions()}, {AllowActions(), AllowReads()}, {AllowLocks(time.Second)}} {
			wantError(t, Serve(t.Context(), pipes.New(), New(m.Node("a"), opts...)), ErrForbidden)
		}
	})
}

// TestNoSecretIsTold gives the mesh and the handler recognisable secrets, and looks for the
// secrets, in any form, in all answers and all lines of the log.
func TestNoSecretIsTold(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		var log, answers bytes.Buffer
		s := newOwnerSite(t, m, "a", WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		must(t, m.Node("a").SetSecrets(lockmesh.Secret(testSecret), lockmesh.Secret("another-"+testSecret)))
		must(t, second(m.Node("b").Lock(t.Context(), "held")))
		for _, rt := range routes {
			if rt.path == "/v1/stop" || rt.path == "/v1/leave" {
				continue // at the end
			}
			path := strings.NewReplacer("{key}", "held", "{id}", "x").Replace(rt.path)
			for _, tail := range []string{"", "?wait=1s", "?unknown=" + testSecret[:8], "/x"} {
				tell(t, s, rt.method, path+tail, &answers)
			}
		}
		for _, path := range []string{"/v1/stop", "/v1/status", "/v1/leave", "/v1/locks/held"} {
			tell(t, s, "POST", path, &answers)
			tell(t, s, "GET", path, &answers)
		}
		s.stop()
		all := answers.String() + log.String()
		if answers.Len() < 20_000 || !strings.Contains(log.String(), "action=/v1/stop") {
			t.Fatalf("only %d bytes were answered, and %d logged", answers.Len(), log.Len())
		}
		for _, secret := range []string{testSecret, testToken, "another-"} {
			for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%d", []byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
				if i := strings.Index(all, form); i >= 0 {
					t.Errorf("a secret is told: …%s", all[max(0, i-200):i])
				}
			}
		}
	})
}

// tell sends a request with the token, and appends the answer of the first 20 seconds to answers.
func tell(t *testing.T, s *site, method, path string, answers *bytes.Buffer) {
	t.Helper()
	conn := s.raw(request(method+" "+path) + "Connection: close\n\n")
	read := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(conn)
		read <- data
	}()
	synctest.Wait()
	time.Sleep(20 * time.Second) // until only streams still send
	conn.Close()
	answers.Write(<-read)
}

// TestAnAnswerKeepsTheConnection: a request without a body doesn't end its connection, also where
// the server or a wrapper gives every request a Body, as HTTP/2 and http.MaxBytesHandler do.
func TestAnAnswerKeepsTheConnection(t *testing.T) {
	meshtest.Run(t, 1, func(t *testing.T, m *meshtest.Mesh) {
		h := New(m.Node("a"), WithToken("kQ7vXw2-first-hB9zLm4TgY8s"), WithLogger(slog.New(slog.DiscardHandler)))
		for _, row := range []struct {
			name  string
			h     http.Handler
			major int
			body  string
			close bool
		}{
			{"HTTP/1.1", h, 1, "", false},
			{"a wrapper", http.MaxBytesHandler(h, 1<<20), 1, "", false},
			{"HTTP/2", http.MaxBytesHandler(h, 1<<20), 2, "", false},
			{"HTTP/1.1, a body", h, 1, "{}", true},
			{"HTTP/2, a body", h, 2, "{}", false},
		} {
			for _, path := range []string{"/", "/nix", "/v1/status"} { // the page, 404, 401
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, strings.NewReader(row.body))
				req.ProtoMajor, req.Host = row.major, "localhost"
				if is := serveOnce(row.h, req, false).Header().Get("Connection") == "close"; is != row.close {
					t.Errorf("%s, %s: the connection is closed: %t", row.name, path, is)
				}
			}
		}
	})
}
