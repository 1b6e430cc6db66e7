package registerserver

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Object stands for an object storage with conditional writes that has one object, at any path. The
// zero value has none yet.
type Object struct {
	mu            sync.Mutex
	content, etag string
	down          bool
	token         string
}

// ServeHTTP answers a request for the object.
func (o *Object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a client that has ended gets no answer anyway
	o.mu.Lock()
	defer o.mu.Unlock()
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case o.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case o.token != "" && r.Header.Get("Authorization") != "Bearer "+o.token:
		w.WriteHeader(http.StatusUnauthorized)
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

// SetDown has the storage refuse all requests, or answer them again.
func (o *Object) SetDown(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

// SetToken has the storage demand a bearer token from now on; empty: none.
func (o *Object) SetToken(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token = token
}
