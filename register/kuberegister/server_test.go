package kuberegister

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// apiServer stands for an API server with the ConfigMaps of one namespace, as far as the public
// description of the API goes: each write yields a new resourceVersion, an update with another one
// than the present is a conflict, and so is the creation of what exists.
type apiServer struct {
	mu       sync.Mutex
	objects  map[string]map[string]any // by name
	version  int
	token    string // that requests must have; empty: any
	forbid   string // a method that the service account may not use
	requests []string
	answer   func(w http.ResponseWriter, r *http.Request) bool // nil: as described
}

const prefix = "/api/v1/namespaces/ns/configmaps"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, prefix)
	name, ok = strings.TrimPrefix(name, "/"), ok && name != "/"
	switch {
	case s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token:
		status(w, http.StatusUnauthorized, "Unauthorized")
		return
	case r.Method == s.forbid:
		status(w, http.StatusForbidden, fmt.Sprintf("configmaps %q is forbidden: User \"x\" cannot do that", name))
		return
	case !ok:
		status(w, http.StatusNotFound, "the server could not find the requested resource")
		return
	}
	switch o := s.objects[name]; {
	case r.Method == http.MethodPost && name == "":
		in, meta := body(r)
		name = fmt.Sprint(meta["name"])
		if s.objects[name] != nil {
			status(w, http.StatusConflict, fmt.Sprintf("configmaps %q already exists", name))
			return
		}
		s.put(w, http.StatusCreated, name, in, meta)
	case o == nil:
		status(w, http.StatusNotFound, fmt.Sprintf("configmaps %q not found", name))
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(o)
	case r.Method == http.MethodPut:
		in, meta := body(r)
		was := o["metadata"].(map[string]any)["resourceVersion"]
		// An update without a resourceVersion is unconditional.
		if v, ok := meta["resourceVersion"]; ok && v != was {
			status(w, http.StatusConflict, "Operation cannot be fulfilled on configmaps: the object has been modified; please apply your changes to the latest version and try again")
			return
		}
		s.put(w, http.StatusOK, name, in, meta)
	default:
		status(w, http.StatusMethodNotAllowed, "no such method")
	}
}

func (s *apiServer) put(w http.ResponseWriter, code int, name string, in, meta map[string]any) {
	s.version++
	meta["resourceVersion"] = fmt.Sprint(s.version)
	meta["uid"] = "1234"
	in["metadata"] = meta
	if s.objects == nil {
		s.objects = make(map[string]map[string]any)
	}
	s.objects[name] = in
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(in)
}

func body(r *http.Request) (in, meta map[string]any) {
	_ = json.NewDecoder(r.Body).Decode(&in)
	meta, _ = in["metadata"].(map[string]any)
	return in, meta
}

func status(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}
