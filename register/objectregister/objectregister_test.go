package objectregister_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/fence/objectfence"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/objectregister"
	"github.com/lockmesh/lockmesh/register/registertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is a server with conditional writes.
type bucket struct {
	hashed bool // the ETag is a hash of the content
	down   bool

	mu      sync.Mutex
	objects map[string]string
	etags   map[string]string
	writes  int
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	content, there := b.objects[r.URL.Path]
	etag := b.etags[r.URL.Path]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case b.down:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case r.Method == http.MethodGet && !there:
		http.NotFound(w, r)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag)
		_, _ = io.WriteString(w, content)
	case r.Method != http.MethodPut:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case none == "*" && there, match != "" && match != etag, none == "" && match == "":
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		b.writes++
		if b.etags[r.URL.Path] = fmt.Sprintf(`"%d"`, b.writes); b.hashed {
			b.etags[r.URL.Path] = fmt.Sprintf(`"%x"`, sha256.Sum256(body))
		}
		b.objects[r.URL.Path] = string(body)
		w.WriteHeader(http.StatusCreated)
	}
}

func serve(t *testing.T, b *bucket) *objectfence.HTTP {
	b.objects, b.etags = make(map[string]string), make(map[string]string)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL + "/bucket")
	if err != nil {
		t.Fatal(err)
	}
	return &objectfence.HTTP{Base: base, Client: server.Client()}
}

func TestAnObjectComparesAndSets(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("hashed %v", hashed), func(t *testing.T) {
			registertest.Run(t, func(t *testing.T) func() register.Register {
				store := serve(t, &bucket{hashed: hashed})
				return func() register.Register { return objectregister.New(store, "locks/mesh.json") }
			})
		})
	}
}

func TestAStorageThatIsDown(t *testing.T) {
	r := objectregister.New(serve(t, &bucket{down: true}), "mesh")
	if _, _, err := r.Load(t.Context()); err == nil || !strings.Contains(err.Error(), `reading "mesh": the server answers 503`) {
		t.Error(err)
	}
	if err := r.Store(t.Context(), nil, ""); err == nil || errors.Is(err, register.ErrChanged) || !strings.Contains(err.Error(), `writing "mesh": the server answers 503`) {
		t.Error(err)
	}
}

// TestALargeObjectIsNotReadWhole: an object of 64 MiB under the name by mistake, for each process
// and each renewal.
func TestALargeObjectIsNotReadWhole(t *testing.T) {
	store := serve(t, &bucket{})
	r, err := objectregister.AtURL(store.Base.String()+"/locks.json", store.Client)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), "locks.json", objectfence.Object{Data: make([]byte, 9<<10)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "the object has more than 8192 bytes") {
		t.Error(err)
	}
}

func TestTheObjectOfAURL(t *testing.T) {
	store := serve(t, &bucket{})
	text := store.Base.String() + "/locks/mesh%20one.json"
	r, err := objectregister.AtURL(text, store.Client)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Store(t.Context(), []byte("x"), ""); err != nil {
		t.Fatal(err)
	}
	other := objectregister.New(store, "locks/mesh one.json")
	if record, _, err := other.Load(t.Context()); string(record) != "x" || err != nil {
		t.Errorf("%q, %v", record, err)
	}
	for _, bad := range []string{"", "mesh.json", "http://", "http://host", "http://host/", "http://host/bucket/", "ftp://host/x", "http://host/x?y=z", ":"} {
		if _, err := objectregister.AtURL(bad, nil); err == nil || !strings.Contains(err.Error(), "is no URL of an object") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
