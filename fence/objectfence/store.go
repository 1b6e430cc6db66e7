package objectfence

import (
	"context"
	"errors"
)

// Version identifies a state of an object, such as an ETag or a generation. Two states with
// different tokens or contents have different versions. The empty version means that there is no
// object.
type Version string

// Object is a stored object.
type Object struct {
	// Token is the token of the object's last write; 0 if it was written without a token.
	Token uint64
	// Data is the content. The receiver of an Object may modify Data.
	Data []byte
	// Version is the state that was read; empty if there is no object, in which case Token and Data
	// are empty, too.
	Version Version
}

// ErrChanged is the error of [Store.Put] when the object isn't in the expected version. Nothing was
// written.
var ErrChanged = errors.New("objectfence: the object has changed")

// Store is object storage with conditional writes. A Store is used from several goroutines.
//
// The token belongs in the object's metadata if each write yields a new version, as with the
// generations of Google Cloud Storage and the ETags of Azure. If the version is a hash of the
// content alone, the token belongs in the content: see [Encode].
type Store interface {
	// Get returns the object of the given name, with its token and version in the same state. A
	// missing object is the zero Object, without an error. The result was current during the call:
	// no cache may answer.
	Get(ctx context.Context, name string) (Object, error)
	// Put replaces content and token, in one step, if the object is in version o.Version at this
	// moment; an empty o.Version requires that there is no object. Otherwise the error is
	// ErrChanged. After any other error the object may or may not have been written. Put doesn't
	// retain o.Data after returning.
	Put(ctx context.Context, name string, o Object) error
}
