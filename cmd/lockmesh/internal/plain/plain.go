// Package plain turns what a node answers into plain texts for a terminal. Keys, names and values
// are of other programs' making, and no text of this package changes a terminal.
package plain

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/lockmesh/lockmesh/admin"
)

// Safe returns a text in which [unicode.ReplacementChar] stands for each character that would
// change what a terminal shows elsewhere: control characters, changes of the direction of writing,
// and characters without a shape.
func Safe(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Time is a duration for a column: to a tenth of a second below ten seconds, and to a second
// above. A negative duration is 0s.
func Time(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Milliseconds is a duration of the API, whose fields end in _ms.
func Milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Count returns a number with its noun, such as "1 voter" and "3 voters".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Counting says how many of the voters count, such as "1 of 3 voters counts".
func Counting(counting, all int) string {
	verb := "count"
	if counting == 1 {
		verb = "counts"
	}
	return fmt.Sprintf("%d of %s %s", counting, Count(all, "voter"), verb)
}

// Mode describes the mode of a lease of a key: with permits, the number of the lease's permit, from
// 1, as [admin.Holder] has the number in Slot.
func Mode(mode string, slot, permits int) string {
	if permits == 0 {
		return mode
	}
	return fmt.Sprintf("permit %d of %d", slot, permits)
}

// Voter is a voter's text without the name and the state at its beginning, which other columns
// have. The caller makes the text safe.
func Voter(v *admin.Voter) string {
	text := strings.TrimPrefix(v.Text, v.Name)
	text = strings.TrimLeft(text, ": ")
	text = strings.TrimPrefix(text, v.State)
	return strings.TrimLeft(text, ":, ")
}
