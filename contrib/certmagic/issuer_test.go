package certmagiclock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"github.com/lockmesh/lockmesh"
	certmagiclock "github.com/lockmesh/lockmesh/contrib/certmagic"
)

// issuer is a certificate authority within the test, shared by all nodes.
type issuer struct {
	key    *ecdsa.PrivateKey
	ca     *x509.Certificate
	during func(name string) // called while a certificate is issued
	asked  func()            // called for each request for renewal information

	mu     sync.Mutex
	issued map[string]int // by name
	serial int64
	stale  bool // issues certificates that need renewal at once
	infos  int  // how often renewal information was given
}

var _ certmagic.RenewalInfoGetter = (*issuer)(nil)

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return &issuer{key: key, ca: ca, issued: map[string]int{}, serial: 1, during: func(string) {}, asked: func() {}}
}

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	name := request.DNSNames[0]
	i.mu.Lock()
	i.issued[name]++
	i.serial++
	serial, stale := i.serial, i.stale
	i.mu.Unlock()
	i.during(name)
	from, to := time.Now().Add(-time.Hour), time.Now().AddDate(0, 3, 0)
	if stale {
		from, to = time.Now().AddDate(0, -3, 0), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: request.DNSNames, NotBefore: from, NotAfter: to,
	}, i.ca, request.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	past := time.Now().Add(-time.Minute)
	info := window(&past)
	return &certmagic.IssuedCertificate{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Metadata:    acme.Certificate{RenewalInfo: &info},
	}, nil
}

// GetRenewalInfo returns a time for the renewal of a certificate; not soon.
func (i *issuer) GetRenewalInfo(context.Context, certmagic.Certificate) (acme.RenewalInfo, error) {
	i.mu.Lock()
	i.infos++
	i.mu.Unlock()
	i.asked()
	later := time.Now().Add(24 * time.Hour)
	return window(&later), nil
}

func window(retry *time.Time) acme.RenewalInfo {
	info := acme.RenewalInfo{UniqueIdentifier: "one.of.ours", RetryAfter: retry, SelectedTime: time.Now().AddDate(0, 2, 0)}
	info.SuggestedWindow.Start, info.SuggestedWindow.End = info.SelectedTime.Add(-time.Hour), info.SelectedTime.Add(time.Hour)
	return info
}

func (i *issuer) count(name string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.issued[name]
}

func (i *issuer) informed() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.infos
}

func (i *issuer) renewsAtOnce(yes bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stale = yes
}

// server is certmagic in one process: its own cache, and its own view of the shared directory.
type server struct {
	*certmagic.Config
	storage *certmagiclock.Storage
}

func newServer(t *testing.T, node *lockmesh.Mesh, dir string, from *issuer, opts ...certmagiclock.Option) server {
	t.Helper()
	s := server{storage: certmagiclock.Wrap(&certmagic.FileStorage{Path: filepath.Clean(dir)}, node, opts...)}
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return s.Config, nil }, Logger: zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	s.Config = certmagic.New(cache, certmagic.Config{
		Storage: s.storage, Issuers: []certmagic.Issuer{from}, OCSP: certmagic.OCSPConfig{DisableStapling: true}, Logger: zap.NewNop(),
	})
	return s
}
