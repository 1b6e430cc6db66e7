// Package objectregister keeps the record of a mesh's births in an object with conditional writes,
// such as S3, Azure Blob Storage or Google Cloud Storage have them.
//
//	store := &objectfence.HTTP{Base: bucket, Client: client}
//	cfg.Register = objectregister.New(store, "locks/mesh.json")
//
// Call objectfence.Probe once for a new storage: some accept conditions and write unconditionally.
// The storage must answer 404 for an object that isn't there: S3 does only if the client may list
// the bucket (s3:ListBucket), and 403 otherwise.
package objectregister

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh/fence/objectfence"
	"github.com/lockmesh/lockmesh/register"
)

// Object is a [register.Register] in an object. It may be used from any goroutine.
type Object struct {
	store objectfence.Store
	name  string
}

var _ register.Register = (*Object)(nil)

// New returns the register in the object of the given name, which has no other use. The object is
// made when the first mesh is founded.
func New(store objectfence.Store, name string) *Object { return &Object{store, name} }

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

// Store writes the object on the condition that it hasn't changed.
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
