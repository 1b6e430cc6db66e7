package lockmesh

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	// MaxValueLen is the longest value of a lease in bytes. Every voter keeps it in memory: it is for an address or a few words.
	MaxValueLen = vote.MaxValueLen

	// MaxWhyLen is the longest reason in bytes that WithWhy takes.
	MaxWhyLen = vote.MaxTextLen

	// MaxPermits is the largest number of permits of a semaphore.
	MaxPermits = vote.MaxPermits
)

// Option changes one call that asks for a lock.
type Option interface {
	apply(*wish)
}

type optionFunc func(*wish)

func (f optionFunc) apply(w *wish) { f(w) }

// WithTTL gives the lease a length of its own instead of the node's TTL, from MinTTL to MaxTTL: for so long it outlives its node's last word. It is
// renewed all the same, at the cost of a message to each voter five times in that time, until it is unlocked; see [WithoutRenewal].
func WithTTL(d time.Duration) Option {
	return optionFunc(func(w *wish) { w.ttl, w.ttlSet = d, true })
}

// WithoutRenewal has the lease end by itself when its TTL is over (WithTTL's, or else the node's), counted from when it was granted. Until then it outlives the
// death of its node, and is free afterwards without anybody's doing. Its end is ErrLost, as every end is that isn't an Unlock.
//
// A TTL longer than MaxTTL is allowed here only. No voter can promise anything for so long, since one that restarts must be quiet until then; so the
// node itself keeps the lease up and ends it in time, and if it dies the lease ends within the node's own TTL.
func WithoutRenewal() Option { return optionFunc(func(w *wish) { w.Fixed = true }) }

// WithMinHold keeps the key from everyone until d has passed since the lease was granted, even if it is unlocked before: so that a job that many nodes
// start on the hour runs once, however short it is and however their clocks differ. Unlock returns without waiting for it.
//
// Voters promise it up to MaxTTL, whatever becomes of the node. Beyond that the node keeps it up, and if that dies the promise ends within
// its TTL. A call that fails since its context ends as it is granted may keep the key for up to MaxTTL, too.
func WithMinHold(d time.Duration) Option { return optionFunc(func(w *wish) { w.minHold = d }) }

// WithDelay is a lock-delay: after the lease has ended without being unlocked nobody gets the key for d, so that what the holder had under way may
// arrive. After an Unlock the key is free at once. (Burrows, "The Chubby lock service for loosely-coupled distributed systems", 2006.)
//
// The TTL and d together must not be longer than MaxTTL: a restarted voter has forgotten both and is quiet for MaxTTL only. So a node that wants
// a delay has a TTL shorter than MaxTTL, or asks with WithTTL.
//
// A call that fails while a voter that had voted for it is out of reach may keep the key from others for d, too: that voter can't know that it was no lease.
func WithDelay(d time.Duration) Option { return optionFunc(func(w *wish) { w.Delay = d }) }

// WithWait gives up after d, as if ctx had ended then; zero or less doesn't wait behind others, as TryLock.
func WithWait(d time.Duration) Option {
	return optionFunc(func(w *wish) { w.wait, w.waitSet = d, true })
}

// WithValue gives the request a value of up to 4 KiB, which [Mesh.Inspect] and [Mesh.Watch] show to everyone; [Lease.SetValue] changes it.
func WithValue(value []byte) Option {
	return optionFunc(func(w *wish) { w.Value = append([]byte{}, value...) })
}

// WithRevoke has whoever holds the key asked to give it back, for as long as this call waits: see [Lease.Revoked]. It is a wish, and nobody is forced.
func WithRevoke() Option { return optionFunc(func(w *wish) { w.Urge = true }) }

// WithWhy is the reason that the holder is told, with [WithRevoke] and with [Mesh.Revoke]; up to 256 bytes of UTF-8.
func WithWhy(why string) Option { return optionFunc(func(w *wish) { w.Why = why }) }

// wish is what one call asks for, before it is a request with a number.
type wish struct {
	quorum.Ask
	ttl     time.Duration
	ttlSet  bool
	minHold time.Duration
	wait    time.Duration
	waitSet bool

	optional bool // there are options

	ends   time.Duration // how long after its grant the node ends the lease; zero for never
	lasts  time.Duration // how long after its grant the node keeps the key from others even if the lease is given back
	raises *Lease        // the lease that an upgrade is for
}

// newWish makes a wish of a call's arguments.
func newWish(key string, mode vote.Mode, try bool, opts []Option) wish {
	plain := wish{Ask: quorum.Ask{Wish: vote.Wish{Key: vote.Key(key), Mode: mode, Try: try}}}
	if len(opts) == 0 {
		return plain
	}
	w := plain // what is handed to options is on the heap
	w.optional = true
	for _, o := range opts {
		if o != nil {
			o.apply(&w)
		}
	}
	return w
}

// plain reports whether the options say nothing about a lock or the wait for it. The wish isn't complete yet, or has no mistakes.
func (w *wish) plain() bool {
	return !w.ttlSet && !w.Fixed && w.ends == 0 && w.minHold == 0 && w.Delay == 0 && !w.waitSet && w.Value == nil && !w.Urge
}

// complete checks the options, and fills in what follows from them. All that is wrong is said at once.
func (w *wish) complete(cfg *Config) error {
	if !w.optional {
		return nil
	}
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ttl := cfg.TTL
	if w.ttlSet {
		ttl = w.ttl
	}
	switch {
	case w.ttlSet && ttl < MinTTL:
		complain("WithTTL(%v) is less than %v, the least that can be kept up", ttl, MinTTL)
	case ttl > cfg.MaxTTL && !w.Fixed:
		complain("WithTTL(%v) is more than MaxTTL, %v, beyond which a voter can promise nothing; it takes WithoutRenewal", ttl, cfg.MaxTTL)
	case ttl > cfg.MaxTTL: // the session keeps it up, and the node ends it
		w.ends, w.Fixed = ttl, false
	case w.Fixed && w.minHold > cfg.MaxTTL: // the key is to be kept by the node when the lease is over, so the node ends it and goes on with the request
		w.ends, w.Fixed = ttl, false
		if ttl != cfg.TTL {
			w.Length = ttl
		}
	case w.Fixed || ttl != cfg.TTL:
		w.Length = ttl
	}
	switch {
	case w.minHold < 0:
		complain("WithMinHold(%v) is negative", w.minHold)
	case w.minHold > cfg.MaxTTL:
		w.lasts = w.minHold
	}
	w.MinHold = min(w.minHold, cfg.MaxTTL)
	if w.Delay < 0 {
		complain("WithDelay(%v) is negative", w.Delay)
	} else if promised := min(ttl, cfg.MaxTTL); w.Delay > 0 && w.Delay > cfg.MaxTTL-promised {
		complain("WithDelay(%v) and the TTL of %v are together longer than MaxTTL, %v, beyond which a voter can promise nothing; "+
			"shorten one of them, the TTL by WithTTL for example", w.Delay, promised, cfg.MaxTTL)
	}
	if len(w.Value) > MaxValueLen {
		complain("the value has %d bytes, more than %d", len(w.Value), MaxValueLen)
	}
	if len(w.Why) > MaxWhyLen || !utf8.ValidString(w.Why) {
		complain("WithWhy takes UTF-8 of at most %d bytes, and this has %d", MaxWhyLen, len(w.Why))
	}
	if w.waitSet && w.wait <= 0 {
		w.Try = true
	}
	if wrong == nil {
		return nil
	}
	return &Error{Key: string(w.Key), Reason: ErrOption, Text: strings.Join(wrong, "; ")}
}
