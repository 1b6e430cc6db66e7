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

// storageTimeout bounds one call of the storage where Vault gives no way to stop it. A storage that is slower can't serve Vault either.
const storageTimeout = 10 * time.Second

// tokenDigits is how many digits every token fits. All names have as many, so that they stand in order where somebody looks.
const tokenDigits = 20

// Backend is a [physical.HABackend]. As a [physical.Backend] it passes everything on to the storage, so that a [physical.Factory] can return
// it; but it hides what else the storage may be able to do. So give Vault the storage itself as Physical, and this as HAPhysical.
type Backend struct {
	physical.Backend

	mesh   *lockmesh.Mesh
	prefix string
}

var _ physical.HABackend = (*Backend)(nil)

// Option changes a [Backend].
type Option func(*Backend)

// WithPrefix puts a prefix before the names of Vault's locks, to make keys of the mesh. Default: "vault/". It is the same on all nodes of
// a cluster, and another for another cluster in the same mesh.
func WithPrefix(prefix string) Option { return func(b *Backend) { b.prefix = prefix } }

// New returns a Backend that locks over the mesh and keeps the locks' values in the storage, which all nodes of the cluster share. The
// mesh stays the caller's, who closes it when Vault has shut down.
func New(mesh *lockmesh.Mesh, storage physical.Backend, opts ...Option) *Backend {
	b := &Backend{Backend: storage, mesh: mesh, prefix: "vault/"}
	for _, o := range opts {
		o(b)
	}
	return b
}

// HAEnabled returns true.
func (b *Backend) HAEnabled() bool { return true }

// LockWith returns the lock of that name, not locked yet, with the value that it has while it is held by means of what is returned.
// Entries below the name in the storage belong to it.
func (b *Backend) LockWith(key, value string) (physical.Lock, error) {
	if key == "" || strings.HasSuffix(key, "/") {
		return nil, fmt.Errorf("vaultlock: %q can't name a lock, since entries are stored below it", key)
	}
	return &Lock{backend: b, key: key, value: value}, nil
}

// entry is where the value of a lease is stored.
func entry(key string, token uint64) string { return fmt.Sprintf("%s/%0*d", key, tokenDigits, token) }

// announced returns the tokens under which values of a lock are stored.
func (b *Backend) announced(ctx context.Context, key string) ([]uint64, error) {
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
	// The entry may be deleted between the two calls, when the lock changes hands. That it does so again and again isn't to be expected.
	for range 3 {
		tokens, err := b.announced(ctx, key)
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

// announce stores the value of a lease that was just granted, and clears away those before it.
func (b *Backend) announce(ctx context.Context, key, value string, lease *lockmesh.Lease) error {
	tokens, err := b.announced(ctx, key)
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
	for _, t := range tokens {
		_ = b.Delete(ctx, entry(key, t)) // nobody reads it any more: the next holder may try again
	}
	return nil
}

// held reports whether any node has the lock, or stands in line for it: one that has just been granted the lock looks like that, as long as no voter has
// heard of it. Nothing is taken for that: a lock that was would be kept from all for a TTL if this node died meanwhile.
func (b *Backend) held(ctx context.Context, key string) (bool, error) {
	info, err := b.mesh.Inspect(ctx, b.prefix+key)
	switch {
	case err == nil:
		return len(info.Holders)+len(info.Waiters) > 0, nil
	case ctx.Err() != nil: // sooner than the TTL after which nobody can know for sure
		return false, fmt.Errorf("vaultlock: %w: %w", lockmesh.ErrNoQuorum, err)
	default:
		return false, fmt.Errorf("vaultlock: %w", err)
	}
}
