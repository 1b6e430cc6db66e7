package top

import (
	"strings"
)

// column is a column of the table of keys.
type column struct {
	name  string
	order Order // for which the column stays when there is little room; orders for none
	right bool
	text  func(r *row) string

	width int
}

// The columns, in the order of the screen.
const (
	colKey = iota
	colHolder
	colHeld
	colLeft
	colWaiting
	colLongest
	colGrants
	colValue
	colCount
)

// table is all columns.
var table = [colCount]column{
	colKey:     {name: "KEY", order: ByName, text: func(r *row) string { return r.key }},
	colHolder:  {name: "HOLDER", order: orders, text: (*row).holder},
	colHeld:    {name: "HELD", order: ByHeld, right: true, text: heldText},
	colLeft:    {name: "LEFT", order: orders, right: true, text: leftText},
	colWaiting: {name: "WAITING", order: orders, right: true, text: waitingText},
	colLongest: {name: "LONGEST", order: ByWait, right: true, text: longestText},
	colGrants:  {name: "GRANTS", order: ByGrants, right: true, text: grantsText},
	colValue:   {name: "VALUE", order: orders, text: (*row).value},
}

// widths has, for each column, the width of the widest text.
type widths [colCount]int

// widthsOf measures rows. The measuring takes longer than the rest of a picture, and is done once
// for each answer.
func widthsOf(rows []row) (w widths) {
	for i, c := range table {
		w[i] = cells(c.name)
		for j := range rows {
			w[i] = max(w[i], cells(shown(c.text(&rows[j]))))
		}
	}
	w[colHolder] = min(w[colHolder], holderMost)
	return w
}

// columns returns the columns with room on the screen.
func (m *Model) columns() []column {
	all := table
	for i := range all {
		all[i].width = m.widths[i]
	}
	out := all[:]
	if !m.Count {
		out = without(out, "GRANTS")
	}
	return narrow(out, m.Sort, m.width-cells(marker))
}

func heldText(r *row) string {
	if r.lock == nil || len(r.lock.Holders) == 0 {
		return "-"
	}
	return age(r.held)
}

func leftText(r *row) string {
	if d, ok := r.left(); ok {
		return age(d)
	}
	return "-"
}

func waitingText(r *row) string { return group(r.waiting()) }

func grantsText(r *row) string { return group(r.grants) }

func longestText(r *row) string {
	if r.waiting() == 0 {
		return "-"
	}
	return age(r.wait)
}

const (
	// marker is before the selected row, so that a terminal without colours shows the row, too.
	marker = "> "

	// gap is between two columns.
	gap = "  "

	// holderMost is the width of the widest column of holders: the name of a host without a domain.
	holderMost = 20

	// holderLeast and valueLeast are the widths below which a column says nothing.
	holderLeast, valueLeast = 8, 8

	// keyMost and keyLeast bound the width of the column of keys for which other columns go, a
	// third of the screen: the end of a key often tells keys apart.
	keyMost, keyLeast = 24, 12
)

// dropped are the columns to leave out for lack of room, in this order.
var dropped = []string{"VALUE", "LEFT", "GRANTS", "HELD", "LONGEST", "WAITING", "HOLDER"}

// narrow returns the columns with room on a screen, with their widths. The column of the order
// stays.
func narrow(cols []column, by Order, width int) []column {
	whole := cols[0].width // the column of keys is the first, and never goes
	total := func() int {
		n := (len(cols) - 1) * len(gap)
		for _, c := range cols {
			n += c.width
		}
		return n
	}
	shrink := func(name string, least int) {
		for i := range cols {
			if c := &cols[i]; c.name == name && total() > width {
				c.width = max(min(c.width, least), c.width-(total()-width))
			}
		}
	}
	key := max(keyLeast, min(keyMost, width/3))
	shrink("VALUE", valueLeast)
	shrink("KEY", key)
	shrink("HOLDER", holderLeast)
	for _, name := range dropped {
		if total() > width {
			kept := false
			for _, c := range cols {
				kept = kept || c.name == name && c.order == by
			}
			if !kept {
				cols = without(cols, name)
			}
		}
	}
	shrink("KEY", 1)
	if rest := width - total(); rest > 0 && cols[0].width < whole { // freed since
		cols[0].width += min(rest, whole-cols[0].width)
	}
	return cols
}

// without returns the columns but for the named column.
func without(cols []column, name string) (out []column) {
	for _, c := range cols {
		if c.name != name {
			out = append(out, c)
		}
	}
	return out
}

// tableLines returns n lines with the table.
func (m *Model) tableLines(n int) []line {
	cols := m.columns()
	var head []string
	for _, c := range cols {
		head = append(head, fit(c.name, c.width, c.right))
	}
	out := []line{say(bold, "%s", strings.Repeat(" ", len(marker))+strings.Join(head, gap))}
	first := m.cursor.window(len(m.rows), n-1)
	for i := first; i < len(m.rows) && len(out) < n; i++ {
		var texts []string
		for _, c := range cols {
			texts = append(texts, fit(c.text(&m.rows[i]), c.width, c.right))
		}
		before, p := strings.Repeat(" ", len(marker)), none
		if i == m.cursor.at {
			before, p = marker, mark
		}
		switch r := &m.rows[i]; {
		case p != none:
		case m.isOld() || m.list.why != "":
			p = dim
		case r.lock == nil:
			p = dim
		}
		out = append(out, line{{before + strings.Join(texts, gap), p}})
	}
	if len(m.rows) == 0 && len(out) < n {
		out = append(out, say(none, "%s", m.emptyText()))
	}
	return out
}

// emptyText says why the table has no rows.
func (m *Model) emptyText() string {
	switch {
	case m.list.at.IsZero() || m.list.why != "":
		return ""
	case m.filter != "":
		return "  no key in use begins with " + m.filter
	}
	return "  no key is in use"
}
