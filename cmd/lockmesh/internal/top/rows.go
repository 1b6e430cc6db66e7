package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// Order is an order of keys.
type Order int

// The orders, in the order of the key s.
const (
	ByWait   Order = iota // the longest wait first
	ByGrants              // the most grants seen first
	ByHeld                // the longest held first
	ByName
	orders
)

// orderWords are the words of the command line for the orders.
var orderWords = [orders]string{"wait", "grants", "held", "name"}

// orderTexts complete "sorted by".
var orderTexts = [orders]string{"longest wait", "grants seen", "time held", "name"}

// OrderOf returns the order with a word of the command line: wait, grants, held or name.
func OrderOf(word string) (Order, bool) {
	i := slices.Index(orderWords[:], word)
	return Order(max(i, 0)), i >= 0
}

// row is a key of the table.
type row struct {
	key    string
	lock   *admin.Lock   // nil for a key that was seen to be granted, and isn't in use now
	grants int           // seen by this process
	wait   time.Duration // of the longest waiting request
	held   time.Duration // of the oldest lease
}

// holder names the holders of the key.
func (r *row) holder() string {
	switch {
	case r.lock == nil || len(r.lock.Holders) == 0 && r.lock.DelayedMS == 0:
		return "-"
	case len(r.lock.Holders) == 0:
		return "(kept)"
	}
	first := r.lock.Holders[0]
	text := first.Node
	if first.Unsure {
		text += "?"
	}
	if n := len(r.lock.Holders); n > 1 {
		text += " +" + group(n-1)
	}
	return text
}

// left is how long the voters would keep the key for its first holder to end, if they heard nothing
// more; without a holder, how long the key is kept from all. The second result is false for a free
// key.
func (r *row) left() (time.Duration, bool) {
	switch {
	case r.lock == nil:
		return 0, false
	case len(r.lock.Holders) == 0:
		return plain.Milliseconds(r.lock.DelayedMS), r.lock.DelayedMS > 0
	}
	least := r.lock.Holders[0].LeftMS
	for _, h := range r.lock.Holders {
		least = min(least, h.LeftMS)
	}
	return plain.Milliseconds(least), true
}

// value is the value of the first holder with a value.
func (r *row) value() string {
	if r.lock == nil {
		return ""
	}
	for _, h := range r.lock.Holders {
		if len(h.Value) > 0 {
			return string(h.Value)
		}
	}
	return ""
}

func (r *row) waiting() int {
	if r.lock == nil {
		return 0
	}
	return len(r.lock.Waiters)
}

// sortRows makes the rows anew: the keys of the list, and, in the order of grants, also keys that
// were seen to be granted and are free at the moment.
func (m *Model) sortRows() {
	m.changed = false
	now := m.nodeTime(m.list.at)
	m.rows = make([]row, 0, len(m.list.locks))
	listedKeys := make(map[string]bool, len(m.list.locks))
	for i := range m.list.locks {
		l := &m.list.locks[i]
		r := row{key: l.Key, lock: l, grants: m.grants[l.Key]}
		for _, h := range l.Holders {
			r.held = max(r.held, now.Sub(h.Since))
		}
		for _, w := range l.Waiters {
			r.wait = max(r.wait, now.Sub(w.Since))
		}
		listedKeys[l.Key] = true
		m.rows = append(m.rows, r)
	}
	if m.Sort == ByGrants {
		for key, n := range m.grants {
			if !listedKeys[key] && strings.HasPrefix(key, m.filter) {
				m.rows = append(m.rows, row{key: key, grants: n})
			}
		}
	}
	slices.SortFunc(m.rows, func(a, b row) int {
		by := 0
		switch m.Sort {
		case ByWait:
			by = cmp.Or(cmp.Compare(b.wait, a.wait), cmp.Compare(b.waiting(), a.waiting()))
		case ByGrants:
			by = cmp.Compare(b.grants, a.grants)
		case ByHeld:
			by = cmp.Compare(b.held, a.held)
		}
		return cmp.Or(by, cmp.Compare(a.key, b.key))
	})
	if len(m.rows) > listMost {
		m.rows = m.rows[:listMost]
	}
	m.widths = widthsOf(m.rows)
	m.cursor.follow(m.rows)
}

// nodeTime is the time of the node's machine at a time of this machine, as of the latest status.
func (m *Model) nodeTime(at time.Time) time.Time {
	return m.status.At.Add(at.Sub(m.statusAt))
}

// cursor is the selected row, and the shown part of the table.
type cursor struct {
	key   string // the selected key, which the cursor follows when the order changes
	at    int    // its row
	first int    // the first row on the screen
	moved bool   // the user has selected a row, so that the cursor follows the key
}

// follow finds the selected key in new rows. Before the user has moved the cursor, the cursor stays
// on the first row. If the selected key is gone, the cursor stays in its place.
func (c *cursor) follow(rows []row) {
	if !c.moved {
		*c = cursor{}
	}
	if c.moved {
		if i := slices.IndexFunc(rows, func(r row) bool { return r.key == c.key }); i >= 0 {
			c.at = i
		}
	}
	c.set(rows, c.at)
}

// move selects the row that is by rows below the selected one; a negative by is above.
func (c *cursor) move(rows []row, by int) {
	c.moved = true
	c.set(rows, c.at+by)
}

// set selects a row, or else the nearest row.
func (c *cursor) set(rows []row, at int) {
	c.at = max(0, min(at, len(rows)-1))
	if c.key = ""; c.at < len(rows) {
		c.key = rows[c.at].key
	}
}

// window returns the first row to show on a screen with room for n rows, with the
// selected row among the shown.
func (c *cursor) window(rows, n int) int {
	c.first = min(c.first, c.at, max(0, rows-n))
	c.first = max(c.first, c.at-n+1, 0)
	return c.first
}
