package timeline

import (
	"fmt"
	"slices"
	"strings"
)

// bands draws cut ways and held-up connections above the lanes. Ways with the same start and end of
// their cut form a single partition.
func (d *drawing) bands() {
	all := d.p.openBands(d.until)
	var rows []int64 // the x up to which each row is occupied
	hidden := 0
	top := d.y
	for i := 0; i < len(all); {
		first := all[i]
		var ways [][2]int
		for ; i < len(all) && all[i].stretch == first.stretch && all[i].stalled == first.stalled; i++ {
			ways = append(ways, all[i].way)
		}
		if first.from > d.until {
			continue
		}
		class, label := "cut", d.cutText(ways)
		if first.stalled {
			class, label = "stall", "held up: "+d.wayList(ways)
		}
		x, to := d.x(first.from), d.x(min(first.to, d.until))
		label = short(label, 60)
		from := min(x, picWidth-100-wide(label)) // a label at the right edge begins before its band
		row := slices.IndexFunc(rows, func(end int64) bool { return end <= from })
		if row < 0 {
			if row = len(rows); row == bandRows {
				hidden++
				continue
			}
			rows = append(rows, 0)
		}
		rows[row] = max(to, from+wide(label)) + 40
		y := top + int64(row)*bandHigh
		d.rect(class, x, y, max(to-x, 10), bandHigh-20, "", fmt.Sprintf("%s, from %s to %s", label, d.seconds(first.from), d.seconds(min(first.to, d.until))))
		d.text("", from+20, y+90, label)
	}
	if len(rows) == 0 {
		return
	}
	d.text("node", 200, top+110, "network")
	d.y += int64(len(rows)) * bandHigh
	if hidden > 0 {
		d.text("small", picLeft, d.y+100, fmt.Sprintf("and %d more cuts, for which there is no room", hidden))
		d.y += bandHigh
	}
	d.y += 40
}

func (d *drawing) names(hosts []int) string {
	var names []string
	for _, h := range hosts {
		names = append(names, d.p.hosts[h].name)
	}
	return strings.Join(names, " ")
}

// cutText describes a set of cut ways.
func (d *drawing) cutText(ways [][2]int) string {
	cut := func(a, b int) bool { return slices.Contains(ways, [2]int{a, b}) }
	// The hosts out of the first sender's reach form a side. The hosts without a way to the first
	// of these form the other side.
	var one, other []int
	for i := range d.p.hosts {
		if cut(ways[0][0], i) {
			other = append(other, i)
		}
	}
	for i := range d.p.hosts {
		if cut(i, other[0]) {
			one = append(one, i)
		}
	}
	there, back := 0, 0
	for _, a := range one {
		for _, b := range other {
			there += bit(cut(a, b))
			back += bit(cut(b, a))
		}
	}
	whole := there == len(one)*len(other)
	switch {
	case whole && back == there && there+back == len(ways):
		return d.names(one) + " | " + d.names(other)
	case whole && back == 0 && there == len(ways):
		return "nothing from " + d.names(one) + " to " + d.names(other)
	}
	return "cut: " + d.wayList(ways)
}

func (d *drawing) wayList(ways [][2]int) string {
	var list []string
	for _, way := range ways {
		a, b := d.p.hosts[way[0]].name, d.p.hosts[way[1]].name
		switch both := slices.Contains(ways, [2]int{way[1], way[0]}); {
		case !both:
			list = append(list, a+"→"+b)
		case way[0] < way[1]:
			list = append(list, a+"↔"+b)
		}
	}
	return strings.Join(list, " ")
}
