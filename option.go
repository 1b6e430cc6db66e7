package lockmesh

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// MaxReasonLen is the longest reason that WithReason takes, in bytes.
	MaxReasonLen = 256

	// MaxPermits is the largest number of permits of a semaphore.
	MaxPermits = 1024
)

// Option changes a single call that requests a lock.
type Option interface {
	apply(*acquireOptions)
}

type optionFunc func(*acquireOptions)

func (f optionFunc) apply(w *acquireOptions) { f(w) }

// WithTTL gives the lease its own length instead of the node's TTL, from MinTTL to MaxTTL: the
// lease outlives the last message of its node by d. (A node that can send but receives nothing
// continues to send renewals for less than d, and for half a TTL at most.) The lease is still
// renewed until it is unlocked, which costs five messages to each voter within d; see
// [WithoutRenewal].
func WithTTL(d time.Duration) Option {
	return optionFunc(func(w *acquireOptions) { w.ttl, w.ttlSet = d, true })
}

// WithoutRenewal has the lease end by itself when its TTL is over, counted from the grant. The TTL
// is given by WithTTL, or else is the node's TTL. A TTL of up to MaxTTL is over at the holder up to
// 3 % sooner, since the voters' clocks may be faster; [Lease.Deadline] tells the end. Until then
// the lease outlives a crash of its node, and afterwards the key is free without any action. The
// end is ErrLost, as is every end without an Unlock.
//
// Only here may the TTL be longer than MaxTTL. No voter can promise so long a lease, since a
// restarted voter would have to be quiet until then. So the node itself keeps the lease up and ends
// it in time; if the node crashes, the lease ends within the node's own TTL.
func WithoutRenewal() Option { return optionFunc(func(w *acquireOptions) { w.Fixed = true }) }

// WithMinHold keeps the key from all other requests until d has passed since the grant, even if the
// lease is unlocked before. So a job started by many nodes on the hour runs once, however short the
// job is and however much the nodes' clocks differ. Unlock returns without waiting for d,
// once a majority knows of the end as always.
//
// Voters enforce a d of up to three quarters of MaxTTL (less 1 %), whatever happens to the node and
// whichever voters restart or are voted out: the lease is granted once the acknowledgements of a
// majority are recent enough for this. A longer d is enforced by the node until d is over; if the
// node crashes, the hold ends within the node's TTL, but not before those three quarters are over.
// A call that fails because its context ends at the moment of the grant may also keep the key, for
// up to MaxTTL. If the node crashes before it has reported the grant to the voters, they don't know
// when the grant was, and keep the key for d from the end of the node's TTL.
//
// [Lease.Upgrade] doesn't begin the hold anew.
//
// Whatever d is, other nodes see no holder after Unlock has returned: Inspect shows in
// [Info.Delayed] how long the key still rests. A watch tells of the end of the lease, and of
// nothing at the end of d.
func WithMinHold(d time.Duration) Option {
	return optionFunc(func(w *acquireOptions) { w.minHold = d })
}

// WithDelay sets a lock-delay: after a lease has ended without being unlocked, no request gets the
// key for d, so that the holder's messages under way may arrive. After an Unlock the key is free at
// once. (Burrows, "The Chubby lock service for loosely-coupled distributed systems", 2006.)
//
// The TTL and d together must not exceed MaxTTL: a restarted voter has forgotten both and is quiet
// only for MaxTTL. So a node that uses a delay needs a TTL shorter than MaxTTL, or WithTTL.
//
// A failed call may also keep the key from others for d if a voter that voted for the call is
// unreachable: the voter can't know that the call obtained no lease.
func WithDelay(d time.Duration) Option { return optionFunc(func(w *acquireOptions) { w.Delay = d }) }

// WithWait gives up after d, as if ctx had ended then. With zero or less the call doesn't wait
// behind other requests, like TryLock.
func WithWait(d time.Duration) Option {
	return optionFunc(func(w *acquireOptions) { w.wait, w.waitSet = d, true })
}

// WithValue gives the request a value of up to 4 KiB, shown to all nodes by [Mesh.Inspect] and
// [Mesh.Watch]; [Lease.SetValue] changes the value.
func WithValue(value []byte) Option {
	return optionFunc(func(w *acquireOptions) { w.Value = append([]byte{}, value...) })
}

// WithRevoke asks the holders of the key to release it, for as long as this call waits: see
// [Lease.Revoked]. Holders aren't forced.
func WithRevoke() Option { return optionFunc(func(w *acquireOptions) { w.Revoke = true }) }

// WithReason sets the reason shown to the holder, with [WithRevoke], [Mesh.Revoke] and
// [Mesh.Evict]; up to 256 bytes of UTF-8.
func WithReason(reason string) Option {
	return optionFunc(func(o *acquireOptions) { o.Reason = reason })
}

// acquireOptions holds the options of a call before the call is a numbered request.
type acquireOptions struct {
	engine.Request
	ttl     time.Duration
	ttlSet  bool
	minHold time.Duration
	wait    time.Duration
	waitSet bool
}

// newAcquireOptions returns the options of a call.
func newAcquireOptions(key string, mode vote.Mode, try bool, opts []Option) acquireOptions {
	var plain acquireOptions
	plain.Spec = vote.Spec{Key: vote.Key(key), Mode: mode, Try: try}
	if len(opts) == 0 {
		return plain
	}
	w := plain // a copy, since options passed to functions are on the heap
	w.HasOptions = true
	for _, o := range opts {
		if o != nil {
			o.apply(&w)
		}
	}
	return w
}

// plain reports whether no option concerns a lock or the wait for a lock. It may be called before
// complete, or after complete has found no mistake.
func (o *acquireOptions) plain() bool {
	return !o.ttlSet && !o.Fixed && o.TTLByNode == 0 && o.minHold == 0 && o.Delay == 0 && !o.waitSet && o.Value == nil && !o.Revoke
}

// complete checks the options and sets the fields derived from them. All mistakes are reported in
// one error. No voter grants a session or a vote for longer than granted, which is MaxTTL unless
// the voters have decided on less.
func (o *acquireOptions) complete(cfg *Config, granted time.Duration) error {
	if !o.HasOptions {
		return nil
	}
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ttl := cfg.TTL
	if o.ttlSet {
		ttl = o.ttl
	}
	switch {
	case o.ttlSet && ttl < MinTTL:
		complain("WithTTL(%v) is less than %v, the shortest TTL that can be renewed in time", ttl,
			MinTTL)
	case ttl > cfg.MaxTTL && !o.Fixed:
		complain("WithTTL(%v) is more than MaxTTL, %v, beyond which a voter can promise nothing; "+
			"a longer lease needs WithoutRenewal", ttl, cfg.MaxTTL)
	case ttl > granted && o.Fixed:
		// The session keeps the lease up, and the node ends it.
		o.TTLByNode, o.EndsAfter, o.Fixed = ttl, ttl, false
	case o.Fixed && o.minHold > vote.MaxKept(granted):
		// The node must keep the key when the lease is over, so the node ends the lease and
		// continues the request.
		o.TTLByNode, o.EndsAfter, o.Fixed = ttl, ttl, false
		// Also where ttl is the session's: votes without a length of their own end with the
		// session, which was refreshed up to a fifth of the TTL before the grant.
		o.Length = ttl
	case o.Fixed:
		o.Length, o.EndsAfter = ttl, ttl
	case ttl != cfg.TTL:
		o.Length = ttl
	}
	switch {
	case o.minHold < 0:
		complain("WithMinHold(%v) is negative", o.minHold)
	case o.minHold > vote.MaxKept(granted):
		o.MinHoldByNode = o.minHold
	}
	o.MinHold = min(o.minHold, granted)
	if o.Delay < 0 {
		complain("WithDelay(%v) is negative", o.Delay)
	} else if promised := min(ttl, granted); o.Delay > 0 && o.Delay > granted-promised {
		decided := ""
		if granted < cfg.MaxTTL {
			decided = fmt.Sprintf(" by decision of the voters, and %v on this node", cfg.MaxTTL)
		}
		complain("WithDelay(%v) and the TTL of %v are together longer than MaxTTL, %v%s, beyond which a voter can promise nothing; "+
			"shorten one of them, the TTL by WithTTL for example", o.Delay, promised, granted, decided)
	}
	if len(o.Value) > MaxValueLen {
		complain("the value has %d bytes, more than %d", len(o.Value), MaxValueLen)
	}
	if len(o.Reason) > MaxReasonLen || !utf8.ValidString(o.Reason) {
		complain("WithReason takes UTF-8 of at most %d bytes, and this has %d", MaxReasonLen, len(o.Reason))
	}
	if o.waitSet && o.wait <= 0 {
		o.Try = true
	}
	if wrong == nil {
		return nil
	}
	return &Error{Key: string(o.Key), Reason: ErrOption, Text: strings.Join(wrong, "; ")}
}
