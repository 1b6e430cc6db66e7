package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// table is a Markdown table.
type table struct{ rows [][]string }

func newTable(head ...string) *table {
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	return &table{[][]string{head, rule}}
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) print(out io.Writer) error {
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// say prints paragraphs.
func say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format+"\n\n", args...)
	return err
}

// rank returns the least of the samples that at least a share of the samples, in percent, doesn't
// exceed.
func rank(samples []time.Duration, percent int) time.Duration {
	slices.Sort(samples)
	return samples[max((len(samples)*percent+99)/100, 1)-1]
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

// count formats a large number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate formats n per second.
func rate(n int, in time.Duration) string { return each(n, in.Seconds()) }

// each formats a ratio with the significant digits.
func each(n int, of float64) string {
	switch x := float64(n) / of; {
	case x >= 100 || x == math.Trunc(x):
		return count(int(math.Round(x)))
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}
