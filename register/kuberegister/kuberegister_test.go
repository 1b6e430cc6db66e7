package kuberegister

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/registerserver"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/registertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns a ConfigMap at a server.
func serve(t *testing.T, s *registerserver.ConfigMaps) *ConfigMap {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &ConfigMap{Server: u, Namespace: "ns", Name: "locks", Client: server.Client()}
}

func TestAConfigMapComparesAndSets(t *testing.T) {
	registertest.Run(t, func(t *testing.T) func() register.Register {
		c := serve(t, new(registerserver.ConfigMaps))
		return func() register.Register { return c }
	})
}

// An operator may create the ConfigMap, with labels and data of its own.
func TestWhatElseIsInTheConfigMapStays(t *testing.T) {
	s := &registerserver.ConfigMaps{Version: 7, Objects: map[string]map[string]any{"locks": {
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": false, "binaryData": map[string]any{"b": "AAA="}, "data": map[string]any{"note": "by hand"},
		"metadata": map[string]any{"name": "locks", "namespace": "ns", "resourceVersion": "7", "uid": "1234", "labels": map[string]any{"app": "x"}},
	}}}
	c := serve(t, s)
	record, version, err := c.Load(t.Context())
	if len(record) != 0 || version != "7" || err != nil {
		t.Fatalf("%q, %q, %v", record, version, err)
	}
	if err := c.Store(t.Context(), []byte("r"), version); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": false, "binaryData": map[string]any{"b": "AAA="}, "data": map[string]any{"note": "by hand", Key: "r"},
		"metadata": map[string]any{"name": "locks", "namespace": "ns", "resourceVersion": "8", "uid": "1234", "labels": map[string]any{"app": "x"}},
	}
	if got := s.Objects["locks"]; !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%v\nwant\n%v", got, want)
	}
}

// Between the two requests of a store, another process may store.
func TestAnUpdateIsConditional(t *testing.T) {
	s := new(registerserver.ConfigMaps)
	c := serve(t, s)
	if err := c.Store(t.Context(), []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	_, version, err := c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			s.Version++
			s.Objects["locks"]["metadata"].(map[string]any)["resourceVersion"] = "99"
		}
		return false
	}
	if err := c.Store(t.Context(), []byte("two"), version); err != register.ErrChanged {
		t.Errorf("%v", err)
	}
	s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			registerserver.Status(w, http.StatusNotFound, "it has been deleted")
		}
		return r.Method == http.MethodPut
	}
	if err := c.Store(t.Context(), []byte("two"), "99"); err != register.ErrChanged {
		t.Errorf("%v", err)
	}
}

func TestTheTokenIsReadForEachRequest(t *testing.T) {
	s := &registerserver.ConfigMaps{Token: "first"}
	c := serve(t, s)
	token := "first"
	c.Token = func() (string, error) { return token, nil }
	if _, _, err := c.Load(t.Context()); err != nil {
		t.Error(err)
	}
	s.Token = "second"
	if _, _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "token mounted") {
		t.Error(err)
	}
	token = "second"
	if _, _, err := c.Load(t.Context()); err != nil {
		t.Error(err)
	}
	c.Token = func() (string, error) { return "", errors.New("no file") }
	if _, _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Error(err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		forbid string
		answer func(w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		{http.MethodGet, nil, "GET of the ConfigMap ns/locks: the API server answers 403: configmaps \"locks\" is forbidden"},
		{http.MethodGet, nil, "needs get and update for this ConfigMap, and create for ConfigMaps"},
		{http.MethodPost, nil, "POST of the ConfigMap ns/locks: the API server answers 403"},
		{"", func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(strings.Repeat("down ", 1000)))
			return true
		}, "answers 503: down down"},
		{"", func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true }, "is no ConfigMap: invalid"},
		{"", func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"metadata":{}}`))
			return true
		}, "no resourceVersion"},
		{"", func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte(`{"data":[1]}`)); return true }, "is no ConfigMap"},
		{"", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
				return true
			}
			return r.URL.Path == "/elsewhere"
		}, "the POST was redirected to 127.0.0.1:"},
		{"", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				_, _ = w.Write([]byte("<html>please log in"))
			}
			return r.Method == http.MethodPost
		}, "whether it was written isn't known: is Server the API server? It answers 200: <html>please log in"},
		{"", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				_, _ = w.Write([]byte(`{"kind":"ConfigMap","metadata":{"name":"locks"},"data":{"register":"y"}}`))
			}
			return r.Method == http.MethodPost
		}, "the answer doesn't show the ConfigMap with the new record"},
	} {
		c := serve(t, &registerserver.ConfigMaps{Forbid: test.forbid, Answer: test.answer})
		_, _, err := c.Load(t.Context())
		if err == nil {
			err = c.Store(t.Context(), []byte("x"), "")
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 800 {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	if _, _, err := new(ConfigMap).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "required") {
		t.Error(err)
	}
}

// mount writes a service account as Kubernetes mounts it.
func mount(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// selfSigned returns a certificate for a host.
func selfSigned(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.ParseIP(host)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestInCluster(t *testing.T) {
	s := &registerserver.ConfigMaps{Token: "secret"}
	server := httptest.NewTLSServer(s)
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	env := map[string]string{"KUBERNETES_SERVICE_HOST": u.Hostname(), "KUBERNETES_SERVICE_PORT": u.Port()}
	getenv := func(name string) string { return env[name] }
	whole := map[string]string{"namespace": "ns", "ca.crt": authority, "token": "secret\n"}
	dir := account(mount(t, whole))
	c, err := inCluster("locks", dir, getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Client.CloseIdleConnections()
	if err := c.Store(t.Context(), []byte("r"), ""); err != nil {
		t.Fatal(err)
	}
	if record, _, err := c.Load(t.Context()); string(record) != "r" || err != nil {
		t.Fatalf("%q, %v", record, err)
	}
	// The authorities may change while the pod runs. A server without their signature is refused.
	other := httptest.NewUnstartedServer(s)
	other.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t, u.Hostname())}}
	other.StartTLS()
	defer other.Close()
	if c.Server, err = url.Parse(other.URL); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of a server that isn't signed for: %v", err)
	}
	next := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.TLS.Certificates[0].Certificate[0]})
	if err := os.WriteFile(filepath.Join(string(dir), "ca.crt"), next, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Load(t.Context()); err != nil {
		t.Errorf("after the authorities have changed: %v", err)
	}
	// A certificate of the authorities for another host belongs to another server.
	elsewhere := httptest.NewUnstartedServer(s)
	elsewhere.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t, "192.0.2.1")}}
	elsewhere.StartTLS()
	defer elsewhere.Close()
	theirs := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: elsewhere.TLS.Certificates[0].Certificate[0]})
	if err := os.WriteFile(filepath.Join(string(dir), "ca.crt"), theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.Server, err = url.Parse(elsewhere.URL); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("of the certificate of another host: %v", err)
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		env   func(string) string
		want  string
	}{
		{"locks", whole, func(string) string { return "" }, "doesn't run in a pod"},
		{"", whole, getenv, "needs a name"},
		{"locks", map[string]string{}, getenv, "isn't mounted"},
		{"locks", map[string]string{"namespace": "ns", "ca.crt": authority}, getenv, "isn't mounted"},
		{"locks", map[string]string{"namespace": "ns", "token": "x"}, getenv, "isn't mounted"},
		{"locks", map[string]string{"namespace": "ns", "ca.crt": "nothing", "token": "x"}, getenv, "no certificate"},
	} {
		if _, err := inCluster(test.name, account(mount(t, test.files)), test.env); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
