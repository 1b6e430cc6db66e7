package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// clearLine moves to the beginning of a terminal's line and empties the line.
const clearLine = "\r\x1b[2K"

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// isScreen reports whether a file is a terminal on which a line can be cleared.
func isScreen(f *os.File) bool { return isTerminal(f) && os.Getenv("TERM") != "dumb" }

// showLine replaces the line of the terminal on standard error.
func (g *globals) showLine(text string) {
	if width := widthOf(g.err); width > 0 {
		text = cut(text, width-1) // a wrapped line can't be cleared
	}
	_, _ = fmt.Fprint(g.err, clearLine+text)
}

// widthOf returns how many cells a line of the terminal has; zero if the file is no terminal, or
// one too narrow for any text.
func widthOf(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 2 {
		return 0
	}
	return width
}

// cut shortens a text to so many cells of a terminal, with an ellipsis at the end.
func cut(text string, width int) string { return ansi.TruncateWc(text, width, "…") }

// cutToTerminal returns a writer that cuts each line at the width of the terminal, if out is one:
// of many rows, wrapped ones can't be read.
func cutToTerminal(out *os.File) io.Writer {
	if width := widthOf(out); width > 0 {
		return &cutLines{to: out, width: width}
	}
	return out
}

// cutLines writes the lines of a text up to a width.
type cutLines struct {
	to    io.Writer
	width int
	rest  []byte // the beginning of a line
}

// Write implements [io.Writer].
func (c *cutLines) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	end := bytes.LastIndexByte(c.rest, '\n') + 1
	var b bytes.Buffer
	for line := range bytes.Lines(c.rest[:end]) {
		text := string(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteString(cut(text, c.width) + "\n")
	}
	c.rest = append(c.rest[:0], c.rest[end:]...)
	if _, err := c.to.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// safe returns a text without characters that would change other parts of a terminal's screen.
func safe(text string) string { return plain.Safe(text) }

// roundTime rounds a duration for a reader.
func roundTime(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// colored reports whether a terminal is to get colours: see no-color.org.
func colored(f *os.File) bool {
	return isScreen(f) && os.Getenv("NO_COLOR") == ""
}
