package top

import (
	"fmt"
	"strconv"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// detailLines returns n lines about the key of the detail.
func (m *Model) detailLines(n int) []line {
	d := m.detail
	all := m.detailText()
	d.offset = min(d.offset, max(0, len(all)-n))
	all = all[d.offset:]
	if len(all) > n {
		all = append(all[:n-1:n-1], say(none, "… %s below", plain.Count(len(all)-n+1, "line")))
	}
	return all
}

// detailText returns all lines about the key of the detail.
func (m *Model) detailText() (out []line) {
	d := m.detail
	if d.why != "" {
		out = append(out, say(warn, "no answer about the key: %s", d.why))
	}
	if d.lock == nil {
		out = append(out, line{{d.key, bold}})
		if d.why == "" {
			out = append(out, say(none, "asking for the key"))
		}
		return out
	}
	out = append(out, line{{d.key, bold}, {": " + stateOf(d.lock), none}})
	for _, q := range m.status.Waiting {
		if q.Key == d.key {
			out = append(out, say(none, "a request of this node waits for %s: %s",
				age(m.status.At.Sub(q.Since)), q.Text))
		}
	}
	out = append(out, line{})
	out = append(out, m.holderLines(d.lock)...)
	out = append(out, line{})
	out = append(out, m.waiterLines(d.lock)...)
	if m.isOld() || d.why != "" {
		for i := range out {
			out[i] = out[i].in(dim)
		}
	}
	return out
}

// stateOf says in a few words who may have a key.
func stateOf(l *admin.Lock) string {
	switch {
	case len(l.Holders) > 0:
		return fmt.Sprintf("held by %s, %s", plain.Count(len(l.Holders), "lease"), waits(len(l.Waiters)))
	case l.DelayedMS > 0:
		return "kept from all for " + age(plain.Milliseconds(l.DelayedMS)) + " after its last holder"
	}
	return "free"
}

func (m *Model) holderLines(l *admin.Lock) []line {
	if len(l.Holders) == 0 {
		return []line{say(none, "no node holds the key")}
	}
	now := m.nodeTime(m.detail.at)
	rows := [][]string{{"HOLDER", "HELD", "LEFT", "MODE", "TOKEN", "VALUE"}}
	for _, h := range l.Holders {
		node := h.Node
		if h.Unsure {
			node += " (unsure)"
		}
		rows = append(rows, []string{
			node, age(now.Sub(h.Since)), age(plain.Milliseconds(h.LeftMS)),
			plain.Mode(h.Mode, h.Slot, l.Permits), strconv.FormatUint(h.Token, 10), string(h.Value),
		})
	}
	return aligned(rows)
}

func (m *Model) waiterLines(l *admin.Lock) []line {
	if len(l.Waiters) == 0 {
		return []line{say(none, "no request waits")}
	}
	now := m.nodeTime(m.detail.at)
	rows := [][]string{{"WAITER", "WAITS", "MODE", "VALUE"}}
	for i, w := range l.Waiters {
		mode := w.Mode
		if w.Try {
			mode += ", tries"
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d %s", i+1, w.Node), age(now.Sub(w.Since)), mode, string(w.Value),
		})
	}
	return aligned(rows)
}

// cellMost is the width of the widest cell of a detail but for the last of a row, which the screen
// cuts.
const cellMost = 32

// aligned returns rows of a table, the first of them its head.
func aligned(rows [][]string) (out []line) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, text := range r {
			widths[i] = max(widths[i], min(cellMost, cells(shown(text))))
		}
	}
	for n, r := range rows {
		p, text := none, ""
		if n == 0 {
			p = bold
		}
		for i, t := range r {
			if i < len(r)-1 {
				t = fit(t, widths[i], false) + gap
			}
			text += t
		}
		out = append(out, line{{text, p}})
	}
	return out
}
