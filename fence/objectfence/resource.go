package objectfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh/fence"
)

// maxAttempts is the largest number of attempts of one write while other writes come first. Each
// failed attempt means that another write has succeeded, and holders of older tokens are shut out
// once a newer token has been accepted, so only concurrent writes to the same object by goroutines
// of one holder come near the limit.
const maxAttempts = 64

// Change computes an object's new content from its present content, which is empty if there is no
// object. A Change may be called several times for one write, and may modify and return its
// argument. If a Change returns an error, nothing is written.
type Change func(data []byte) ([]byte, error)

// Resource is one object. A Resource may be used from any goroutine.
type Resource struct {
	store Store
	name  string
}

var _ fence.Resource[Change] = (*Resource)(nil)

// New returns the object of the given name, without checking whether the object exists. New panics
// if store is nil.
func New(store Store, name string) *Resource {
	if store == nil {
		panic("objectfence: New was called with a nil Store")
	}
	return &Resource{store, name}
}

// Get returns the object, with the token of its newest write; the zero Object if there is no
// object.
func (r *Resource) Get(ctx context.Context) (Object, error) {
	if err := fence.ValidateName(r.name); err != nil {
		return Object{}, err
	}
	o, err := r.store.Get(ctx, r.name)
	if err != nil {
		return Object{}, fmt.Errorf("objectfence: reading %q: %w", r.name, err)
	}
	return o, nil
}

// Put replaces the content, unless a newer token has written the object. Put is Do with a fixed
// content.
func (r *Resource) Put(ctx context.Context, token uint64, data []byte) error {
	return r.Do(ctx, token, func([]byte) ([]byte, error) { return data, nil })
}

// Do replaces the content by the result of change, unless a newer token has written the object. The
// content passed to change is always the very content replaced. A change that returns its argument
// only records the token, and so shuts out older holders.
//
// A refusal is a [fence.StaleError], [fence.ErrToken] or [fence.ErrResource]. An error of change is
// returned unchanged. The error is [ErrChanged] if other writes came first at every attempt. After
// any other error the object may or may not have been written. A retry with the same token is
// allowed then, so change should recognize its own earlier effect; the same applies to a storage
// client that resends requests by itself.
func (r *Resource) Do(ctx context.Context, token uint64, change Change) error {
	if err := fence.Validate(token); err != nil {
		return err
	}
	for range maxAttempts {
		o, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if token < o.Token {
			return &fence.StaleError{Resource: r.name, Token: token, Newest: o.Token}
		}
		if o.Data, err = change(o.Data); err != nil {
			return err
		}
		o.Token = token
		err = r.store.Put(ctx, r.name, o)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrChanged):
			return fmt.Errorf("objectfence: writing %q: %w", r.name, err)
		}
	}
	return fmt.Errorf("objectfence: writing %q: others were faster %d times: %w", r.name, maxAttempts, ErrChanged)
}
