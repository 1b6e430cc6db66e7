package objectfence

import (
	"context"
	"errors"
)

// Version names one state of an object, such as an ETag or a generation. Two states that differ in token or content have different
// versions. The empty version means that there is no object.
type Version string

// Object is a stored object.
type Object struct {
	// Token is the token that has written it; 0 if it was written without.
	Token uint64
	// Data is the content. Whoever receives it may change it.
	Data []byte
	// Version is the state that was read; empty if there is no object, and then the others are, too.
	Version Version
}

// ErrChanged is what [Store.Put] returns when the object isn't in the version that was asked for. Nothing was written.
var ErrChanged = errors.New("objectfence: the object has changed")

// Store is object storage with conditional writes. It is used from several goroutines.
//
// The token belongs into the object's metadata if each write gives a new version, as with the generations of Google Cloud Storage and the
// ETags of Azure. If the version is a hash of the content alone, it belongs into the content: see [Encode].
type Store interface {
	// Get returns the object of that name with its token and version, which belong together. One that isn't there is the zero Object, and no error.
	// What it returns was current during the call: no cache may answer.
	Get(ctx context.Context, name string) (Object, error)
	// Put replaces content and token, in one step, if the object is in version o.Version when it does; with an empty one, if there
	// is no object. Otherwise the error is ErrChanged. Any other error leaves open whether it was written. It keeps o.Data no longer
	// than it runs.
	Put(ctx context.Context, name string, o Object) error
}
