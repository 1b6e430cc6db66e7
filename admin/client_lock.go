package admin

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh"
)

// LockOptions describe a request for a lock by [Client.Lock] or [Client.Hold]. The zero value takes
// a free lock exclusively, without a wait.
type LockOptions struct {
	// TTL is the length of the lease. Zero means the longest length allowed by the handler; for
	// Hold, the node's own TTL.
	TTL time.Duration
	// Wait is how long to wait behind others, up to [MaxWait]. Zero doesn't wait.
	Wait time.Duration
	// Mode is ModeExclusive, ModeShared or ModePermit; zero means ModeExclusive, or ModePermit if
	// Permits is set.
	Mode lockmesh.Mode
	// Permits is the number of permits of a semaphore, the same for all users of the key.
	Permits int
	// Value is shown to others with the lease, up to [lockmesh.MaxValueLen] bytes.
	Value []byte
	// MinHold keeps the key from all others until so long after the grant: [lockmesh.WithMinHold].
	MinHold time.Duration
	// Delay keeps the key from all others after a loss: [lockmesh.WithDelay].
	Delay time.Duration
	// Revoke asks the holders to release the key, with Reason: [lockmesh.WithRevoke].
	Revoke bool
	// Reason is shown to the holders, with Revoke; up to [lockmesh.MaxReasonLen] bytes.
	Reason string
}

func (o *LockOptions) query() url.Values {
	query := url.Values{}
	for name, d := range map[string]time.Duration{"ttl": o.TTL, "wait": o.Wait, "min_hold": o.MinHold, "delay": o.Delay} {
		if d != 0 {
			query.Set(name, d.String())
		}
	}
	if o.Mode != 0 {
		query.Set("mode", o.Mode.String())
	}
	if o.Permits != 0 {
		query.Set("permits", strconv.Itoa(o.Permits))
	}
	if len(o.Value) > 0 {
		query.Set("value_base64", base64.URLEncoding.EncodeToString(o.Value))
	}
	if o.Revoke {
		query.Set("revoke", o.Reason)
	}
	return query
}

// Lock takes a lock. Without an extension the lock ends by itself when the TTL is over. If the
// answer is lost, so is the lease's id, and the key is free when the TTL is over.
//
// Errors: [lockmesh.ErrHeld] with the state of the key in [Error].Lock; the errors of
// [lockmesh.Mesh.Lock]; [ErrLimit]; [ErrForbidden] if the handler serves no locks.
func (c *Client) Lock(ctx context.Context, key string, o LockOptions) (*Lease, error) {
	return c.lease(ctx, http.MethodPut, keyPath("/v1/locks/", key, ""), o.query())
}

// Lease returns the state of a lease. Errors: [lockmesh.ErrLost], [lockmesh.ErrReleased] or
// [ErrUnknownLease] after the end of the lease.
func (c *Client) Lease(ctx context.Context, id string) (*Lease, error) {
	return c.lease(ctx, http.MethodGet, leasePath(id, ""), nil)
}

// Extend has a lease end ttl from now, or at its present end if later; zero is the ttl of before. A
// ttl longer than that of the grant is an [ErrRequest]: after a crash of the node the voters would
// give the key to the next holder before the lease's end. The errors are as for [Client.Lease], and
// [lockmesh.ErrNoQuorum]: then the lease may last longer or not.
func (c *Client) Extend(ctx context.Context, id string, ttl time.Duration) (*Lease, error) {
	query := url.Values{}
	if ttl != 0 {
		query.Set("ttl", ttl.String())
	}
	return c.lease(ctx, http.MethodPost, leasePath(id, "/extend"), query)
}

// Unlock releases a lease. The errors are as for [lockmesh.Lease.Unlock], and [ErrUnknownLease].
func (c *Client) Unlock(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, leasePath(id, ""), nil, nil, nil)
}

func leasePath(id, after string) string { return "/v1/leases/" + url.PathEscape(id) + after }

func (c *Client) lease(ctx context.Context, method, path string, query url.Values) (*Lease, error) {
	out := new(Lease)
	if err := c.call(ctx, method, path, query, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}
