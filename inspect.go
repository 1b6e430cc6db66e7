package lockmesh

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Info is the state of a key as seen by a majority of the voters.
type Info struct {
	Key     string   // as given to Inspect, or as found by List
	Permits int      // of the semaphore; zero if the key isn't used as a semaphore
	Holders []Holder // in order of their tokens
	// Waiters are in the order in which they will get the key, except among nodes with clocks more
	// than a second apart.
	Waiters []Waiter
	// Delayed is how long the key, or a permit, is still kept from all nodes without a holder
	// (WithMinHold, WithDelay); zero if no key or permit is kept so. Of a hold that is kept up by
	// the lease's node, Delayed is too much by no more than the time for which the slowest message
	// about the end of the lease was on its way to a voter.
	Delayed time.Duration
}

// Holder is a lease as other nodes see it.
type Holder struct {
	Node string // the holder's node
	// Token is the token of the lease. After a hand-over to a later caller of the holder's node
	// (see [Mesh.Lock]), Token is the present caller's if the node answers within a tenth of a
	// second, otherwise the first caller's, which is smaller by 31 at most. [Mesh.List] always
	// shows the first caller's. [ModePermit] and [ModeShared] leases, and leases with an option
	// (but [WithWait]) or a value, aren't handed off.
	Token   uint64
	Mode    Mode   // ModeExclusive, ModeShared or ModePermit
	Slot    int    // the number of the permit; zero for other modes
	Value   []byte // a copy, the caller's to change; nil without a value
	Version uint64 // of the value, from 1; zero without a value
	// Since is about when the lease was granted, by this node's clock. Of leases that were passed
	// on among the callers of one node, Since is when the first was granted.
	Since time.Time
	// Unsure says that the request may be granted or not: its node, a voter itself, ended or was
	// cut off before any other voter heard of the outcome. The key is kept for the request in any
	// case, for Left. Token is zero if unknown, and of two exclusive holders at most one has the
	// key.
	Unsure bool
	// Left is how long the lease's voters would still wait if they heard nothing more from its
	// node. For a lease [WithoutRenewal], Left is the time to the lease's end, though the voters
	// may wait for less if its node ends before; and too much by no more than the time for which
	// the slowest message about the lease was on its way to a voter.
	Left time.Duration
}

// Waiter is a request as other nodes see it.
type Waiter struct {
	Node  string // the waiting node
	Mode  Mode   // ModeExclusive, ModeShared or ModePermit
	Try   bool   // by a call of TryLock, TryRLock or TryAcquire, which waits for answers only
	Value []byte // for the lease, if granted; a copy, the caller's to change
	// Since is about when the request arrived, by this node's clock.
	Since time.Time
}

// Inspect returns the holders and waiters of a key, without requesting the key. The answer comes
// from a majority of the voters that count, and includes everything completed before the call of
// Inspect, on any node: a granted lease is shown as held, a released lease isn't shown, and a new
// value is shown. Inspect may or may not show concurrent events. A lease that was handed off
// within its node (see [Mesh.Lock]) is shown with the token of the present caller, which the voters
// ask of that node, and isn't handed off any more.
//
// While the voters' answers leave open who holds the key, the query is repeated, for half a TTL at
// most. The query takes so long if a voter can be reached from this node and not from the node of
// the lease; then the lease may be shown as held although it was released. And the query takes so
// long after the end of a node that voted for its own request and told no other voter of the
// outcome; then the request is shown as a holder, see [Holder.Unsure]. A key out of use is no
// error: there are no holders and no waiters. For decisions use a lock; Inspect is for people and
// for status pages.
//
// Errors: ErrKey; ErrNoQuorum if too few voters answer within a TTL; ErrClosed; ErrBusy; or ctx's
// error.
func (m *Mesh) Inspect(ctx context.Context, key string) (Info, error) {
	m.checkUsable("Mesh.Inspect")
	ctx = guardContext(ctx, "Mesh.Inspect")
	if err := checkKey("inspect", key); err != nil {
		return Info{}, err
	}
	found, err := m.eng.Inspect(ctx, "inspect", vote.Key(key))
	if err != nil {
		return Info{}, err
	}
	return m.info(key, found.Permits, found.Views, found.Unsure), nil
}

// info returns the state of a key from the view entries of the voters; unsure says which of the
// entries may be leases.
func (m *Mesh) info(key string, permits uint16, views []vote.View, unsure []bool) Info {
	info := Info{Key: key, Permits: int(permits)}
	now := time.UnixMicro(int64(m.eng.Clocks().Now().Wall))
	for i := range views {
		s := &views[i]
		open := i < len(unsure) && unsure[i]
		switch {
		case s.State == vote.Holding || open:
			info.Holders = append(info.Holders, Holder{
				Node: string(s.Owner.Node), Token: uint64(s.Token), Mode: Mode(s.Mode), Slot: int(s.Slot),
				// The value is cloned: a voter on this node returns its own copy.
				Value: bytes.Clone(s.Value), Version: s.Version, Unsure: open,
				Since: now.Add(-s.For), Left: s.Left,
			})
		case s.State == vote.Delayed:
			info.Delayed = max(info.Delayed, s.Left)
		default:
			info.Waiters = append(info.Waiters, Waiter{
				Node: string(s.Owner.Node), Mode: Mode(s.Mode), Try: s.Try, Value: bytes.Clone(s.Value), Since: now.Add(-s.For),
			})
		}
	}
	if len(info.Holders) > 0 && info.Holders[0].Mode != ModePermit {
		info.Permits = 0
	}
	return info
}

// Revoke asks the holders of the key to release it, with the reason given by [WithReason], the only
// option accepted; see [Lease.Revoked]. Revoke is a request: the holders decide. Revoke returns nil
// once a majority of the voters has forwarded the request, also if the key has no holder.
//
// Errors: ErrKey; ErrOption; ErrNoQuorum if too few voters answer within a TTL; ErrClosed; ErrBusy;
// or ctx's error.
func (m *Mesh) Revoke(ctx context.Context, key string, opts ...Option) error {
	m.checkUsable("Mesh.Revoke")
	ctx = guardContext(ctx, "Mesh.Revoke")
	if err := checkKey("revoke", key); err != nil {
		return err
	}
	why, err := m.reason("revoke", key, opts)
	if err != nil {
		return err
	}
	return m.eng.Revoke(ctx, vote.Key(key), why)
}

// reason returns the reason given by WithReason, for a call that takes no other option.
func (m *Mesh) reason(op, key string, opts []Option) (string, error) {
	w := newAcquireOptions(key, vote.Exclusive, false, opts)
	if err := w.complete(&m.cfg, m.eng.GrantLimit()); err != nil {
		return "", withOp(err, op)
	}
	if !w.plain() {
		return "", &Error{
			Op: op, Key: key, Reason: ErrOption,
			Text: "the call takes the option WithReason only, since it asks for no lock; its " +
				"context bounds how long it waits",
		}
	}
	return w.Reason, nil
}

// MaxPageKeys is the largest number of keys returned by [Mesh.ListPage]. With values of the
// greatest length, the voters' answers for so many keys are a few megabytes.
const MaxPageKeys = 1000

// Page is a part of the keys in use.
type Page struct {
	Keys []Info // in order of their names
	// Next is the value of the parameter after with which ListPage returns the next page; empty if
	// there are no more keys.
	Next string
}

// ListPage returns the state of keys that begin with prefix: keys that are held, waited for or kept
// from others. [Mesh.Inspect] shows more of a single key. Callers of one node that want the same
// key wait behind a single request of their node: Inspect shows the callers behind this node's
// request, and ListPage shows each node's request only. And ListPage shows a request that may be
// held (see [Holder.Unsure]) as a waiter.
//
// The page has at most limit keys, in the order of their names, from the first name behind after
// on. An empty prefix selects all keys, an empty after selects the first page, and a limit of zero
// means [MaxPageKeys]. A page may have fewer keys, or none, although there are more keys;
// [Page].Next is then not empty. Each key is shown as of some moment, which may differ from key to
// key.
//
// Errors: ErrKey; ErrOption if limit is negative or above MaxPageKeys; ErrNoQuorum if too few
// voters answer within a TTL; ErrClosed; ErrBusy; or ctx's error.
func (m *Mesh) ListPage(ctx context.Context, prefix, after string, limit int) (Page, error) {
	m.checkUsable("Mesh.ListPage")
	ctx = guardContext(ctx, "Mesh.ListPage")
	for _, part := range []string{prefix, after} {
		if part != "" {
			if err := checkKey("list", part); err != nil {
				return Page{}, err
			}
		}
	}
	if limit < 0 || limit > MaxPageKeys {
		return Page{}, &Error{
			Op: "list", Key: prefix, Reason: ErrOption,
			Text: fmt.Sprintf("a page of %d keys; 1 to %d are possible, and 0 means the maximum",
				limit, MaxPageKeys),
		}
	}
	if limit == 0 {
		limit = MaxPageKeys
	}
	found, err := m.eng.Page(ctx, vote.Key(prefix), vote.Key(after), limit)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for views := found.Views; len(views) > 0; {
		key, n, permits := views[0].Key, 0, uint16(0)
		for ; n < len(views) && views[n].Key == key; n++ {
			permits = max(permits, views[n].Permits)
		}
		if len(page.Keys) == limit {
			page.Next = page.Keys[limit-1].Key
			return page, nil
		}
		page.Keys = append(page.Keys, m.info(string(key), permits, views[:n], nil))
		views = views[n:]
	}
	if found.Truncated {
		page.Next = string(found.Last)
	}
	return page, nil
}

// List returns an iterator over all keys that begin with prefix. The iterator calls [Mesh.ListPage]
// as it reaches each page, and ends with the first error. Keys that come into use or go out of use
// meanwhile may or may not be listed; each key in use all the while is listed once.
//
//	for info, err := range mesh.List(ctx, "jobs/") {
func (m *Mesh) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	m.checkUsable("Mesh.List")
	ctx = guardContext(ctx, "Mesh.List")
	return func(yield func(Info, error) bool) {
		after := ""
		for {
			page, err := m.ListPage(ctx, prefix, after, 0)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range page.Keys {
				if !yield(info, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
