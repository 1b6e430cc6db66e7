package main

import (
	"fmt"
	"slices"
	"strings"
)

// switches is the file added to each package of the broken core. LOCKMESH_MUTANT chooses the active
// mutant by its number. LOCKMESH_MUTANT_REACHED names a file in which each mutant's number is noted
// when its line is first run: a test binary never running a line can't notice a fault in the line.
const switches = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var mutActive, mutNotes = func() (int, *os.File) {
	n, err := strconv.Atoi(os.Getenv("LOCKMESH_MUTANT"))
	if err != nil {
		n = -1
	}
	if name := os.Getenv("LOCKMESH_MUTANT_REACHED"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		return n, f
	}
	return n, nil
}()

var mutSeen sync.Map

func mut(n int) bool {
	if mutNotes != nil {
		if _, seen := mutSeen.LoadOrStore(n, true); !seen {
			_, _ = mutNotes.WriteString(strconv.Itoa(n) + "\n")
		}
	}
	return n == mutActive
}

func mutPick[T any](n int, broken, whole T) T {
	if mut(n) {
		return broken
	}
	return whole
}

var _ = mutPick[int]
`

// choose, pick and omit generate the source of a switch: for a condition, for a value, for a
// statement. broken is the mutant's source, and inner the original source, perhaps with further
// switches.
func choose(number int, broken, inner string) string {
	return fmt.Sprintf("(mut(%d) && (%s) || !mut(%d) && (%s))", number, broken, number, inner)
}

func pick(number int, broken, inner string) string {
	return fmt.Sprintf("mutPick(%d, %s, %s)", number, broken, inner)
}

func omit(number int, _, inner string) string {
	return fmt.Sprintf("if !mut(%d) { %s }", number, inner)
}

func instead(number int, broken, inner string) string {
	return fmt.Sprintf("if mut(%d) { %s } else { %s }", number, broken, inner)
}

// rewrite returns a file's text with the switches of its sites; numbers[i] is the number of
// sites[i].
func rewrite(text string, sites []site, numbers []int) string {
	order := make([]int, len(sites))
	for i := range order {
		order[i] = i
	}
	// The widest sites first, so nested sites come after the enclosing site.
	slices.SortStableFunc(order, func(a, b int) int {
		if sites[a].start != sites[b].start {
			return sites[a].start - sites[b].start
		}
		return sites[b].end - sites[a].end
	})
	next := 0
	var render func(start, end int) string
	render = func(start, end int) string {
		var b strings.Builder
		for next < len(order) && sites[order[next]].start < end {
			at := sites[order[next]]
			b.WriteString(text[start:at.start])
			var same []int // several mutants of one expression: one switch around the other
			for next < len(order) && sites[order[next]].start == at.start &&
				sites[order[next]].end == at.end {
				same = append(same, order[next])
				next++
			}
			inner := render(at.start, at.end)
			for _, i := range same {
				inner = sites[i].wrap(numbers[i], sites[i].now, inner)
			}
			b.WriteString(inner)
			start = at.end
		}
		b.WriteString(text[start:end])
		return b.String()
	}
	return render(0, len(text))
}
