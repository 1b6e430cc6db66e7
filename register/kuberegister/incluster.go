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

// account reads the files of a service account, for each use: Kubernetes replaces the files from
// time to time.
type account string

func (a account) read(file string) (string, error) {
	data, err := os.ReadFile(filepath.Join(string(a), file))
	if err != nil {
		return "", fmt.Errorf("the service account isn't mounted (automountServiceAccountToken): %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// authorities returns the certificates that sign the API server's certificate.
func (a account) authorities() (*x509.CertPool, error) {
	text, err := a.read("ca.crt")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, errors.New("the service account's ca.crt has no certificate")
	}
	return pool, nil
}

// verify checks that the certificate of a connection is for a host, by its name or address. (A
// connection to an address has no server name.)
func (a account) verify(host string, c tls.ConnectionState) error {
	roots, err := a.authorities()
	if err != nil {
		return fmt.Errorf("kuberegister: %w", err)
	}
	opts := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, cert := range c.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err = c.PeerCertificates[0].Verify(opts)
	return err
}

// InCluster returns the register in the ConfigMap of the given name, in the namespace of the pod in
// which this process runs, as the pod's service account.
func InCluster(name string) (*ConfigMap, error) {
	return inCluster(name, accountDir, os.Getenv)
}

func inCluster(name string, a account, getenv func(string) string) (*ConfigMap, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("kuberegister: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT aren't set: this process doesn't run in a pod")
	}
	if name == "" {
		return nil, errors.New("kuberegister: the ConfigMap needs a name")
	}
	namespace, err := a.read("namespace")
	if err == nil {
		_, err = a.read("token")
	}
	if err == nil {
		_, err = a.authorities()
	}
	if err != nil {
		return nil, fmt.Errorf("kuberegister: %w", err)
	}
	// A connection for each request, by HTTP/1.1, for the reason given at registerhttp.Transport.
	transport := &http.Transport{
		// The certificate is verified by VerifyConnection, against the authorities of the day.
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error { return a.verify(host, c) },
		},
		DisableKeepAlives: true,
	}
	return &ConfigMap{
		Server:    &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)},
		Namespace: namespace, Name: name,
		Client: &http.Client{Transport: transport},
		Token:  func() (string, error) { return a.read("token") },
	}, nil
}
