// Package kuberegister keeps the record of a mesh's births in a ConfigMap of Kubernetes. The
// package talks to the API server by HTTP, as the pod's service account, and needs no other
// library.
//
//	r, err := kuberegister.InCluster("locks-register")
//	cfg.Register = r
//
// The service account needs a Role of its namespace with get and update for this ConfigMap, and
// create for ConfigMaps:
//
//	rules:
//	- apiGroups: [""]
//	  resources: [configmaps]
//	  resourceNames: [locks-register]
//	  verbs: [get, update]
//	- apiGroups: [""]
//	  resources: [configmaps]
//	  verbs: [create]
//
// The ConfigMap is made when the first mesh is founded. Leave the ConfigMap out of the manifests
// that are removed and applied again with the application: without the record, a new mesh may act
// while pods of the earlier mesh still run.
package kuberegister

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/lockmesh/lockmesh/internal/registerhttp"
	"github.com/lockmesh/lockmesh/register"
)

// Key is the key of the record among the ConfigMap's data.
const Key = "record"

// maxBody bounds the answers of the API server: a ConfigMap has 1 MiB of data at most, and its
// encoding and metadata come on top.
const maxBody = 8 << 20

// ConfigMap is a [register.Register] in a ConfigMap. Any goroutine may use a ConfigMap, as long as
// the fields don't change.
type ConfigMap struct {
	// Server is the URL of the API server.
	Server *url.URL
	// Namespace and Name name the ConfigMap. Other data in the ConfigMap stays unchanged.
	Namespace, Name string
	// Client sends the requests; nil is a client with the transport of http.DefaultTransport, but by
	// HTTP/1.1 and with a connection for each request. A client that keeps connections must notice
	// dead ones: requests are minutes apart.
	Client *http.Client
	// Token returns the bearer token for a request; nil means that Client authenticates by itself.
	// Tokens of service accounts change every hour or so, thus Token is called for each request.
	Token func() (string, error)
}

var _ register.Register = (*ConfigMap)(nil)

// object is the API server's form of a ConfigMap. Fields without a name here are kept.
type object struct {
	fields   map[string]json.RawMessage
	metadata map[string]json.RawMessage
	data     map[string]string
	version  string // the resourceVersion
}

// Load reads the ConfigMap.
func (c *ConfigMap) Load(ctx context.Context) (record []byte, version string, err error) {
	o, err := c.get(ctx)
	if err != nil || o == nil {
		return nil, "", err
	}
	return []byte(o.data[Key]), o.version, nil
}

// Store updates the ConfigMap on condition of the given resourceVersion, or creates the ConfigMap.
func (c *ConfigMap) Store(ctx context.Context, record []byte, version string) error {
	if version == "" {
		return c.create(ctx, record)
	}
	// An update replaces the whole object, so the update needs the fields and data of others.
	o, err := c.get(ctx)
	switch {
	case err != nil:
		return err
	case o == nil || o.version != version:
		return register.ErrChanged
	}
	if o.data == nil {
		o.data = make(map[string]string)
	}
	o.data[Key] = string(record)
	if o.fields["data"], err = json.Marshal(o.data); err != nil {
		return err
	}
	body, err := json.Marshal(o.fields)
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodPut, c.Name, string(record), body)
}

func (c *ConfigMap) create(ctx context.Context, record []byte) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"name": c.Name, "namespace": c.Namespace},
		"data":     map[string]string{Key: string(record)},
	})
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodPost, "", string(record), body)
}

// get returns the ConfigMap; nil if there is none. Without a resourceVersion in the request, the
// API server answers from its storage and not from a cache.
func (c *ConfigMap) get(ctx context.Context) (*object, error) {
	status, body, err := c.send(ctx, http.MethodGet, c.Name, nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, nil
	case status != http.StatusOK:
		return nil, c.refusal(http.MethodGet, status, body)
	}
	o := new(object)
	bad := func(err error) error {
		return fmt.Errorf("kuberegister: the API server's answer is no ConfigMap: %w", err)
	}
	if err := json.Unmarshal(body, &o.fields); err != nil {
		return nil, bad(err)
	}
	if data := o.fields["data"]; data != nil {
		if err := json.Unmarshal(data, &o.data); err != nil {
			return nil, bad(err)
		}
	}
	if err := json.Unmarshal(o.fields["metadata"], &o.metadata); err != nil {
		return nil, bad(err)
	}
	if err := json.Unmarshal(o.metadata["resourceVersion"], &o.version); err != nil || o.version == "" {
		return nil, bad(errors.New("it has no resourceVersion"))
	}
	return o, nil
}

// write sends the ConfigMap with a record, and checks that the answer shows the record.
func (c *ConfigMap) write(ctx context.Context, method, name, record string, body []byte) error {
	status, answer, err := c.send(ctx, method, name, body)
	switch {
	case err != nil:
		return err
	case status == http.StatusConflict, status == http.StatusNotFound && method == http.MethodPut:
		return register.ErrChanged
	case status != http.StatusOK && status != http.StatusCreated:
		return c.refusal(method, status, answer)
	}
	var written struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
	}
	if err := json.Unmarshal(answer, &written); err != nil || written.Kind != "ConfigMap" || written.Metadata.Name != c.Name || written.Data[Key] != record {
		return fmt.Errorf("kuberegister: %s of the ConfigMap %s/%s: the answer doesn't show the ConfigMap with the new record, so whether it was written isn't known: is Server the API server? It answers %d: %.300s",
			method, c.Namespace, c.Name, status, bytes.TrimSpace(answer))
	}
	return nil
}

// send sends a request about the ConfigMap of a name, or about the namespace's ConfigMaps if the
// name is empty.
func (c *ConfigMap) send(ctx context.Context, method, name string, body []byte) (status int, answer []byte, err error) {
	if c.Server == nil || c.Namespace == "" || c.Name == "" {
		return 0, nil, errors.New("kuberegister: Server, Namespace and Name are required")
	}
	u := c.Server.JoinPath("api", "v1", "namespaces", url.PathEscape(c.Namespace), "configmaps")
	if name != "" {
		u = u.JoinPath(url.PathEscape(name))
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("kuberegister: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != nil {
		token, err := c.Token()
		if err != nil {
			return 0, nil, fmt.Errorf("kuberegister: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := c.Client
	if client == nil {
		client = registerhttp.Client()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("kuberegister: %w", err)
	}
	defer resp.Body.Close()
	if to := resp.Request; method != http.MethodGet && to.Response != nil {
		return 0, nil, fmt.Errorf("kuberegister: the %s was redirected to %s, and whether it was done isn't known: use the API server's own address", method, to.URL.Host)
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return 0, nil, fmt.Errorf("kuberegister: reading the API server's answer: %w", err)
	}
	return resp.StatusCode, answer, nil
}

// refusal is the error for an unexpected answer, with the API server's message.
func (c *ConfigMap) refusal(method string, status int, body []byte) error {
	var s struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &s) != nil || s.Message == "" {
		s.Message = string(bytes.TrimSpace(body[:min(len(body), 300)]))
	}
	advice := ""
	switch status {
	case http.StatusUnauthorized:
		advice = "; is the service account's token mounted?"
	case http.StatusForbidden:
		advice = "; the service account needs get and update for this ConfigMap, and create for ConfigMaps"
	}
	return fmt.Errorf("kuberegister: %s of the ConfigMap %s/%s: the API server answers %d: %.500s%s", method, c.Namespace, c.Name, status, s.Message, advice)
}
