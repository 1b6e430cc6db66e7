package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// paint is how a text looks on a terminal with colours: a parameter of the control sequence SGR.
// Every meaning of a colour is in the text, too.
type paint string

const (
	none paint = ""
	good paint = "32"
	warn paint = "33"
	bad  paint = "1;31"
	bold paint = "1"
	dim  paint = "2"
	mark paint = "7" // the selected row
)

// span is a text with a look.
type span struct {
	text  string
	paint paint
}

// line is a line of the screen.
type line []span

// say returns a line with a single look.
func say(p paint, format string, args ...any) line {
	return line{{fmt.Sprintf(format, args...), p}}
}

// cut is the end of a text that didn't fit.
const cut = "…"

// shownMost bounds a text of the mesh on a line, in bytes: no line of a screen has room for more,
// and a text may be longer than what is worth the measuring.
const shownMost = 4096

// shown is the part of a text that may be shown, without characters that change a terminal.
func shown(text string) string { return plain.Safe(text[:min(len(text), shownMost)]) }

// render returns the line for a terminal, at most width cells wide. Every text passes through
// shown here, so no text of the mesh reaches the terminal otherwise.
func (l line) render(width int, colors bool) string {
	var b strings.Builder
	whole := 0
	for i := range l {
		l[i].text = shown(l[i].text)
		whole += cells(l[i].text)
	}
	room, more := width, whole > width
	for _, s := range l {
		text := s.text
		if more && cells(text) >= room {
			text = ansi.TruncateWc(text+" ", room, cut)
		}
		room -= cells(text)
		if s.paint != none && colors && text != "" {
			text = "\x1b[" + string(s.paint) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		if room <= 0 {
			break
		}
	}
	return b.String()
}

// in returns the line with a single look, such as that of an old picture.
func (l line) in(p paint) line {
	out := make(line, len(l))
	for i, s := range l {
		out[i] = span{s.text, p}
	}
	return out
}

// width is the number of cells of the line.
func (l line) width() (n int) {
	for _, s := range l {
		n += cells(shown(s.text))
	}
	return n
}

// with returns the line with a text at the right end of the screen, if there is room for both.
func (l line) with(right line, width int) line {
	space := width - l.width() - right.width()
	if space < 2 {
		return l
	}
	return append(append(l, span{strings.Repeat(" ", space), none}), right...)
}

// cells is the number of cells of a text on a terminal: the sum over the characters. Terminals with
// shapes of several characters need no more.
func cells(text string) int { return ansi.StringWidthWc(text) }

// fit returns a text of exactly width cells.
func fit(text string, width int, right bool) string {
	text = shown(text)
	if cells(text) > width {
		text = ansi.TruncateWc(text, width, cut)
	}
	pad := strings.Repeat(" ", max(0, width-cells(text)))
	if right {
		return pad + text
	}
	return text + pad
}

// firstFit returns the first of several texts with room on the screen, or else the last.
func firstFit(width int, texts ...string) string {
	for _, t := range texts {
		if cells(t) <= width {
			return t
		}
	}
	return texts[len(texts)-1]
}

// wrap returns the lines of a text of the mesh, up to the number most.
func wrap(text string, width, most int, p paint) (out []line) {
	text = ansi.WrapWc(shown(text), max(width, 1), "")
	all := strings.Split(text, "\n")
	for i, t := range all {
		if i == most-1 && len(all) > most {
			t += " " + cut
			if cells(t) > width {
				t = ansi.TruncateWc(t, width, cut)
			}
		}
		if i == most {
			break
		}
		out = append(out, line{{t, p}})
	}
	return out
}

// age is a duration for a narrow column: two units at most.
func age(d time.Duration) string {
	d = max(d, 0)
	if d < 9950*time.Millisecond {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// roundTrip is a round trip in microseconds.
func roundTrip(us int64) string {
	switch d := time.Duration(us) * time.Microsecond; {
	case us <= 0:
		return "-"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}

// group is a number with commas between the thousands.
func group(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clock is a time of the day. Answers arrive at times of this machine's zone.
func clock(t time.Time) string { return t.Format("15:04:05") }
