package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/lockmesh/lockmesh"
)

// Init begins the beats.
func (m *Model) Init() tea.Cmd { return m.ask.beat() }

// Update takes a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var c command
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		c = m.onKey(msg)
	case tea.PasteMsg:
		if m.edit != nil {
			m.typed(msg.Content)
		}
	case beat:
		c = tea.Batch(m.ask.beat(), m.onBeat(msg))
	case looked:
		c = m.onLooked(msg)
	case listed:
		c = m.onListed(msg)
	case inspected:
		c = m.onInspected(msg)
	case stopped:
		c = m.ask.stop()
	}
	if m.changed {
		m.sortRows()
	}
	if m.quit {
		c = tea.Quit
	}
	return m, c
}

// onKey acts upon a key.
func (m *Model) onKey(k tea.KeyPressMsg) command {
	name := k.String()
	switch {
	case name == "ctrl+c":
		m.quit = true
	case name == "ctrl+z":
		return m.ask.stop()
	case m.edit != nil:
		m.onEditKey(name, k.Text)
	case name == "q":
		m.quit = true
	case m.help: // any key goes back
		m.help = false
	case name == "?":
		m.help = true
	case name == "p":
		m.setPaused(!m.paused)
	case name == "esc":
		m.back()
	case m.detail != nil:
		m.detail.move(name, m.pageLines())
	default:
		m.onTableKey(name)
	}
	return nil
}

// back leaves the detail, or else shows all keys again.
func (m *Model) back() {
	if m.detail != nil {
		m.detail = nil
		return
	}
	m.setFilter("")
}

// onTableKey is onKey for the table of keys.
func (m *Model) onTableKey(name string) {
	switch name {
	case "s":
		m.Sort = (m.Sort + 1) % orders
		if m.Sort == ByGrants && !m.Count {
			m.Sort++
		}
		m.cursor, m.changed = cursor{}, true
	case "/":
		empty := m.filter
		m.edit = &empty
	case "enter", "right":
		if m.cursor.key != "" {
			m.detail = &detail{key: m.cursor.key}
			m.soon()
		}
	default:
		if by := lines(name, m.pageLines()); by != 0 {
			m.cursor.move(m.rows, by)
		}
	}
}

// endLines is more than the lines of any table.
const endLines = 1 << 20

// lines is how many lines down a key leads, on a screen with page lines.
func lines(name string, page int) int {
	switch name {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup":
		return -max(1, page-1)
	case "pgdown", "space":
		return max(1, page-1)
	case "home":
		return -endLines
	case "end":
		return endLines
	}
	return 0
}

// move moves the lines of the detail.
func (d *detail) move(name string, page int) {
	d.offset = max(0, d.offset+lines(name, page)) // the picture bounds the offset from above
}

// onEditKey is onKey while a filter is being typed.
func (m *Model) onEditKey(name, text string) {
	switch name {
	case "enter":
		m.setFilter(*m.edit)
		m.edit = nil
	case "esc":
		m.edit = nil
	case "ctrl+u":
		*m.edit = ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(*m.edit)
		*m.edit = (*m.edit)[:len(*m.edit)-n]
	default:
		m.typed(text)
	}
}

// typed adds a text to the filter, as far as the result may be the beginning of a key: no longer
// than a key, and without the end of a line.
func (m *Model) typed(text string) {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimRight(strings.ToValidUTF8(text, ""), "\r")
	if len(*m.edit)+len(text) <= lockmesh.MaxKeyLen {
		*m.edit += text
	}
}
