// Package objectregister keeps the record of a mesh's births in an object with conditional writes,
// such as S3, Azure Blob Storage or Google Cloud Storage have them.
//
//	cfg.Register, err = objectregister.AtURL("https://host/bucket/locks.json", client)
//
// Call objectfence.Probe once for a new storage: some accept conditions and write unconditionally.
// The storage must answer 404 for an object that isn't there: S3 does only if the client may list
// the bucket (s3:ListBucket), and 403 otherwise.
package objectregister

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/lockmesh/lockmesh/fence/objectfence"
	"github.com/lockmesh/lockmesh/internal/registerhttp"
	"github.com/lockmesh/lockmesh/register"
)

// Object is a [register.Register] in an object. Any goroutine may use an Object.
type Object struct {
	store objectfence.Store
	name  string
}

var _ register.Register = (*Object)(nil)

// New returns the register in the object of the given name, which has no other use. The object is
// made when the first mesh is founded.
func New(store objectfence.Store, name string) *Object { return &Object{store, name} }

// AtURL returns the register in the object of a URL, such as https://host/bucket/locks.json, behind
// a server that supports strong ETags, If-Match and If-None-Match. The client sends the requests;
// nil is a client with the transport of http.DefaultTransport, but by HTTP/1.1 and with a
// connection for each request. A client that keeps connections must notice dead ones: requests are
// minutes apart.
func AtURL(text string, client *http.Client) (*Object, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return nil, fmt.Errorf("objectregister: %s is no URL of an object, such as https://host/bucket/locks.json, without a query", shown(u))
	}
	if strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return nil, fmt.Errorf("objectregister: %s has an escaped slash, which servers take for different objects: choose another name", shown(u))
	}
	if client == nil {
		client = registerhttp.Client()
	}
	name := path.Base(u.Path)
	base := *u
	base.Path, base.RawPath = path.Dir(u.Path), ""
	return New(&objectfence.HTTP{Base: &base, Client: client, MaxBytes: maxBytes}, name), nil
}

// shown returns what an error may show of a URL, nil if there is none: no user, no query and no
// fragment, since any may be a secret, such as the signature of a presigned URL.
func shown(u *url.URL) string {
	if u == nil || u.Opaque != "" || u.Host == "" {
		return "the text"
	}
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		s.RawQuery = "..."
	}
	return strconv.Quote(s.String())
}

// maxBytes bounds the object that is read: a record and the line with the token.
const maxBytes = 2 * register.MaxRecord

// token is the token of all writes: births have an order of their own, in the record.
const token = 1

// Load reads the object.
func (o *Object) Load(ctx context.Context) (record []byte, version string, err error) {
	got, err := o.store.Get(ctx, o.name)
	if err != nil {
		return nil, "", fmt.Errorf("objectregister: reading %q: %w", o.name, err)
	}
	return got.Data, string(got.Version), nil
}

// Store writes the object if the object hasn't changed.
func (o *Object) Store(ctx context.Context, record []byte, version string) error {
	err := o.store.Put(ctx, o.name, objectfence.Object{Token: token, Data: record, Version: objectfence.Version(version)})
	switch {
	case errors.Is(err, objectfence.ErrChanged):
		return register.ErrChanged
	case err != nil:
		return fmt.Errorf("objectregister: writing %q: %w", o.name, err)
	}
	return nil
}
