//go:build hunt

package proctest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// With the default MaxTTL: how long a birth, a replacement, a leave and the loss of most voters take.
func TestTheLifeOfABornMesh(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	began := time.Now()
	f.begin("a", "b", "c")
	first := f.serves("a")
	report(t, "the first start to the first lock", time.Since(began), 13*time.Second)
	f.begin("d")
	f.procs["d"].reached("ready")
	began = time.Now()
	f.procs["a"].kill()
	f.procs["d"].awaitElectorate("b", "c", "d")
	report(t, "a killed voter is replaced", time.Since(began), 45*time.Second)
	f.begin("e")
	f.procs["e"].reached("ready")
	began = time.Now()
	f.procs["b"].tell("leave")
	f.procs["b"].exitCode()
	f.procs["d"].awaitElectorate("c", "d", "e")
	report(t, "a voter leaves and is replaced", time.Since(began), 25*time.Second)
	began = time.Now()
	f.procs["c"].kill()
	f.procs["d"].kill()
	f.begin("f", "g")
	f.procs["e"].awaitElectorate("e", "f", "g")
	larger(t, f.serves("f", "e", "g"), first)
	report(t, "most voters are lost, until locks are granted again", time.Since(began), 80*time.Second)
}

// object is a server with one object and conditional writes.
type object struct {
	mu            sync.Mutex
	content, etag string
	down          bool
}

func (o *object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case o.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodGet && o.etag == "":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", o.etag)
		_, _ = io.WriteString(w, o.content)
	case none == "*" && o.etag != "", match != "" && match != o.etag, none == "" && match == "":
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		o.content, o.etag = string(body), fmt.Sprintf(`"%x"`, sha256.Sum256(body))
		w.WriteHeader(http.StatusCreated)
	}
}

func (o *object) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

// With a register, six processes at once are one mesh; it outlives its register, and a mesh that is
// lost as a whole is followed by another after a term.
func TestABornMeshWithARegister(t *testing.T) {
	const maxTTL, term = 2 * time.Second, 15 * time.Second
	o := new(object)
	server := httptest.NewServer(o)
	defer server.Close()
	f := newFleet(t, maxTTL, "-register", server.URL+"/bucket/mesh.json", "-register-term", term.String())
	f.begin("a", "b", "c", "d", "e", "f")
	first := f.serves("a", "b", "c", "d", "e", "f")
	o.set(true)
	f.procs["a"].await("an electorate in trouble", func(l line) bool { return l.Event == "electorate" && l.Text != "" })
	f.procs["a"].await("no voter that counts", func(l line) bool {
		return l.Event == "voters" && l.Voters["b"] != "reachable" && l.Voters["c"] != "reachable"
	})
	f.procs["a"].tell("trylock k")
	f.procs["a"].awaitError("trylock", "noquorum")
	o.set(false)
	larger(t, f.serves("a", "b"), first)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		f.procs[name].kill()
	}
	began := time.Now()
	f.begin("g", "h", "i")
	f.procs["g"].awaitElectorate("g", "h", "i")
	if took := time.Since(began); took < term {
		t.Errorf("another mesh was founded after %v, within the term of the one before", took)
	}
	larger(t, f.serves("g", "h", "i"), first)
	report(t, "all processes are lost, until locks are granted again", time.Since(began), term+maxTTL+5*time.Second)
}
