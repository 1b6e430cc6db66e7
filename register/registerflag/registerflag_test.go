package registerflag

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/registerserver"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/registertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns the URL of a server.
func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// word returns a function that returns a token.
func word(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

const configMapPath = "/api/v1/namespaces/" + registerserver.Namespace + "/configmaps/locks"

func TestURLsNameRegisters(t *testing.T) {
	sampled.Computes(t)
	for _, test := range []struct {
		name, path string
		server     func() http.Handler
	}{
		{"a ConfigMap", configMapPath, func() http.Handler { return &registerserver.ConfigMaps{Token: "secret"} }},
		{"a ConfigMap behind a proxy", "/cluster/7" + configMapPath, func() http.Handler {
			return http.StripPrefix("/cluster/7", &registerserver.ConfigMaps{Token: "secret"})
		}},
		{"an object", "/bucket/mesh.json", func() http.Handler {
			o := new(registerserver.Object)
			o.SetToken("secret")
			return o
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			registertest.Run(t, func(t *testing.T) func() register.Register {
				text := serve(t, test.server()) + test.path
				return func() register.Register {
					r, err := Parse(text, word("secret"))
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
			})
			for _, token := range []func() (string, error){nil, word("guess"), func() (string, error) { return "", errors.New("no file") }} {
				r, err := Parse(serve(t, test.server())+test.path, token)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := r.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "401") && !strings.Contains(err.Error(), "no file") {
					t.Errorf("without the token: %v", err)
				}
			}
		})
	}
}

// A server may redirect the requests, and the other host must not get the token.
func TestARedirectToAnotherHostGetsNoToken(t *testing.T) {
	got := make(chan string, 1)
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/elsewhere", http.StatusTemporaryRedirect)
	}))
	for _, path := range []string{"/bucket/mesh.json", configMapPath} {
		r, err := Parse(first+path, word("secret"))
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = r.Load(t.Context()) // the outcome doesn't matter
		if token := <-got; token != "" {
			t.Errorf("%s: the other host gets %q", path, token)
		}
	}
}

func TestErrorsSayWhatATextMayBe(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for text, want := range map[string]string{
		"":                       `"" is no register: name a ConfigMap by configmap:NAME`,
		"locks":                  "or an object by its URL, such as https://host/bucket/mesh.json",
		"ftp://host/x":           "is no register",
		"http:///x":              "is no register",
		"%":                      "is no register",
		"configmap:":             "configmap:: kuberegister: KUBERNETES_SERVICE_HOST",
		"configmap:x":            "this process doesn't run in a pod",
		"http://host":            "is no URL of an object",
		"http://host/bucket/":    "is no URL of an object",
		"http://u:pass@host/x":   "use a bearer token instead",
		"http://host/x?key=val":  "is no URL of an object",
		"http://host/a%2Fb.json": "has an escaped slash",
		"https://host/api/v1/namespaces/ns/configmaps":      "but of no ConfigMap",
		"https://host/api/v1/namespaces/ns/configmaps/":     "but of no ConfigMap",
		"https://host/api/v1/namespaces/ns/configmaps/x?y":  "has a query",
		"https://host/x/api/v1/namespaces/ns/secrets/locks": "but of no ConfigMap",
	} {
		_, err := Parse(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A text that is meant for something else, or is a URL with a password, must not end in the log
// with the password.
func TestErrorsShowNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://locks:hunter2@db/locks":                                  `"postgres://...@db/locks" is no register`,
		"postgres://locks@db/locks?password=hunter2":                         `"postgres://...@db/locks?..." is no register`,
		"s3://KEY:hunter2@bucket/x":                                          `"s3://...@bucket/x" is no register`,
		"locks:hunter2@tcp(db:3306)/locks":                                   "is no register",
		"locks:hunter2@db/locks":                                             "is no register",
		"host=db user=locks password=hunter2":                                "is no register",
		"https://locks:hunter2%@host/x":                                      "is no register",
		"https://hunter2:@host/mesh.json":                                    `"https://...@host/mesh.json" has a user`,
		"https://acc.blob.core.windows.net/c/mesh.json?sv=2024&sig=hunter2":  `"https://acc.blob.core.windows.net/c/mesh.json?..." is no URL of an object`,
		"https://locks.s3.amazonaws.com/mesh.json?X-Amz-Credential=hunter2#": "without a query",
	} {
		_, err := Parse(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
