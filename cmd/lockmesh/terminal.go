package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// clearLine moves to the beginning of a terminal's line and empties the line.
const clearLine = "\r\x1b[2K"

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// showLine replaces the line of the terminal on standard error.
func (g *globals) showLine(text string) {
	line := []rune(text)
	if width, _, err := term.GetSize(int(g.err.Fd())); err == nil && width > 0 && len(line) >= width {
		line = line[:width-1] // a wrapped line can't be cleared
	}
	_, _ = fmt.Fprint(g.err, clearLine+string(line))
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
	return isTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
