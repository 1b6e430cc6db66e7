package top

import (
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// lateAfter is how long an answer may take before the screen says that the node hasn't answered: a
// node on a busy machine answers sooner.
const lateAfter = 2 * time.Second

// Settings are the wishes of the user.
type Settings struct {
	// Every is the time between two looks, at least [MinEvery].
	Every time.Duration
	// Sort is the order of the keys at the beginning.
	Sort Order
	// Prefix has the screen begin with the keys that begin so, and grants are counted for these
	// keys alone.
	Prefix string
	// Count has the grants counted.
	Count bool
	// Colors allows colours.
	Colors bool
}

// Model has the content of the screen, and decides about the next request. A model reads no clock:
// the time is the time of the latest message.
type Model struct {
	Settings
	ask requests

	width, height int
	now           time.Time

	asking  bool      // a request is under way
	looking bool      // the request under way is for the status
	began   time.Time // when the present look began
	next    time.Time // when the next look begins

	status   *admin.Status
	statusAt time.Time // when status arrived
	lost     *loss     // the node doesn't answer
	list     listed    // the latest answer; after a failed question the one before, with why set
	grants   hot
	rate     rate
	watch    seen // whether the watch lives
	gaps     int  // how often grants may be missing

	filter  string
	edit    *string // a filter being typed
	cursor  cursor
	detail  *detail
	help    bool
	paused  bool
	quit    bool
	changed bool // the sorted rows are out of date
	rows    []row
	widths  widths // of the rows
}

// loss is about looks without an answer from the node.
type loss struct {
	why   string
	tries int
}

// detail is the view of a single key.
type detail struct {
	key    string
	at     time.Time
	lock   *admin.Lock
	why    string // why the latest question had no answer
	offset int    // how many lines have moved out at the top
}

// newModel returns a model with a first status. The model asks with r.
func newModel(s Settings, r requests, status *admin.Status, now time.Time) *Model {
	return &Model{
		Settings: s, ask: r, width: 80, height: 24, now: now, next: now,
		status: status, statusAt: now, grants: hot{}, filter: s.Prefix, widths: widthsOf(nil),
	}
}

// advance has the model know of a time.
func (m *Model) advance(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
}

// onBeat begins a look when a look is due.
func (m *Model) onBeat(b beat) command {
	m.advance(b.now)
	if m.asking || m.paused || m.now.Before(m.next) {
		return nil
	}
	return m.look()
}

// look begins a look at the node: first the status, then the keys, then the key of the detail, so
// that a single request is under way.
func (m *Model) look() command {
	m.began, m.looking = m.now, true
	return m.send(m.ask.look())
}

// send notes a request under way.
func (m *Model) send(c command) command {
	m.asking = true
	return c
}

// rest ends a look. The next look begins an interval after the last one began, and leaves the node
// at least as much time without a question as the look has taken.
func (m *Model) rest() command {
	m.asking = false
	took := m.now.Sub(m.began)
	m.next = m.began.Add(max(m.Every, 2*took))
	return nil
}

// onLooked takes the status.
func (m *Model) onLooked(a looked) command {
	m.advance(a.at)
	m.looking = false
	if m.Count {
		m.grants.add(a.seen.keys)
		m.rate.add(a.at, a.seen.total)
		m.watch, m.gaps, m.changed = a.seen, m.gaps+a.seen.gaps, true
		m.watch.keys = nil
	}
	if a.status == nil {
		if m.lost == nil {
			m.lost = new(loss)
		}
		m.lost.why = a.why
		m.asking, m.next = false, m.now.Add(backoff(m.Every, m.lost.tries))
		m.lost.tries++
		return nil
	}
	m.status, m.statusAt, m.lost = a.status, a.at, nil
	switch {
	case m.status.Closed:
		m.list.why = "the node has ended"
	case !m.status.Electorate.Ready:
		m.list.why = "too few voters count"
	default:
		return m.send(m.ask.list(m.filter))
	}
	return m.rest() // without a majority, the node would wait for voters, and so would the screen
}

// onListed takes the keys.
func (m *Model) onListed(a listed) command {
	m.advance(a.at)
	switch {
	case a.prefix != m.filter: // asked before the user typed another filter
		return m.send(m.ask.list(m.filter))
	case a.why != "" && m.list.prefix == a.prefix:
		m.list.why = a.why
	default:
		m.list, m.changed = a, true
	}
	if m.detail != nil {
		return m.send(m.ask.inspect(m.detail.key))
	}
	return m.rest()
}

// onInspected takes the key of the detail.
func (m *Model) onInspected(a inspected) command {
	m.advance(a.at)
	if d := m.detail; d != nil && d.key == a.key {
		if d.why = a.why; a.lock != nil {
			d.lock, d.at = a.lock, a.at
		}
	}
	return m.rest()
}

// soon has the next look begin with the next beat.
func (m *Model) soon() { m.next = m.now }

// setFilter shows the keys that begin with a prefix.
func (m *Model) setFilter(prefix string) {
	if prefix == m.filter {
		return
	}
	m.filter, m.list, m.cursor, m.changed = prefix, listed{prefix: prefix}, cursor{}, true
	m.soon()
}

// setPaused stops the looks, or goes on.
func (m *Model) setPaused(paused bool) {
	m.paused = paused
	m.rate.pause()
	m.soon()
}

// isLate reports whether the node takes long to answer.
func (m *Model) isLate() bool { return m.looking && m.now.Sub(m.began) > lateAfter }

// isOld reports whether what the screen shows isn't the present.
func (m *Model) isOld() bool {
	return m.lost != nil || m.isLate() || m.paused
}
