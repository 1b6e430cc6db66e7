package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// keyTable has the keys that a voter remembers. Each key is in byName and in every; while a catalog
// exists, the catalog has the key's name, or a task is about to add the name.
type keyTable struct {
	byName  shrinkingMap[vote.Key, *key]
	every   []*key   // each at its index key.at, to be processed in pieces
	idle    idleKeys // unused keys, roughly in order of their next check
	catalog catalog
}

// find returns the key of a name; nil if the voter doesn't remember the key.
func (t *keyTable) find(name vote.Key) *key { return t.byName.m[name] }

// number returns how many keys the voter remembers.
func (t *keyTable) number() int { return len(t.every) }

// keep registers a new key.
func (t *keyTable) keep(k *key) {
	t.byName.put(k.name, k)
	k.at = uint32(len(t.every))
	t.every = append(t.every, k)
	t.catalog.add(k.name)
}

// lose forgets a key.
func (t *keyTable) lose(k *key) {
	t.byName.take(k.name)
	t.catalog.remove(k.name)
	last := len(t.every) - 1
	moved := t.every[last]
	t.every[k.at], moved.at = moved, k.at
	t.every[last] = nil
	t.every = t.every[:last]
	if c := cap(t.every); c > roomy && last <= c/4 {
		t.every = append(make([]*key, 0, c/2), t.every...)
	}
}

// idleKey is an unused key and the time of its next check.
type idleKey struct {
	key *key
	at  vote.Instant
}

// addIdle has an unused key checked at its instant idleAt, and reports whether no check of the key
// was due yet.
func (t *keyTable) addIdle(k *key) (added bool) {
	if k.listed {
		return false
	}
	k.listed = true
	t.idle.add(idleKey{k, k.idleAt})
	return true
}

// check returns the next unused key whose check is due; nil if there is none.
func (t *keyTable) check(now vote.Instant) *key {
	if t.idle.len() == 0 || t.idle.first().at > now {
		return nil
	}
	k := t.idle.take().key
	k.listed = false
	return k
}

// forgetLater schedules an unused key to be forgotten.
func (l *voteLayer) forgetLater(k *key) {
	k.idleAt = l.now.Slow.Add(vote.Skew)
	if l.keys.addIdle(k) {
		l.at(l.keys.idle.first().at)
	}
}

// advanceIdle forgets the keys that have been unused for long enough; of their tokens only the
// minimum token remains. Unused keys are kept for about vote.Skew (S), so that the clocks have
// passed a token before the minimum token rises to the token, and token hints are usually above the
// minimum token.
func (l *voteLayer) advanceIdle() {
	for !l.exhausted() {
		k := l.keys.check(l.now.Slow)
		if k == nil {
			break
		}
		l.spend(1)
		switch {
		case !k.idleNow():
		case k.idleAt > l.now.Slow: // the key was used in the meantime, and waits again
			l.keys.addIdle(k)
		default:
			l.tokens.raiseMin(k.highest)
			l.keys.lose(k)
			// Reminders may still refer to the key, but with serials that no key will have again.
			l.spares.keys.put(k)
		}
	}
	if l.keys.idle.len() > 0 {
		l.at(l.keys.idle.first().at)
	}
}
