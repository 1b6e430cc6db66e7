package lease

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A node hands an exclusive lease off among its own callers without a message to the voters, so no
// watch would be notified of these leases. A holder that knows of a request waiting at some voter
// doesn't hand off, and sends each request to the voters. A watched key is treated as a key for
// which such a request waits: the promise says so, and the voter notifies the holder when a watch
// of the key begins. When a watch of a prefix begins, the voter doesn't look for the holders of
// keys with this prefix: each lease is handed off until its token block is used up, at most 31
// times.

// watched records which keys and prefixes are watched. A watch is noted each time it asks and each
// time it is answered, and counts as watching for a maximum TTL after that: a round trip passes
// between an answer and the next question of the same watch.
type watched struct {
	of      map[interest]watching
	lengths map[int]int // how many prefixes of each length are in of
	sweepAt vote.Instant
}

// watching is how long an interest counts, and from where on.
type watching struct {
	until vote.Instant
	// since is the number of an event: of the interest's events after it, all are remembered or
	// lost (see remembered).
	since uint64
}

// note makes the interest of a watch count for the duration most from now, and reports whether the
// interest didn't count before. Of the interest's events after event number since, all are
// remembered.
func (w *watched) note(what interest, now vote.Instant, most time.Duration, since uint64) (begins bool) {
	if w.of == nil {
		w.of, w.lengths = make(map[interest]watching), make(map[int]int)
	}
	if now >= w.sweepAt {
		w.sweepAt = now.Add(most)
		maps.DeleteFunc(w.of, func(what interest, is watching) bool {
			if is.until <= now && what.prefix {
				if w.lengths[len(what.key)]--; w.lengths[len(what.key)] == 0 {
					delete(w.lengths, len(what.key))
				}
			}
			return is.until <= now
		})
	}
	was, known := w.of[what]
	if !known && len(w.of) >= watchersMax {
		// Further watches ask again from time to time, and receive only part of the events.
		return false
	}
	if !known && what.prefix {
		w.lengths[len(what.key)]++
	}
	if begins = was.until <= now; !begins {
		since = min(since, was.since)
	}
	w.of[what] = watching{now.Add(most), since}
	return begins
}

// since returns the number of an event after which all events of an interest are remembered.
func (w *watched) since(what interest, now vote.Instant) uint64 {
	if is := w.of[what]; is.until > now {
		return is.since
	}
	return math.MaxUint64
}

// has reports whether a key was watched within the last maximum TTL.
func (w *watched) has(k vote.Key, now vote.Instant) bool {
	if w.of[interest{key: k}].until > now {
		return true
	}
	for n := range w.lengths {
		if n <= len(k) && w.of[interest{k[:n], true}].until > now {
			return true
		}
	}
	return false
}

// waits reports whether a watch waits for events of a key.
func (w *watchers) waits(k vote.Key) bool {
	if w.of[interest{key: k}] != nil {
		return true
	}
	for n := range w.lengths {
		if n <= len(k) && w.of[interest{k[:n], true}] != nil {
			return true
		}
	}
	return false
}

// isWatched reports whether watches must be notified of each lease of a key.
func (l *voteLayer) isWatched(k vote.Key) bool {
	n := &l.news
	if n.on {
		l.spend((len(n.watched.lengths) + len(n.watchers.lengths)) / scanned)
	}
	return n.on && (n.watched.has(k, l.now.Slow) || n.watchers.waits(k))
}

// watches notes the watch of a node. When a key begins to be watched, watches tells the owner of
// the exclusive vote for the key.
func (l *voteLayer) watches(what interest, by vote.NodeID) {
	if !l.news.watched.note(what, l.now.Slow, l.cfg.MaxTTL, l.news.forgotten()) || what.prefix {
		return
	}
	k := l.keys.find(what.key)
	if k == nil {
		return
	}
	for _, f := range slices.Clone(k.votes.all()) {
		if f.mode == vote.Exclusive && !f.residual && f.asked < askedContended && f.s.isReachable() {
			f.asked = askedContended
			l.push(f.s, vote.KindContended, f.number).Who = by
		}
	}
}
