package vaultlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/vault/sdk/physical"

	"github.com/lockmesh/lockmesh"
)

// storageTimeout bounds a storage call that Vault gives no means to stop. A slower storage can't
// serve Vault anyway.
const storageTimeout = 10 * time.Second

// tokenDigits is the number of digits of the largest token. All names have this many digits, so
// listings show the names in order.
const tokenDigits = 20

// Backend is a [physical.HABackend]. As a [physical.Backend] it forwards all calls to the storage,
// so that a [physical.Factory] can return a Backend; but a Backend hides further capabilities of
// the storage. So give Vault the storage itself as Physical, and the Backend as HAPhysical.
type Backend struct {
	physical.Backend

	mesh     *lockmesh.Mesh
	prefix   string
	patience time.Duration // storageTimeout; shorter in tests
}

var _ physical.HABackend = (*Backend)(nil)

// Option changes a [Backend].
type Option func(*Backend)

// WithPrefix sets the prefix that makes keys of the mesh from the names of Vault's locks. Default:
// "vault/". All nodes of a cluster use the same prefix, and each cluster in a mesh uses its own.
func WithPrefix(prefix string) Option { return func(b *Backend) { b.prefix = prefix } }

// New returns a Backend that locks over the mesh and keeps the locks' values in the storage shared
// by all nodes of the cluster. The caller keeps the ownership of the mesh, and closes the mesh when
// Vault has shut down. New panics if either is nil.
func New(mesh *lockmesh.Mesh, storage physical.Backend, opts ...Option) *Backend {
	if storage == nil {
		panic("vaultlock: New was called with a nil storage")
	}
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, and says what is wrong
	b := &Backend{Backend: storage, mesh: mesh, prefix: "vault/", patience: storageTimeout}
	for _, o := range opts {
		o(b)
	}
	return b
}

// HAEnabled returns true.
func (b *Backend) HAEnabled() bool { return true }

// LockWith returns the lock of a name, not locked yet. The lock has the value while the returned
// [Lock] holds the lock. Storage entries below the name belong to the lock.
func (b *Backend) LockWith(key, value string) (physical.Lock, error) {
	if key == "" || strings.HasSuffix(key, "/") {
		return nil, fmt.Errorf("vaultlock: %q can't name a lock, since entries are stored below it", key)
	}
	return &Lock{backend: b, key: key, value: value}, nil
}

// entry returns the path of a lease's value in the storage.
func entry(key string, token uint64) string { return fmt.Sprintf("%s/%0*d", key, tokenDigits, token) }

// announcedTokens returns the tokens under which values of a lock are stored.
func (b *Backend) announcedTokens(ctx context.Context, key string) ([]uint64, error) {
	names, err := b.List(ctx, key+"/")
	if err != nil {
		return nil, fmt.Errorf("vaultlock: listing the values of %q: %w", key, err)
	}
	var tokens []uint64
	for _, name := range names {
		if len(name) != tokenDigits {
			continue // not ours
		}
		if token, err := strconv.ParseUint(name, 10, 64); err == nil {
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// latest returns the value with the largest token, if there is any.
func (b *Backend) latest(ctx context.Context, key string) (value string, ok bool, err error) {
	// The entry may be deleted between the two calls, when the lock changes hands. Several such
	// changes in a row are unlikely.
	for range 3 {
		tokens, err := b.announcedTokens(ctx, key)
		if err != nil || len(tokens) == 0 {
			return "", false, err
		}
		token := tokens[0]
		for _, t := range tokens {
			token = max(token, t)
		}
		e, err := b.Get(ctx, entry(key, token))
		if err != nil {
			return "", false, fmt.Errorf("vaultlock: reading the value of %q: %w", key, err)
		}
		if e != nil {
			return string(e.Value), true, nil
		}
	}
	return "", false, nil
}

// writeAnnouncement stores the value of a lease just granted, and deletes the earlier values.
func (b *Backend) writeAnnouncement(ctx context.Context, key, value string, lease *lockmesh.Lease) error {
	tokens, err := b.announcedTokens(ctx, key)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t >= lease.Token() {
			return errors.Join(fmt.Errorf("%w: %q has a value with token %d, and the lease has %d", ErrToken, key, t, lease.Token()), lease.Err())
		}
	}
	if err := b.Put(ctx, &physical.Entry{Key: entry(key, lease.Token()), Value: []byte(value)}); err != nil {
		return fmt.Errorf("vaultlock: storing the value of %q: %w", key, err)
	}
	// An error is harmless: the values are obsolete, and the next holder may try again.
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience)
		defer cancel()
		for _, t := range tokens {
			_ = b.Delete(ctx, entry(key, t))
		}
	}()
	return nil
}

// held reports whether any node has the lock, or is queued for the lock: a node that was just
// granted the lock looks queued, as long as no voter knows of the grant. held doesn't try to take
// the lock: if this node died meanwhile, the lock would be kept from all nodes for a TTL.
func (b *Backend) held(ctx context.Context, key string) (bool, error) {
	info, err := b.mesh.Inspect(ctx, b.prefix+key)
	switch {
	case err == nil:
		return len(info.Holders)+len(info.Waiters) > 0, nil
	case ctx.Err() != nil: // ctx ended before the TTL after which Inspect returns ErrNoQuorum
		return false, fmt.Errorf("vaultlock: %w: %w", lockmesh.ErrNoQuorum, err)
	default:
		return false, fmt.Errorf("vaultlock: %w", err)
	}
}
