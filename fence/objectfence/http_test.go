package objectfence_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/fencetest"
	"github.com/lockmesh/lockmesh/fence/objectfence"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

const tokenHeader = "X-Meta-Token"

// storage is a server with conditional writes. Its faults occur in existing servers.
type storage struct {
	hashed     bool // the ETag is a hash of the content, not of the header with the token
	weak       bool // ETags are weak
	careless   bool // conditions are ignored
	forgetful  bool // the token's header isn't kept
	mu         sync.Mutex
	objects    map[string]stored
	version    int
	paths      []string
	conditions []string
}

type stored struct{ etag, token, content string }

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	now, there := s.objects[r.URL.Path]
	switch r.Method {
	case http.MethodGet:
		if !there {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", now.etag)
		if now.token != "" {
			w.Header().Set(tokenHeader, now.token)
		}
		_, _ = io.WriteString(w, now.content)
	case http.MethodPut:
		s.paths = append(s.paths, r.RequestURI)
		match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		s.conditions = append(s.conditions, match+none)
		if !s.careless && (none == "*" && there || match != "" && match != now.etag || none == "" && match == "") {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		s.version++
		next := stored{etag: fmt.Sprintf(`"%d"`, s.version), content: string(body)}
		if s.hashed {
			next.etag = fmt.Sprintf(`"%x"`, sha256.Sum256(body))
		}
		if s.weak {
			next.etag = "W/" + next.etag
		}
		if !s.forgetful {
			next.token = r.Header.Get(tokenHeader)
		}
		if s.objects == nil {
			s.objects = map[string]stored{}
		}
		s.objects[r.URL.Path] = next
		w.WriteHeader(http.StatusCreated)
	}
}

// serve starts the server and returns a store on it.
func serve(t *testing.T, h http.Handler, header string) *objectfence.HTTP {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	must(t, err)
	return &objectfence.HTTP{Base: base.JoinPath("bucket"), Client: server.Client(), TokenHeader: header}
}

func TestAnObjectBehindHTTPIsFenced(t *testing.T) {
	sampled.Computes(t)
	for _, c := range []struct {
		name   string
		hashed bool
		header string
	}{
		{"the token in front of the content", false, ""},
		{"the token in front of the content, whose hash is the version", true, ""},
		{"the token in a header, and a new version at each write", false, tokenHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, objectfence.Probe(t.Context(), serve(t, &storage{hashed: c.hashed}, c.header), "probe"))
			fencetest.Run(t, func(t *testing.T) fencetest.Log {
				return journal{objectfence.New(serve(t, &storage{hashed: c.hashed}, c.header), "journal")}
			})
		})
	}
}

// The new holder writes the previous content again. By a hash of the content alone, the version
// stays the same.
func TestALatePutIsRefusedThoughTheContentIsTheSame(t *testing.T) {
	store := serve(t, &storage{hashed: true}, "")
	must(t, objectfence.New(store, "o").Put(t.Context(), 4, []byte("same")))
	stopped := &between{Store: store, before: func(int) error { return objectfence.New(store, "o").Put(t.Context(), 6, []byte("same")) }}
	if err := objectfence.New(stopped, "o").Put(t.Context(), 5, []byte("late")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	want(t, store, 6, "same")
}

func TestTheProbeFindsStorageThatCantBeFenced(t *testing.T) {
	for _, c := range []struct {
		storage *storage
		header  string
		want    string
	}{
		{&storage{careless: true}, "", "ignores conditions"},
		{&storage{careless: true}, tokenHeader, "ignores conditions"},
		{&storage{hashed: true}, tokenHeader, "the version stays the same when only the token changes"},
		{&storage{forgetful: true}, tokenHeader, "token 4611686018427387905 comes back as 0"},
		{&storage{weak: true}, "", "strong"},
	} {
		store := serve(t, c.storage, c.header)
		for range 2 { // without the object, and, if the probe gets so far, with the object
			if err := objectfence.Probe(t.Context(), store, "probe"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, not %s", c.storage, err, c.want)
			}
		}
	}
}

func TestTheProbeCanBeRepeated(t *testing.T) {
	store := serve(t, &storage{}, "")
	for range 3 {
		must(t, objectfence.Probe(t.Context(), store, "probe"))
	}
}

// The largest limit stands for no limit.
func TestTheLargestLimitIsNone(t *testing.T) {
	store := serve(t, &storage{}, "")
	store.MaxBytes = math.MaxInt64
	o := objectfence.New(store, "o")
	must(t, o.Put(t.Context(), 6, []byte("by the new holder")))
	if err := o.Put(t.Context(), 5, []byte("late")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	want(t, store, 6, "by the new holder")
}

func TestNamesArePathsUnderTheBase(t *testing.T) {
	s := &storage{}
	store := serve(t, s, "")
	must(t, objectfence.New(store, "a/b c?d%2Fe").Put(t.Context(), 5, nil))
	if want := "/bucket/a/b%20c%3Fd%252Fe"; s.paths[0] != want {
		t.Errorf("%s, not %s", s.paths[0], want)
	}
	for _, name := range []string{"../o", "/o", "a//b", ".", "a/../../o"} {
		if err := objectfence.New(store, name).Put(t.Context(), 5, nil); err == nil {
			t.Errorf("%q is taken for a path under the base", name)
		}
	}
	if len(s.paths) != 1 {
		t.Errorf("%q", s.paths)
	}
}

func TestEveryPutIsConditional(t *testing.T) {
	s := &storage{}
	o := objectfence.New(serve(t, s, ""), "o")
	for range 2 {
		must(t, o.Put(t.Context(), 5, nil))
	}
	if want := []string{"*", `"1"`}; fmt.Sprint(s.conditions) != fmt.Sprint(want) {
		t.Errorf("%q, not %q", s.conditions, want)
	}
}

func TestAnswersToAPut(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		version objectfence.Version
		changed bool
		want    string // of another error; empty if there is no error
	}{
		{"done", 200, `"1"`, false, ""},
		{"created", 201, "", false, ""},
		{"done, and nothing to say", 204, `"1"`, false, ""},
		{"the condition doesn't hold", 412, `"1"`, true, ""},
		{"two writes have met", 409, "", true, ""},
		{"it has been deleted", 404, `"1"`, true, ""},
		{"there is no bucket", 404, "", false, "404 Not Found: too bad"},
		{"some day, perhaps", 202, "", false, "202 Accepted"},
		{"not allowed", 403, "", false, "403 Forbidden: too bad"},
		{"out of order", 503, "", false, "503 Service Unavailable: too bad"},
		{"a redirect that makes it a GET", 303, "", false, "the write was redirected to 127.0.0.1:"},
		{"a redirect to a page that takes everything", 307, "", false, "the write was redirected to 127.0.0.1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet || r.URL.Path == "/elsewhere" {
					return // the target of the redirect is fine
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				if c.status != http.StatusNoContent {
					_, _ = io.WriteString(w, "too bad\n")
				}
			}), "")
			err := store.Put(t.Context(), "o", objectfence.Object{Token: 5, Version: c.version})
			if (err == objectfence.ErrChanged) != c.changed {
				t.Error(err)
			}
			if !c.changed && (c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want))) {
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
}

func TestAnswersToAGet(t *testing.T) {
	for _, c := range []struct {
		name, etag, token string
		status            int
		content, want     string
	}{
		{"no ETag", "", "", 200, "x", "strong"},
		{"a weak ETag", `W/"1"`, "", 200, "x", "strong"},
		{"no number", `"1"`, "seven", 200, "x", "can't be read"},
		{"token 0", `"1"`, "0", 200, "x", "can't be read"},
		{"not allowed", `"1"`, "", 403, "too bad", "403 Forbidden: too bad"},
		{"too large", `"1"`, "", 200, "12345678901", "more than 10 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", c.etag)
				w.Header().Set(tokenHeader, c.token)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.content)
			}), tokenHeader)
			store.MaxBytes = 10
			if _, err := objectfence.New(store, "o").Get(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
	store := serve(t, &storage{}, "")
	store.MaxBytes = 10
	if err := objectfence.New(store, "o").Put(t.Context(), 5, nil); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Errorf("an object that couldn't be read again: %v", err)
	}
	if err := objectfence.New(new(objectfence.HTTP), "o").Put(t.Context(), 5, nil); err == nil || !strings.Contains(err.Error(), "Base") {
		t.Errorf("no base: %v", err)
	}
}

func TestNoStoreIsRefusedAtOnce(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); text != "objectfence: New was called with a nil Store" {
			t.Errorf("it panics with %q", text)
		}
	}()
	objectfence.New(nil, "ledger")
}
