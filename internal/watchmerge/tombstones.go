package watchmerge

import "github.com/lockmesh/lockmesh/internal/vote"

// tombstone is one remembered request of a key.
type tombstone struct {
	key vote.Key
	id  requestRef
}

// ring remembers the newest requests.
type ring struct {
	max  int
	set  map[requestRef]bool
	list []tombstone
	next int // the index of the oldest request, once the list is full
}

func (r *ring) has(id requestRef) bool { return r.set[id] }

// put remembers a request that the ring doesn't have. A full ring forgets its oldest request in
// exchange, and put returns that request.
func (r *ring) put(key vote.Key, id requestRef) (old tombstone, ok bool) {
	if r.set == nil {
		r.set = make(map[requestRef]bool)
	}
	r.set[id] = true
	if len(r.list) < r.max {
		r.list = append(r.list, tombstone{key, id})
		return tombstone{}, false
	}
	old, r.list[r.next] = r.list[r.next], tombstone{key, id}
	r.next = (r.next + 1) % r.max
	delete(r.set, old.id)
	return old, true
}

// addTombstone adds a tombstone for a finished lease, and drops the oldest tombstone beyond the
// limit.
func (m *Merger) addTombstone(name vote.Key, p *keyState, id requestRef) {
	p.tombstones++
	if old, ok := m.tombstones.put(name, id); ok {
		if q := m.keys[old.key]; q != nil {
			q.tombstones--
			m.forget(old.key, q)
		}
	}
}

// forget deletes a key without any state.
func (m *Merger) forget(name vote.Key, p *keyState) {
	if len(p.held)+len(p.pending)+len(p.waiting)+p.tombstones == 0 {
		m.doubts.remove(p)
		delete(m.keys, name)
	}
}
