package timeline

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Measures of a picture, in tenths of a pixel unless they are counts.
const (
	picWidth  = 14400
	picLeft   = 1300 // where the time axis begins
	picRight  = 300
	picPlot   = picWidth - picLeft - picRight
	markHigh  = 230 // height of a lane's upper part, with the lifeline
	rowHigh   = 150 // height of a key's row
	bandHigh  = 140
	laneGap   = 40
	bandRows  = 14  // how many rows of cuts are shown
	textLine  = 150 // between two lines of text
	lineRunes = 190 // characters in a line of the violation's text
	lineMost  = 8   // lines of the violation's text; a panic brings its stack
)

// Run is what a picture says about its run besides the recording.
type Run struct {
	Seed      uint64
	Voters    int
	MaxTTL    time.Duration
	Lasted    time.Duration
	Violation *Violation // nil if there is none
	// KeyIndex numbers the keys, so that a key has the same colour in every picture of a run.
	KeyIndex func(key string) int
}

// Violation is a broken invariant.
type Violation struct {
	Check string
	At    time.Duration
	Text  string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at %v: %s", v.Check, v.At, v.Text)
}

// Write draws the recording as an SVG without scripts: a lane for each node, with leases, startup
// quarantines, crashes, pauses, cuts and, if there aren't too many, messages; a violation is red.
// The same run gives the same bytes. Write fails if the window holds nothing of the run.
func (r *Recording) Write(out io.Writer, run Run) error {
	until := run.Lasted
	if r.To > 0 {
		until = min(until, r.To)
	}
	if r.From < 0 || r.From >= until {
		return fmt.Errorf("the picture's window from %v to %v holds nothing of the run, which lasted %v", r.From, r.To, run.Lasted)
	}
	d := &drawing{run: &run, p: r, from: r.From, until: until, edge: until}
	if d.guilty() {
		d.edge += (until - d.from) / 25 // so that the red line doesn't hide at the edge
	}
	_, err := out.Write(d.draw())
	return err
}

// drawing is a picture in the making.
type drawing struct {
	svg
	run               *Run
	p                 *Recording
	from, until, edge time.Duration
	y                 int64
	spines            []int64 // the y of each host's lifeline
	keys              []string
	prefix            int // how many leading digits to leave out of all tokens
	arrows            []arrow
	note              string // says which messages are left out
}

// guilty reports whether the window holds the violation.
func (d *drawing) guilty() bool {
	v := d.run.Violation
	return v != nil && v.At >= d.from && v.At <= d.until
}

// x returns a moment's horizontal position, moved into the window. The plot is narrow enough for
// the product in beyond not to overflow for windows of days.
func (d *drawing) x(at time.Duration) int64 {
	at = min(max(at, d.from), d.edge)
	return d.beyond(at)
}

// beyond is x for moments that may lie outside the window.
func (d *drawing) beyond(at time.Duration) int64 {
	span, off := int64(d.edge-d.from), int64(at-d.from)
	return picLeft + off/span*picPlot + off%span*picPlot/span
}

func (d *drawing) seconds(m time.Duration) string {
	return strconv.FormatFloat(m.Seconds(), 'f', -1, 64) + " s"
}

func (d *drawing) draw() []byte {
	type shown struct {
		leases []shownLease
		waits  []shownWait
		keys   []string
	}
	all := make([]shown, len(d.p.tracks))
	var tokens []string
	for i, t := range d.p.tracks {
		s := &all[i]
		s.leases, s.waits = t.shown(d.p, d.until)
		add := func(key string) {
			if !slices.Contains(s.keys, key) {
				s.keys = append(s.keys, key)
			}
			if !slices.Contains(d.keys, key) {
				d.keys = append(d.keys, key)
			}
		}
		for _, l := range s.leases {
			add(l.key)
			tokens = append(tokens, strconv.FormatUint(uint64(l.token), 10))
		}
		for _, x := range s.waits {
			add(x.key)
		}
		slices.Sort(s.keys)
	}
	slices.Sort(d.keys)
	d.prefix = commonPrefix(tokens)
	d.chooseArrows()

	d.head(tokens)
	d.bands()
	top := d.y
	d.y += 200
	laneTop := d.y
	for i, t := range d.p.tracks {
		d.lane(t, all[i].leases, all[i].waits, all[i].keys)
	}
	bottom := d.y
	d.grid(top, laneTop, bottom)
	d.messages(laneTop, bottom)
	if d.guilty() {
		x := d.x(d.run.Violation.At)
		d.line("violation", x, top, x, bottom, "", d.run.Violation.Error())
		d.text("bad", x+40, top+130, "violation")
	}
	d.y = bottom + 250
	if d.note != "" {
		d.text("small", picLeft, d.y, d.note)
		d.y += textLine
	}
	var b []byte
	b = fmt.Appendf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s">`+"\n%s", px(picWidth), px(d.y),
		px(picWidth), px(d.y), svgStyle)
	b = fmt.Appendf(b, `<rect class="paper" x="0" y="0" width="%s" height="%s"/>`+"\n", px(picWidth), px(d.y))
	b = append(b, d.Bytes()...)
	return append(b, "</svg>\n"...)
}

// commonPrefix returns how many leading digits may be left out. At least three digits stay, and all
// digits stay if the lengths differ.
func commonPrefix(of []string) int {
	if len(of) == 0 {
		return 0
	}
	n := max(0, len(of[0])-3)
	for _, s := range of {
		if len(s) != len(of[0]) {
			return 0
		}
		for n > 0 && s[:n] != of[0][:n] {
			n--
		}
	}
	return n
}

func (d *drawing) token(t vote.Token) string {
	s := strconv.FormatUint(uint64(t), 10)
	if d.prefix == 0 {
		return s
	}
	return "…" + s[d.prefix:]
}

func (d *drawing) colour(key string) string {
	// A key has the same colour in every picture of a run.
	return keyColours[d.run.KeyIndex(key)%len(keyColours)]
}

// inner returns the class of a text on a key's colour.
func (d *drawing) inner(key string) string {
	if slices.Contains([]string{"#e69f00", "#56b4e9", "#cc79a7"}, d.colour(key)) {
		return "in dark"
	}
	return "in"
}

// head writes title, verdict and legend.
func (d *drawing) head(tokens []string) {
	o := d.run
	names := fmt.Sprintf("%d voters", o.Voters)
	if n := len(d.p.tracks) - o.Voters; n > 0 {
		names += fmt.Sprintf(" and %d nodes that only lock", n)
	}
	d.text("big", 200, 260, fmt.Sprintf("lockmesh, simulated: seed %d, %s, maximum TTL %v", o.Seed, names, o.MaxTTL))
	d.y = 460
	if v := d.run.Violation; v == nil {
		d.text("good", 200, d.y, fmt.Sprintf("No violation up to %s. Shown: from %s to %s.", d.seconds(d.run.Lasted), d.seconds(d.from), d.seconds(d.until)))
	} else {
		d.text("bad", 200, d.y, fmt.Sprintf("VIOLATION of “%s” at %s. Shown: from %s to %s.", v.Check, d.seconds(v.At), d.seconds(d.from),
			d.seconds(d.until)))
		for _, line := range wrap(v.Text) {
			d.y += textLine
			d.text("", 200, d.y, line)
		}
	}
	d.y += 270
	d.legend(tokens)
}

// wrap breaks a text into lines.
func wrap(text string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		r := []rune(strings.ReplaceAll(line, "\t", "    "))
		for len(r) > lineRunes {
			cut := lineRunes
			for i := lineRunes; i > lineRunes/2; i-- {
				if r[i] == ' ' {
					cut = i
					break
				}
			}
			lines = append(lines, string(r[:cut]))
			r = r[cut:]
		}
		lines = append(lines, string(r))
	}
	if len(lines) > lineMost {
		lines = append(lines[:lineMost-1], "…")
	}
	return lines
}

// legend explains every shape, in as many rows as necessary.
func (d *drawing) legend(tokens []string) {
	x := int64(200)
	item := func(text string, draw func(x, y int64)) {
		if need := 380 + wide(text); x+need > picWidth-200 {
			x = 200
			d.y += 190
		}
		draw(x, d.y)
		d.text("", x+330, d.y+35, text)
		x += 480 + wide(text)*9/10
	}
	box := func(class, extra string) func(x, y int64) {
		return func(x, y int64) { d.rect(class, x, y-60, 270, 110, extra, "") }
	}
	for i, k := range d.keys {
		if i == 2*len(keyColours) {
			break
		}
		item("lease of "+short(k, 24), box("sample", ` fill="`+d.colour(k)+`"`))
	}
	first := keyColours[0]
	if len(d.keys) > 0 {
		first = d.colour(d.keys[0])
	}
	item("waits for the key", func(x, y int64) { d.line("wait", x, y, x+270, y, ` stroke="`+first+`"`, "") })
	item("lease over, its node doesn't know yet", box("sample tail", ` fill="`+first+`"`))
	item("lease lost", func(x, y int64) {
		d.rect("sample", x, y-60, 200, 110, ` fill="`+first+`"`, "")
		d.line("lost", x+200, y-70, x+200, y+60, "", "")
	})
	item("voter is quiet: its votes don't count", box("quiet", ""))
	item("doesn't run (stopped, suspended, paused)", box("pause", ""))
	item("dead", box("down", ""))
	item("crash", func(x, y int64) { d.cross(x+150, y, "") })
	item("start", func(x, y int64) { d.start(x+100, y, "") })
	item("clock stepped or retuned", func(x, y int64) { d.step(x+150, y, "") })
	item("no way between nodes (a | b: neither way); strip on the lanes of those cut off", func(x, y int64) {
		d.rect("cut", x, y-60, 270, 110, "", "")
		d.rect("strip", x, y-60, 270, 30, "", "")
	})
	item("connection held up", box("stall", ""))
	if len(d.p.breaks) > 0 {
		item("connection breaks", func(x, y int64) { d.line("break", x+150, y-70, x+150, y+70, "", "") })
	}
	if len(d.arrows) > 0 {
		item("message, from sending to arrival (faint: refreshes and their answers)", func(x, y int64) { d.line("arrow", x, y, x+270, y, "", "") })
	}
	d.y += 190
	hint := "Time is the world's own, seen by no node. In a viewer that shows titles, rest the mouse on a shape for its full story."
	if d.prefix > 0 {
		hint = fmt.Sprintf("Tokens are shown without the %d digits that all begin with (%s). %s", d.prefix, tokens[0][:d.prefix], hint)
	}
	d.text("small", 200, d.y+35, hint)
	d.y += 170
}

// short shortens a name if it is too long to show.
func short(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// lane draws one node.
func (d *drawing) lane(t *track, leases []shownLease, waits []shownWait, keys []string) {
	high := markHigh + 40 + rowHigh*int64(max(len(keys), 1))
	top := d.y
	spine := top + markHigh - 60
	d.spines = append(d.spines, spine)
	d.rect("down", picLeft, top, d.x(d.until)-picLeft, high, "", "")
	for _, s := range t.running {
		d.stretch("up", s, top, high, "runs as "+s.text)
	}
	for _, s := range t.quiet {
		d.stretch("quiet", s, top, high, "quiet")
	}
	d.strip(t.host, top)
	for _, s := range t.running {
		d.line("life", d.x(s.from), spine, d.x(min(s.to, d.until)), spine, "", "")
	}
	d.text("node", 200, top+150, d.p.hosts[t.host].name)
	role := "voter"
	if !d.p.hosts[t.host].voter {
		role = "only locks"
	}
	d.text("small", 200, top+280, role)
	for i, k := range keys {
		y := top + markHigh + 20 + rowHigh*int64(i)
		d.text("small", picLeft-50-wide(short(k, 10)), y+100, short(k, 10))
		d.leases(k, leases, y)
		for _, x := range waits {
			if x.key == k {
				d.line("wait", d.x(x.from), y+125, max(d.x(x.to), d.x(x.from)+10), y+125, ` stroke="`+d.colour(k)+`"`,
					fmt.Sprintf("request %d waits for %s from %s to %s", x.number, k, d.seconds(x.from), d.seconds(x.to)))
			}
		}
	}
	free := int64(0) // the x up to which labels are written
	for _, s := range t.pauses {
		d.stretch("pause", s, top, high, s.text)
		if x := d.x(s.from); x+20 > free && x < picWidth-picRight-wide(s.text) {
			d.text("over", x+20, top+120, s.text)
			free = x + wide(s.text)
		}
	}
	for _, s := range t.clocks {
		d.step(d.x(s.from), spine, s.text)
	}
	for _, s := range t.running {
		if s.from >= d.from {
			d.start(d.x(s.from), spine, fmt.Sprintf("starts at %s as %s", d.seconds(s.from), s.text))
		}
	}
	for _, at := range t.deaths {
		d.cross(d.x(at), spine, "dies at "+d.seconds(at))
	}
	d.y += high
	d.line("edge", 150, d.y+laneGap/2, picWidth-picRight, d.y+laneGap/2, "", "")
	d.y += laneGap
}

// stretch draws a span as a box, unless the span is outside the window.
func (d *drawing) stretch(class string, s stretch, y, high int64, tip string) {
	to := min(s.to, d.until)
	if s.from <= d.until && to >= d.from {
		d.rect(class, d.x(s.from), y, max(d.x(to)-d.x(s.from), 10), high, "", fmt.Sprintf("%s, from %s to %s", tip, d.seconds(s.from), d.seconds(to)))
	}
}

// leases draws a node's leases of one key.
func (d *drawing) leases(key string, leases []shownLease, y int64) {
	fill := ` fill="` + d.colour(key) + `"`
	for _, l := range leases {
		if l.key != key {
			continue
		}
		x, over, to := d.x(l.from), d.x(min(l.over, d.until)), d.x(min(l.to, d.until))
		class := "lease"
		if d.guilty() && l.over >= d.run.Violation.At && strings.Contains(d.run.Violation.Text, strconv.Quote(key)) {
			class = "lease guilty"
		}
		how := l.how
		if how == "" {
			how = "still held"
		}
		tip := fmt.Sprintf("%s, token %d, request %d: from %s to %s, %s", key, l.token, l.number, d.seconds(l.from), d.seconds(l.over), how)
		if to > over {
			d.rect("tail", over, y, to-over, 110, fill, tip+"; its node says so at "+d.seconds(l.to))
		}
		d.rect(class, x, y, max(over-x, 10), 110, fill, tip)
		// The lease may have begun at this very moment: its continuation shows the clash.
		if class != "lease" {
			x := d.x(d.until)
			d.rect("ghost", x, y, d.x(d.edge)-x, 110, "", tip)
		}
		for _, label := range []string{short(key, 24) + " " + d.token(l.token), d.token(l.token)} {
			if wide(label)+40 < over-x {
				d.text(d.inner(key), x+20, y+90, label)
				break
			}
		}
		if l.lost && l.to <= d.until {
			d.line("lost", over, y-10, over, y+120, "", tip)
		}
	}
}

// strip marks a lane while a way to or from its node is cut.
func (d *drawing) strip(host int, y int64) {
	end := int64(-1)
	for _, b := range d.p.openBands(d.until) {
		if b.stalled || b.way[0] != host && b.way[1] != host || b.from > d.until {
			continue
		}
		x, to := max(d.x(b.from), end), d.x(min(b.to, d.until))
		if to > x {
			d.rect("strip", x, y, to-x, 30, "", "")
			end = to
		}
	}
}

// grid draws the time axis, above and below the lanes.
func (d *drawing) grid(top, laneTop, bottom int64) {
	const most = 14
	step, ten := int64(1), int64(1) // 1, 2, 5, 10… nanoseconds
	for i := 1; int64(d.edge-d.from)/step > most; i++ {
		if step = ten * [...]int64{1, 2, 5}[i%3]; i%3 == 2 {
			ten *= 10
		}
	}
	for at := time.Duration((int64(d.from) + step - 1) / step * step); at <= d.edge; at += time.Duration(step) {
		x := d.x(at)
		d.line("grid", x, laneTop-40, x, bottom, "", "")
		label := d.seconds(at)
		if v := d.run.Violation; !d.guilty() || x+wide(label)/2 < d.x(v.At) {
			d.text("small", x-wide(label)*2/5, top+130, label)
		}
		d.text("small", x-wide(label)*2/5, bottom+110, label)
	}
}

// chooseArrows decides which messages to show, and notes the number of the others.
func (d *drawing) chooseArrows() {
	lock, upkeep := &d.p.lock, &d.p.upkeep
	const hint = "a shorter window shows them (the command's -from and -to)"
	switch {
	case lock.total <= lockArrowsMost && lock.total+upkeep.total <= arrowsMost:
		d.arrows = append(slices.Clone(lock.list), upkeep.list...)
	case lock.total <= lockArrowsMost:
		d.arrows = lock.list
		d.note = fmt.Sprintf("The %d refreshes and their answers aren't shown: %s.", upkeep.total, hint)
	default:
		d.note = fmt.Sprintf("The %d messages aren't shown: %s.", lock.total+upkeep.total, hint)
	}
}

// wordsMost is up to how many lock messages each message is labelled with its kind.
const wordsMost = 60

func (d *drawing) messages(top, bottom int64) {
	fmt.Fprintf(&d.Buffer, `<clipPath id="plot"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath>`+"\n", px(picLeft), px(top),
		px(d.x(d.until)-picLeft), px(bottom-top))
	d.WriteString(`<g clip-path="url(#plot)">` + "\n")
	defer d.WriteString("</g>\n")
	for _, b := range d.p.breaks {
		if b.at <= d.until {
			d.line("break", d.x(b.at), d.spines[b.a], d.x(b.at), d.spines[b.b], "", "a connection breaks at "+d.seconds(b.at))
		}
	}
	var words [][3]int64 // the places of labels, so that no label overlaps another
	for i := range d.arrows {
		a := &d.arrows[i]
		if a.sent > d.until {
			continue
		}
		class := "arrow"
		if a.kind.Urgent() {
			class = "upkeep"
		}
		from, to := d.p.hosts[a.from].name, d.p.hosts[a.to].name
		x1, y1, x2, y2 := d.beyond(a.sent), d.spines[a.from], d.beyond(a.came), d.spines[a.to]
		d.line(class, x1, y1, x2, y2, "", fmt.Sprintf("%s to %s, sent at %s, arrived at %s: %s", from, to, d.seconds(a.sent), d.seconds(a.came), a.text))
		if d.p.lock.total <= wordsMost && class == "arrow" {
			word := a.kind.String()
			x, y := x1+(x2-x1)/3+20, y1+(y2-y1)/3
			if !slices.ContainsFunc(words, func(o [3]int64) bool { return x < o[1] && o[0] < x+wide(word) && y < o[2]+90 && o[2] < y+90 }) {
				d.text("word", x, y, word)
				words = append(words, [3]int64{x, x + wide(word), y})
			}
		}
	}
}
