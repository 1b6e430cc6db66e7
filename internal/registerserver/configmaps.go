package registerserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// ConfigMaps stands for an API server with the ConfigMaps of one namespace, as far as the public
// description of the API goes: each write yields a new resourceVersion, an update with another
// resourceVersion than the present is a conflict, and so is the creation of a ConfigMap that
// exists. The zero value has no ConfigMap. A test that reads or changes the fields while requests
// may come holds Mu.
type ConfigMaps struct {
	Mu      sync.Mutex
	Objects map[string]map[string]any // by name
	Version int                       // the newest resourceVersion
	Token   string                    // that requests must have; empty: any
	Forbid  string                    // a method that the service account may not use
	// Answer, if not nil, is asked first, with Mu held, and reports whether it has answered.
	Answer func(w http.ResponseWriter, r *http.Request) bool
}

// Namespace is the namespace of the ConfigMaps.
const Namespace = "ns"

const prefix = "/api/v1/namespaces/" + Namespace + "/configmaps"

// ServeHTTP answers a request for a ConfigMap.
func (s *ConfigMaps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Answer != nil && s.Answer(w, r) {
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, prefix)
	name, ok = strings.TrimPrefix(name, "/"), ok && name != "/"
	switch {
	case s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token:
		Status(w, http.StatusUnauthorized, "Unauthorized")
		return
	case r.Method == s.Forbid:
		Status(w, http.StatusForbidden, fmt.Sprintf("configmaps %q is forbidden: User \"x\" cannot do that", name))
		return
	case !ok:
		Status(w, http.StatusNotFound, "the server could not find the requested resource")
		return
	}
	switch o := s.Objects[name]; {
	case r.Method == http.MethodPost && name == "":
		in, meta := body(r)
		name = fmt.Sprint(meta["name"])
		if s.Objects[name] != nil {
			Status(w, http.StatusConflict, fmt.Sprintf("configmaps %q already exists", name))
			return
		}
		s.put(w, http.StatusCreated, name, in, meta)
	case o == nil:
		Status(w, http.StatusNotFound, fmt.Sprintf("configmaps %q not found", name))
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(o)
	case r.Method == http.MethodPut:
		in, meta := body(r)
		was := o["metadata"].(map[string]any)["resourceVersion"]
		// An update without a resourceVersion is unconditional.
		if v, ok := meta["resourceVersion"]; ok && v != was {
			Status(w, http.StatusConflict, "Operation cannot be fulfilled on configmaps: the object has been modified; please apply your changes to the latest version and try again")
			return
		}
		s.put(w, http.StatusOK, name, in, meta)
	default:
		Status(w, http.StatusMethodNotAllowed, "no such method")
	}
}

func (s *ConfigMaps) put(w http.ResponseWriter, code int, name string, in, meta map[string]any) {
	s.Version++
	meta["resourceVersion"] = fmt.Sprint(s.Version)
	meta["uid"] = "1234"
	in["metadata"] = meta
	if s.Objects == nil {
		s.Objects = make(map[string]map[string]any)
	}
	s.Objects[name] = in
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(in)
}

func body(r *http.Request) (in, meta map[string]any) {
	_ = json.NewDecoder(r.Body).Decode(&in)
	meta, _ = in["metadata"].(map[string]any)
	return in, meta
}

// Status answers a request with a failure, as an API server does.
func Status(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}
