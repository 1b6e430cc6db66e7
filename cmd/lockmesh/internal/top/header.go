package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// headerLines returns the part of the screen above the table, the most important line first.
func (m *Model) headerLines() []line {
	out := m.connection()
	picture := append([]line{m.verdict(), m.nodeLine()}, m.voterLines()...)
	picture = append(picture, m.troubleLines()...)
	picture = append(picture, m.ownLine(), m.meshLine())
	for _, l := range picture {
		if m.isOld() {
			l = l.in(dim)
		}
		out = append(out, l)
	}
	return out
}

// connection says in a line that the picture below isn't the present, and why.
func (m *Model) connection() []line {
	asOf := "below: as of " + clock(m.statusAt)
	text := fmt.Sprintf("NO ANSWER from the node for %s", age(m.now.Sub(m.statusAt)))
	switch {
	case m.lost != nil:
		try := "; asking again"
		if d := m.next.Sub(m.now).Round(time.Second); !m.asking && d > 0 {
			try = fmt.Sprintf("; next try in %v", d)
		}
		first := say(bad, "%s%s", text, firstFit(m.width-cells(text)-cells(asOf)-2, try, ""))
		first = first.with(say(none, "%s", asOf), m.width)
		return append([]line{first}, wrap(m.lost.why, m.width, troubleLong, bad)...)
	case m.isLate():
		return []line{say(bad, "%s", text).with(say(none, "%s", asOf), m.width)}
	case m.paused:
		return []line{say(warn, "PAUSED; p goes on").with(say(none, "%s", asOf), m.width)}
	}
	return nil
}

// verdict says whether locks can be granted.
func (m *Model) verdict() line {
	e := &m.status.Electorate
	count, all := e.Counting, len(e.Voters)
	whole := fmt.Sprintf("%s, %d needed", plain.Counting(count, all), e.Majority)
	var text string
	var p paint
	room := m.width - len("15:04:05") - 2
	if !e.Ready {
		p, text = bad, firstFit(room,
			"LOCKS CAN'T BE GRANTED: "+whole,
			"NO LOCKS: "+whole,
			fmt.Sprintf("NO LOCKS: %d of %d, %d needed", count, all, e.Majority))
	} else {
		spare := "no voter may fail"
		if p = warn; e.Spare > 0 {
			p, spare = good, fmt.Sprintf("%d may fail", e.Spare)
		}
		if all == 1 {
			p = good // nothing has happened: the mesh was founded so
		}
		text = firstFit(room,
			"locks can be granted: "+whole+", "+spare,
			fmt.Sprintf("locks: %d of %d count, %d needed, %s", count, all, e.Majority, spare),
			fmt.Sprintf("locks: %d of %d, %s", count, all, spare))
	}
	return line{{text, p}}.with(say(none, "%s", clock(m.statusAt)), m.width)
}

// nodeLine names the asked node.
func (m *Model) nodeLine() line {
	s := m.status
	l := line{{"node ", none}, {s.Name, bold}, {" at " + s.Addr, none}}
	switch {
	case s.Closed:
		l = append(l, span{", WHICH HAS ENDED", bad})
	case s.Draining:
		l = append(l, span{", which takes no more locks", warn})
	}
	return l.with(say(none, "a look every %v", m.Every), m.width)
}

// voterPaints are the looks of the states of a voter. Other states are bad.
var voterPaints = map[string]paint{"reachable": good, "quiet": warn, "connecting": warn}

// votersLeast is the number of voters with room on the smallest screen: most meshes have three or
// five.
const votersLeast = 5

// voterLines has a line for each voter as far as there is room; voters that don't count come first
// if there isn't.
func (m *Model) voterLines() (out []line) {
	e := &m.status.Electorate
	voters, most := e.Voters, max(votersLeast, m.height/4)
	if len(voters) > most {
		voters = slices.SortedStableFunc(slices.Values(voters), func(a, b admin.Voter) int {
			return cmp.Compare(order(&a), order(&b))
		})
	}
	name, state := 0, 0
	for _, v := range voters {
		name, state = max(name, cells(shown(v.Name))), max(state, cells(v.State))
	}
	name = min(name, max(8, m.width/3))
	for i, v := range voters {
		if i == most-1 && len(voters) > most {
			rest, bads := voters[i:], 0
			for _, v := range rest {
				if v.State != "reachable" {
					bads++
				}
			}
			what := "all reachable"
			if bads > 0 {
				what = group(bads) + " of them not reachable"
			}
			return append(out, say(none, "  and %s more, %s", group(len(rest)), what))
		}
		p, ok := voterPaints[v.State]
		if !ok {
			p = bad
		}
		l := line{{"  " + fit(v.Name, name, false) + "  ", none}, {fit(v.State, state, false), p}}
		l = append(l, span{"  " + fit(m.far(&v), len("99.99ms"), true), none})
		if text := m.voterText(&v); text != "" {
			l = append(l, span{"  " + text, none})
		}
		out = append(out, l)
	}
	return out
}

// order puts voters that don't count before those that do.
func order(v *admin.Voter) int {
	if v.State == "reachable" && v.Drift == "" {
		return 1
	}
	return 0
}

// far is the round trip to a voter.
func (m *Model) far(v *admin.Voter) string {
	switch {
	case v.Name == m.status.Name:
		return "self"
	case v.State == "unreachable" || v.State == "connecting":
		return "-" // the last measurement is from before the loss
	}
	return roundTrip(v.RoundTripUS)
}

// voterText is what else there is to know about a voter: a wrong clock, the voter's part in a
// change of the electorate, and why the voter doesn't count. The screen may cut the last.
func (m *Model) voterText(v *admin.Voter) string {
	e := &m.status.Electorate
	var texts []string
	if v.Drift != "" {
		texts = append(texts, "CLOCK: "+v.Drift)
	}
	if e.Joint {
		switch {
		case !slices.Contains(e.New, v.Name):
			texts = append(texts, "is being voted out")
		case !slices.Contains(e.Old, v.Name):
			texts = append(texts, "is being voted in")
		}
	}
	if v.State == "quiet" && v.QuietMS > 0 {
		texts = append(texts, "counts in "+age(plain.Milliseconds(v.QuietMS)))
	} else if t := plain.Voter(v); t != "" {
		texts = append(texts, t)
	}
	return strings.Join(texts, "; ")
}

const (
	// troubleMost is the largest number of lines about troubles on a screen of the usual height:
	// the voters and the keys are needed besides.
	troubleMost = 6

	// troubleLong is the largest number of lines for a single trouble.
	troubleLong = 2
)

// troubleLines says what is wrong, or changes, besides the voters' states.
func (m *Model) troubleLines() (out []line) {
	e := &m.status.Electorate
	add := func(p paint, what, text string) {
		if text != "" {
			out = append(out, wrap(what+": "+text, m.width, troubleLong, p)...)
		}
	}
	add(bad, "lost", e.Lost)
	add(bad, "trouble", e.Trouble)
	for _, r := range m.status.Refused {
		add(bad, "refused", r.Name+" at "+r.Addr+": "+r.Reason)
	}
	change, text := "change", e.Change
	if e.Joint {
		change = fmt.Sprintf("electorate %d changes", e.Version)
		text = cmp.Or(text, "from "+strings.Join(e.Old, ", ")+" to "+strings.Join(e.New, ", "))
	}
	add(warn, change, text)
	if most := min(troubleMost, max(1, m.height/4)); len(out) > most {
		more := len(out) - most + 1
		out = append(out[:most-1],
			say(warn, "and %s more; lockmesh status has all", plain.Count(more, "line")))
	}
	return out
}

// ownLine is about the leases and requests of the node.
func (m *Model) ownLine() line {
	s := m.status
	text := "node: " + plain.Count(len(s.Held), "lease")
	if len(s.Held) > 0 {
		least := s.Held[0].LeftMS
		for _, h := range s.Held {
			least = min(least, h.LeftMS)
		}
		text += ", least time left " + age(plain.Milliseconds(least))
	}
	l := line{{text, none}}
	if len(s.Waiting) == 0 {
		return append(l, span{"; 0 wait", none})
	}
	oldest := s.Waiting[0] // the node has the longest wait first
	return append(l, span{fmt.Sprintf("; %s, longest %s for %s: %s", waits(len(s.Waiting)),
		age(s.At.Sub(oldest.Since)), oldest.Key, oldest.Text), none})
}

// waits is a number of requests with a verb.
func waits(n int) string {
	if n == 1 {
		return "1 waits"
	}
	return group(n) + " wait"
}

// meshLine is about the keys, and the grants.
func (m *Model) meshLine() line {
	l := m.keysText()
	switch rate, known := m.rate.perSecond(); {
	case !m.Count:
	case !m.watch.live && m.watch.why != "":
		l = append(l, span{"; grants aren't counted: " + m.watch.why, warn})
	case known:
		of := ""
		if m.Prefix != "" {
			of = " of " + m.Prefix
		}
		l = append(l, span{fmt.Sprintf("; %.1f grants/s%s seen, %s in %s", rate, of, group(m.rate.total),
			age(m.statusAt.Sub(m.rate.since))), none})
		if m.gaps > 0 {
			l = append(l, span{", some missed", warn})
		}
	}
	return l
}

// keysText says how many keys there are, or why the number isn't known.
func (m *Model) keysText() line {
	n := len(m.list.locks)
	if m.list.at.IsZero() {
		if m.list.why != "" {
			return say(warn, "mesh: the keys aren't known, %s", m.list.why)
		}
		return say(none, "mesh: asking for the keys")
	}
	waiting := 0
	for i := range m.list.locks {
		waiting += len(m.list.locks[i].Waiters)
	}
	text := fmt.Sprintf("%s in use, %s", countKeys(n), waits(waiting))
	switch {
	case m.list.why != "":
		return say(warn, "mesh, as of %s, %s: %s", clock(m.list.at), m.list.why, text)
	case m.list.more:
		return say(warn, "mesh: MORE than %s; only the first by name are shown and sorted (/ narrows)",
			countKeys(n))
	}
	return line{{"mesh: " + text, none}}
}

func countKeys(n int) string {
	if n == 1 {
		return "1 key"
	}
	return group(n) + " keys"
}
