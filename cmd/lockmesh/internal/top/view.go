package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// View returns the picture.
func (m *Model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	return v
}

// frame returns the lines of the picture, never more or wider than the screen.
func (m *Model) frame() string {
	var out []string
	for i, l := range m.lines() {
		if i == m.height {
			break
		}
		out = append(out, strings.TrimRight(l.render(m.width, m.Colors), " "))
	}
	return strings.Join(out, "\n")
}

// tableLeast is the smallest number of lines for the table and its head: below, lines of the header
// go.
const tableLeast = 4

func (m *Model) lines() []line {
	if m.help {
		return m.helpLines()
	}
	head := m.headerLines()
	if most := max(1, m.height-1-tableLeast); len(head) > most {
		head = head[:most]
	}
	if m.height >= 20 {
		head = append(head, line{})
	}
	room := m.height - len(head) - 1
	if room > 0 {
		body := m.bodyLines(room)
		for len(body) < room {
			body = append(body, line{})
		}
		head = append(head, body...)
	}
	return append(head, m.footer())
}

func (m *Model) bodyLines(n int) []line {
	if m.detail != nil {
		return m.detailLines(n)
	}
	return m.tableLines(n)
}

// pageLines is how many rows of the table, or lines of the detail, the screen shows.
func (m *Model) pageLines() int {
	head := min(len(m.headerLines()), max(1, m.height-1-tableLeast))
	if m.height >= 20 {
		head++
	}
	return max(1, m.height-head-2)
}

// footer names the shown part of the table, and the keys of the keyboard.
func (m *Model) footer() line {
	switch {
	case m.edit != nil:
		return line{{"keys that begin with: " + *m.edit, bold}, {"_  enter: show  esc: cancel", none}}
	case m.detail != nil:
		return say(none, "esc back  arrows move  p pause  ? help  q quit")
	}
	where := "by " + orderTexts[m.Sort]
	if n := len(m.rows); n > 0 {
		where = fmt.Sprintf("row %s of %s, %s", group(m.cursor.at+1), group(n), where)
	}
	keys := firstFit(m.width-cells(where)-3,
		"s sort  / filter  enter detail  p pause  ? help  q quit",
		"s sort  / filter  enter detail  ? help  q quit",
		"s sort  / filter  ? help  q quit",
		"? help  q quit",
		"")
	l := line{{where, bold}}
	if m.filter != "" {
		l = append(l, span{"  filter: " + m.filter, warn})
	}
	return l.with(say(none, "%s", keys), m.width)
}
