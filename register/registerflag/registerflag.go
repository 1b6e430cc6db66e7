// Package registerflag makes a register of a text, for programs that take their settings from flags
// or variables:
//
//   - configmap:NAME is a ConfigMap in the namespace of the pod.
//   - https://SERVER/api/v1/namespaces/NAMESPACE/configmaps/NAME is a ConfigMap, by the URL of an API
//     server.
//   - Another URL, such as https://host/bucket/mesh.json, is an object with conditional writes.
//
// A row of a database (package sqlregister) needs a driver, and is left to programs.
package registerflag

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockmesh/lockmesh/internal/registerhttp"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/kuberegister"
	"github.com/lockmesh/lockmesh/register/objectregister"
)

// inPod is the beginning of a text that names a ConfigMap in the namespace of the pod.
const inPod = "configmap:"

// configMap is the path of a ConfigMap, behind the prefix of an API server or a proxy.
var configMap = regexp.MustCompile(`^(.*)/api/v1/namespaces/([^/]+)/configmaps/([^/]+)$`)

// isOfAPIServer matches the other paths of a namespace, which a storage of objects would hardly
// have.
var isOfAPIServer = regexp.MustCompile(`/api/v1/namespaces/[^/]+/[a-z]+(/[^/]*)?$`)

// Parse returns the register that a text names. Nothing is sent yet. The function token, if not
// nil, returns the bearer token for each request to a URL; configmap:NAME needs none, since the pod
// has the token of its service account. An error says what a text may be.
func Parse(text string, token func() (string, error)) (register.Register, error) {
	if name, ok := strings.CutPrefix(text, inPod); ok {
		at, err := kuberegister.InCluster(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		return at, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s is no register: name a ConfigMap by %sNAME, or by https://SERVER/api/v1/namespaces/NAMESPACE/configmaps/NAME, "+
			"or an object by its URL, such as https://host/bucket/mesh.json", shown(text), inPod)
	case u.User != nil:
		return nil, fmt.Errorf("%s has a user in front of the host: logs would show the password; use a bearer token instead", shown(text))
	}
	var client *http.Client
	if token != nil {
		client = &http.Client{Transport: &bearer{scheme: u.Scheme, host: u.Host, token: token, next: registerhttp.Transport()}}
	}
	if m := configMap.FindStringSubmatch(u.Path); m != nil && u.RawQuery == "" {
		server := url.URL{Scheme: u.Scheme, Host: u.Host, Path: m[1]}
		return &kuberegister.ConfigMap{Server: &server, Namespace: m[2], Name: m[3], Client: client}, nil
	}
	if u.RawQuery != "" && isOfAPIServer.MatchString(u.Path) {
		return nil, fmt.Errorf("%s has a query: name the ConfigMap by https://SERVER/api/v1/namespaces/NAMESPACE/configmaps/NAME alone", shown(text))
	}
	if isOfAPIServer.MatchString(u.Path) {
		return nil, fmt.Errorf("%s is the URL of an API server but of no ConfigMap: name it by https://SERVER/api/v1/namespaces/NAMESPACE/configmaps/NAME", shown(text))
	}
	at, err := objectregister.AtURL(text, client)
	if err != nil {
		return nil, err
	}
	return at, nil
}

// plainName is a text in which no password is to be expected.
var plainName = regexp.MustCompile(`^[A-Za-z0-9./_-]{0,100}$`)

// shown returns what an error may show of a text that should name a register: the text may be the
// URL of a database with a password, a presigned URL, or anything else. "..." stands for what is
// left out.
func shown(text string) string {
	u, err := url.Parse(text)
	switch {
	case plainName.MatchString(text):
		return strconv.Quote(text)
	case err != nil || u.Host == "" || u.Opaque != "":
		return `"..."`
	}
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		s.User = url.User("...")
	}
	if u.RawQuery != "" {
		s.RawQuery = "..."
	}
	return strconv.Quote(s.String())
}

// bearer sends requests to a single host with a bearer token. A redirect to another host, port or
// scheme gets no token.
type bearer struct {
	scheme, host string
	token        func() (string, error)
	next         http.RoundTripper
}

// RoundTrip sends a request.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == b.scheme && req.URL.Host == b.host {
		token, err := b.token()
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // nothing was read
			}
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(req)
}
