package kuberegister

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// accountDir is where Kubernetes mounts the service account into each container of a pod.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the register in the ConfigMap of the given name, in the namespace of the pod in
// which this process runs, as the pod's service account.
func InCluster(name string) (*ConfigMap, error) {
	return inCluster(name, accountDir, os.Getenv)
}

func inCluster(name, dir string, getenv func(string) string) (*ConfigMap, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("kuberegister: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT aren't set: this process doesn't run in a pod")
	}
	if name == "" {
		return nil, errors.New("kuberegister: the ConfigMap needs a name")
	}
	read := func(file string) (string, error) {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return "", fmt.Errorf("the service account isn't mounted (automountServiceAccountToken): %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	namespace, err := read("namespace")
	if err != nil {
		return nil, fmt.Errorf("kuberegister: %w", err)
	}
	authority, err := read("ca.crt")
	if err != nil {
		return nil, fmt.Errorf("kuberegister: %w", err)
	}
	if _, err := read("token"); err != nil {
		return nil, fmt.Errorf("kuberegister: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		return nil, errors.New("kuberegister: the service account's ca.crt has no certificate")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &ConfigMap{
		Server:    &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)},
		Namespace: namespace, Name: name,
		Client: &http.Client{Transport: transport},
		Token:  func() (string, error) { return read("token") },
	}, nil
}
