package admin

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Access returns the rights of this client.
func (c *Client) Access(ctx context.Context) (*Access, error) {
	return get[Access](ctx, c, "/v1/access", nil)
}

// Status returns the node's view of the mesh.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// Members returns the nodes known to gossip, by name.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	m, err := get[Members](ctx, c, "/v1/members", nil)
	if err != nil {
		return nil, err
	}
	return m.Members, nil
}

// Electorate returns the voters as the node sees them.
func (c *Client) Electorate(ctx context.Context) (*Electorate, error) {
	return get[Electorate](ctx, c, "/v1/electorate", nil)
}

// Ready waits until locks can be granted, see [lockmesh.Mesh.Ready], and returns the voters then. A
// wait has up to [MaxReadyWait]; zero asks for the present. The error after the wait is
// [lockmesh.ErrNoQuorum], with the reason. Of a node that drains, the error is
// [lockmesh.ErrClosed]: such a node takes no more locks.
func (c *Client) Ready(ctx context.Context, wait time.Duration) (*Electorate, error) {
	return get[Electorate](ctx, c, "/v1/ready", waitQuery(wait))
}

// Settled is [Client.Ready] for the gate of a rolling restart: the wait until the mesh can do
// without another voter, see [lockmesh.Mesh.Settled].
func (c *Client) Settled(ctx context.Context, wait time.Duration) (*Electorate, error) {
	return get[Electorate](ctx, c, "/v1/settled", waitQuery(wait))
}

// LocksPage returns a page of the keys in use with a prefix: up to limit keys after the key after;
// a limit of zero is 100. See [lockmesh.Mesh.ListPage].
func (c *Client) LocksPage(ctx context.Context, prefix, after string, limit int) (*Locks, error) {
	query := url.Values{}
	for name, value := range map[string]string{"prefix": prefix, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return get[Locks](ctx, c, "/v1/locks", query)
}

// Locks returns an iterator over all keys in use with a prefix, page by page. The iterator ends
// with the first error.
func (c *Client) Locks(ctx context.Context, prefix string) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		for after := ""; ; {
			page, err := c.LocksPage(ctx, prefix, after, 0)
			if err != nil {
				yield(Lock{}, err)
				return
			}
			for _, l := range page.Locks {
				if !yield(l, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// Inspect returns the holders and waiters of a key, see [lockmesh.Mesh.Inspect].
func (c *Client) Inspect(ctx context.Context, key string) (*Lock, error) {
	return get[Lock](ctx, c, keyPath("/v1/locks/", key, ""), nil)
}

// Revoke asks the holders of a key to release the key, see [lockmesh.Mesh.Revoke]. The reason may
// be empty.
func (c *Client) Revoke(ctx context.Context, key, reason string) error {
	return c.call(ctx, http.MethodPost, keyPath("/v1/locks/", key, "/revoke"), nil, RevokeRequest{reason}, nil)
}

// Evict ends a lease against its holder's will, see [lockmesh.Mesh.Evict]. It waits for the end of
// the lease for as long as wait says; zero is 30 s.
func (c *Client) Evict(ctx context.Context, key string, request EvictRequest, wait time.Duration) (*Evicted, error) {
	out := new(Evicted)
	if err := c.call(ctx, http.MethodPost, keyPath("/v1/locks/", key, "/evict"), waitQuery(wait), request, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Drain has the node take no more locks, and waits until the node holds none, see
// [lockmesh.Mesh.Drain], for as long as wait says; zero is a minute.
func (c *Client) Drain(ctx context.Context, wait time.Duration) error {
	return c.call(ctx, http.MethodPost, "/v1/drain", waitQuery(wait), nil, nil)
}

// Stop ends the node, which will be back, see [lockmesh.Mesh.Stop]. The node gives up the
// confirmation of the end after wait; zero is a minute.
func (c *Client) Stop(ctx context.Context, wait time.Duration) error {
	return c.call(ctx, http.MethodPost, "/v1/stop", waitQuery(wait), nil, nil)
}

// Leave ends the node for good, see [lockmesh.Mesh.Leave], which says how long a voter takes. The
// node gives up being voted out shortly before wait is over; zero is a minute.
func (c *Client) Leave(ctx context.Context, wait time.Duration) error {
	return c.call(ctx, http.MethodPost, "/v1/leave", waitQuery(wait), nil, nil)
}

// Recover names new voters when a majority is lost FOR GOOD. Read [lockmesh.Mesh.Recover] first: a
// mistake lets two nodes hold a key. Only a client over the node's own socket may recover. Zero
// wait is a minute.
func (c *Client) Recover(ctx context.Context, wait time.Duration, voters ...string) error {
	return c.call(ctx, http.MethodPost, "/v1/recover", waitQuery(wait), RecoverRequest{voters}, nil)
}
