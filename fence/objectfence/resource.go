package objectfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh/fence"
)

// attempts is how often a write looks again after another was faster. Each time somebody else's write has succeeded, and holders of
// older tokens are out once a newer one has been accepted, so only goroutines of one holder that write the same object at once
// come near it.
const attempts = 64

// Change makes an object's new content of its present one, which is empty if there is no object. It may be called several times
// for one write, and may change and return what it is given. If it returns an error, nothing is written.
type Change func(data []byte) ([]byte, error)

// Resource is one object. It may be used from any goroutine.
type Resource struct {
	store Store
	name  string
}

var _ fence.Resource[Change] = (*Resource)(nil)

// New returns the object of that name. It doesn't look whether there is one.
func New(store Store, name string) *Resource { return &Resource{store, name} }

// Get returns the object, with the newest token that has written it; the zero Object if there is none.
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

// Put replaces the content, unless a newer token has written the object. It is Do with that content.
func (r *Resource) Put(ctx context.Context, token uint64, data []byte) error {
	return r.Do(ctx, token, func([]byte) ([]byte, error) { return data, nil })
}

// Do replaces the content by what change makes of it, unless a newer token has written the object. change has always seen the very
// content that is replaced. A change that returns what it is given takes note of the token, and so shuts out older holders.
//
// A refusal is a [fence.StaleError], [fence.ErrToken] or [fence.ErrResource]. Change's own error is returned as it is. It is
// [ErrChanged] if others were faster every time. After any other error the object may have been written or not. Trying
// again by the same token is allowed then, so let change find what it has done before; the same goes for a storage client that sends
// requests again by itself.
func (r *Resource) Do(ctx context.Context, token uint64, change Change) error {
	if err := fence.Validate(token); err != nil {
		return err
	}
	for range attempts {
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
	return fmt.Errorf("objectfence: writing %q: others were faster %d times: %w", r.name, attempts, ErrChanged)
}
