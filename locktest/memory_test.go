package locktest

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// memory is a lock service in memory that keeps every promise, unless a fault is set: a server,
// sessions with a TTL renewed by the clients, and a network with a small delay.
type memory struct {
	ttl   time.Duration
	fault string

	mu         sync.Mutex
	keys       map[string]*memoryKey
	sessions   int
	clients    []*memoryClient
	down       map[string]bool // while the server is stopped: the keys requested by clients
	grants     int
	token      uint64
	attempts   map[string]int
	releasedAt map[string]time.Time // when a key was last released
	watches    map[string][]chan Change
	changes    int
}

var (
	errHeld     = errors.New("somebody else has the key")
	errReleased = errors.New("the lock was unlocked before")
	errLost     = errors.New("the lock was lost")
	errStopped  = errors.New("the client has ended")
	errKey      = errors.New("this can't be a key")
	errPermits  = errors.New("this can't be the number of permits")
	errFull     = errors.New("there are too many keys")
)

// memoryLag is the delay of a grant.
const memoryLag = 200 * time.Microsecond

type memoryKey struct {
	name    string
	holders []*memoryRequest
	queue   []*memoryRequest
}

// memoryRequest is a request for a key, waiting or granted. The server's mutex guards the fields.
type memoryRequest struct {
	c           *memoryClient
	name        string
	permits     int // 0 for a reader, 1 for a writer or a holder of the only permit
	try         bool
	value       []byte
	valueAt     time.Time // when the value was written; valueBefore is the previous value
	valueBefore []byte
	token       uint64
	granted     chan struct{} // closed when the grant has reached the client
	forgotten   chan struct{} // closed when the server has forgotten the request
	ended       bool          // released or forgotten
}

func newMemory(ttl time.Duration, fault string) *memory {
	return &memory{ttl: ttl, fault: fault, keys: map[string]*memoryKey{}, attempts: map[string]int{}, releasedAt: map[string]time.Time{}, watches: map[string][]chan Change{}}
}

func (m *memory) has(fault string) bool { return m.fault == fault }

// rename returns the name under which a key is kept, or the reason of a refusal.
func (m *memory) rename(key string) (string, error) {
	if key == "" && !m.has("the empty key is a key") {
		return "", fmt.Errorf("%w: it is empty", errKey)
	}
	switch {
	case m.has("keys are ASCII") && strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII }):
		return "", errKey
	case m.has("some keys panic") && strings.Contains(key, "%s"):
		panic("%s")
	case m.has("one lock for all keys"):
		return "all", nil
	case m.has("keys are folded"):
		return strings.ToLower(key), nil
	case m.has("keys are paths"):
		return path.Clean(key), nil
	case m.has("long keys are cut"):
		return key[:min(len(key), 1000)], nil
	}
	return key, nil
}

// key returns the state of a key; mu is held.
func (m *memory) key(name string) *memoryKey {
	if m.keys[name] == nil {
		m.keys[name] = &memoryKey{name: name}
	}
	return m.keys[name]
}

// compatible reports whether a request may hold a key beside the present holders; mu is held.
func (m *memory) compatible(k *memoryKey, r *memoryRequest) bool {
	if m.has("a key is held with all below it") && slices.ContainsFunc(keysOf(m), func(o *memoryKey) bool {
		return len(o.holders) > 0 && strings.HasPrefix(o.name, k.name+"/")
	}) {
		return false
	}
	n := len(k.holders)
	if n == 0 {
		return true
	}
	h := k.holders[0]
	if r.permits == 1 && h.permits == 1 {
		switch {
		case m.has("a second comes in where many wait") && len(k.queue) >= 2,
			m.has("one in fifty is granted to two") && m.grants%50 == 49 && !r.try,
			m.has("a client excludes only others") && h.c == r.c:
			return true
		}
	}
	if r.permits == 1 && h.permits == 0 {
		switch {
		case m.has("a writer comes in beside readers"), m.has("a writer that waits comes in beside two readers") && n == 2 && !r.try:
			return true
		}
	}
	permits := r.permits
	if permits > 1 && m.has("one permit too many") {
		permits++
	}
	if permits > 1 && m.has("one permit too few") {
		permits--
	}
	if r.permits == 0 && m.has("readers exclude each other") {
		permits = 1
	}
	return h.permits == r.permits && (permits == 0 || n < permits)
}

func keysOf(m *memory) []*memoryKey {
	var all []*memoryKey
	for _, k := range m.keys {
		all = append(all, k)
	}
	return all
}

// grantWaiting grants the key to the next requests in the queue; mu is held.
func (m *memory) grantWaiting(k *memoryKey) {
	for len(k.queue) > 0 {
		at := 0
		switch {
		case m.has("the last to come is served first"):
			at = len(k.queue) - 1
		case m.has("some clients are favourites"):
			for i, r := range k.queue {
				if r.c.number < k.queue[at].c.number {
					at = i
				}
			}
		case m.has("readers overtake writers"):
			at = max(0, slices.IndexFunc(k.queue, func(r *memoryRequest) bool { return r.permits == 0 }))
		}
		r := k.queue[at]
		if !m.compatible(k, r) {
			return
		}
		k.queue = slices.Delete(k.queue, at, at+1)
		m.grant(k, r)
		if m.has("an Unlock lets one reader in") {
			return
		}
	}
}

// grant makes a request a holder; mu is held.
func (m *memory) grant(k *memoryKey, r *memoryRequest) {
	k.holders = append(k.holders, r)
	m.grants++
	switch {
	case m.has("tokens repeat") && m.grants%4 < 2,
		m.has("readers have the token of those before") && r.permits == 0:
	case m.has("tokens fall now and then") && m.grants%100 == 99:
		m.token -= min(m.token-1, 5)
	default:
		m.token++
	}
	r.token = m.token
	r.valueAt = time.Now()
	m.change(k.name, Change{Granted: true, Token: r.token})
	if !m.has("values get lost") && m.has("values stay") && r.value == nil {
		r.value = []byte("somebody's")
	}
	time.AfterFunc(memoryLag, func() { close(r.granted) })
}

// release removes a request, waiting or granted, and reports whether the request was there; mu is
// held.
func (m *memory) release(r *memoryRequest) bool {
	k := m.key(r.name)
	was := r.ended
	r.ended = true
	if i := slices.Index(k.queue, r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		if m.has("who gives up takes those behind along") {
			k.queue = k.queue[:i]
		}
		if m.has("a writer that gave up bars readers") {
			return true
		}
	}
	if i := slices.Index(k.holders, r); i >= 0 {
		k.holders = slices.Delete(k.holders, i, i+1)
		m.releasedAt[k.name] = time.Now()
		m.change(k.name, Change{Token: r.token, Lost: m.has("a watch takes an Unlock for a loss") && m.changes%10 == 9})
		if m.has("nobody is woken where two wait") && len(k.queue) >= 2 {
			return true
		}
	}
	m.grantWaiting(k)
	if len(k.holders)+len(k.queue) == 0 && !m.has("values stay") {
		delete(m.keys, k.name)
	}
	return !was
}

// expire drops the locks and requests of a session; mu is held.
func (m *memory) expire(c *memoryClient) {
	if m.has("tokens begin again after a crash") {
		m.token = 0
	}
	for _, k := range keysOf(m) {
		for _, r := range slices.Concat(k.queue, k.holders) {
			waits := slices.Contains(k.queue, r)
			switch {
			case r.c != c,
				m.has("the dead stay in line") && waits,
				m.has("dead readers stay") && r.permits == 0,
				m.has("the permits of the dead are gone") && r.permits > 1:
			default:
				m.release(r)
				close(r.forgotten)
			}
		}
	}
}

// change sends a change to the watches of a key; mu is held.
func (m *memory) change(name string, c Change) {
	m.changes++
	if m.has("a watch forgets") && m.changes%50 == 49 {
		return
	}
	for _, w := range m.watches[name] {
		w <- c
	}
}

func (m *memory) IsHeld(err error) bool {
	return (errors.Is(err, errHeld) || m.has("IsHeld says yes to all")) && !m.has("IsHeld says no")
}
