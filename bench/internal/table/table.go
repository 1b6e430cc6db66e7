// Package table writes tables in Markdown.
package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/bench/internal/stats"
)

// Table is a table with a first column of names, and further columns of numbers.
type Table struct {
	head []string
	rows [][]string
}

// New returns a table with these columns.
func New(head ...string) *Table { return &Table{head: head} }

// Row adds a row. Omitted cells are empty.
func (t *Table) Row(cells ...string) {
	for len(cells) < len(t.head) {
		cells = append(cells, Empty)
	}
	t.rows = append(t.rows, cells)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// String returns the table in Markdown.
func (t *Table) String() string {
	var b strings.Builder
	line := func(cells []string) {
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(slices.Clone(t.head))
	b.WriteString("|---" + strings.Repeat("|--:", len(t.head)-1) + "|\n")
	for _, r := range t.rows {
		line(slices.Clone(r))
	}
	return b.String()
}

// Empty is the cell of a missing measurement.
const Empty = "–"

// Number formats a number with three significant digits, and large numbers with commas.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return Empty
	case v != 0 && math.Abs(v) < 1:
		return fmt.Sprintf("%.3f", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return commas(fmt.Sprintf("%.0f", v))
}

// Whole formats a whole number, with commas if large.
func Whole(n int) string { return commas(fmt.Sprint(n)) }

func commas(digits string) string {
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Spread formats the median of several numbers, and their range.
func Spread(values []float64) string {
	switch len(values) {
	case 0:
		return Empty
	case 1:
		return Number(values[0])
	}
	return fmt.Sprintf("%s (%s–%s)", Number(stats.Median(values)), Number(slices.Min(values)), Number(slices.Max(values)))
}

// Ratio formats how many times as large as b a is.
func Ratio(a, b float64) string {
	if v := a / b; !math.IsNaN(v) && !math.IsInf(v, 0) {
		return Number(v) + " ×"
	}
	return Empty
}
