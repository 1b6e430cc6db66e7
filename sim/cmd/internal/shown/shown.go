// Package shown compares the output of a command as shown on a page of the docs with the present
// output of the command. Outputs of the simulator are exact for one version of the core and change
// a little with nearly every change of the core, so a page is out of date only when words differ,
// or when figures have changed by more than chance explains.
package shown

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// number matches a figure in the commands' format: with thousands' commas, and with the unit of a
// percentage or a duration.
var number = regexp.MustCompile(`\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?(?:ns|µs|ms|h\d+m\d+s|m\d+(?:\.\d+)?s|s|m|h| %|%)?`)

// points is the permitted difference of two percentages.
const points = 1.0

// Differ returns the first difference between the shown and the printed output: a word, or a figure
// that is off by more than a share of the larger figure. Percentages may differ by one point.
// Differ returns the empty string if there is no difference. The number of blanks doesn't matter,
// since the width of columns depends on their figures.
func Differ(shown, printed string, share float64) string {
	a, b := strings.Split(strings.TrimSpace(shown), "\n"), strings.Split(strings.TrimSpace(printed), "\n")
	if len(a) != len(b) {
		return fmt.Sprintf("%d lines are shown, and %d are printed", len(a), len(b))
	}
	for i := range a {
		if why := line(a[i], b[i], share); why != "" {
			return fmt.Sprintf("%s: %q is shown, and %q is printed", why, a[i], b[i])
		}
	}
	return ""
}

func line(a, b string, share float64) string {
	words := func(s string) string { return strings.Join(strings.Fields(number.ReplaceAllString(s, "#")), " ") }
	if words(a) != words(b) {
		return "other words"
	}
	shown, printed := number.FindAllString(a, -1), number.FindAllString(b, -1)
	for i := range shown {
		if !near(shown[i], printed[i], share) {
			return fmt.Sprintf("%s isn't near %s", shown[i], printed[i])
		}
	}
	return ""
}

// near reports whether two figures are about the same: percentages to within points, other figures
// to within a share of the larger.
func near(a, b string, share float64) bool {
	if a == b {
		return true
	}
	if strings.HasSuffix(a, "%") && strings.HasSuffix(b, "%") {
		return math.Abs(value(a)-value(b)) <= points
	}
	x, y := value(a), value(b)
	return math.Abs(x-y) <= share*max(x, y)
}

// value returns a figure's number; a duration's value is in seconds.
func value(figure string) float64 {
	if d, err := time.ParseDuration(figure); err == nil {
		return d.Seconds()
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(figure, " %"), ",", ""), 64)
	if err != nil {
		panic("shown: " + figure + " isn't a figure: " + err.Error())
	}
	return v
}
