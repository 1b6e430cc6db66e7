package electorate

import (
	"fmt"
	"strings"
	"testing"
)

// seatTable is the table of docs/electorate.md: for each number of voters, of absent voters among
// them, and of nodes on standby, the number of the next voters, and how many of these are absent
// voters that keep their seats: "5-1" (there "4+1"). A dot is no change. There is no row where too
// few voters are left to decide anything.
const seatTable = `
voters absent | on standby: 0    1    2    3
1      0      |             .    .    3    3
2      0      |             .    3    3    3
3      0      |             .    .    5    5
3      1      |             .    3    3    3
4      0      |             3    5    5    7
4      1      |             3    3    5    5
5      0      |             .    .    7    7
5      1      |             .    5    5    7
5      2      |             3    5-1  5    5
6      0      |             5    7    7    7
6      1      |             5    5    7    7
6      2      |             5-1  5    5    7
7      0      |             .    .    .    .
7      1      |             .    7    7    7
7      2      |             5    7-1  7    7
7      3      |             5-1  5    7-1  7
`

// TestSeatsOfAnEvenMinimum: an even number of voters that is the minimum isn't lowered by one, and
// a node on standby still takes the place of a voter that is absent.
func TestSeatsOfAnEvenMinimum(t *testing.T) {
	for _, c := range []struct {
		least         int
		e, others     string
		target, wants string
	}{
		{1, "3: a b c", "b=leaving c=leaving", "a, c", "one of the two that leave votes for now"},
		{1, "3: a b c", "b c=leaving", "a, b", "two are enough"},
		{4, "3: a b c d", "b c d=gone s", "a, b, c, s", "no empty seat"},
		{4, "3: a b c d", "b c d=gone", "", "nothing is better"},
		{4, "3: a b c d", "b c d s", "a, b, c, d, s", "five"},
		{4, "3: a b c d e", "b c d=leaving e", "a, b, c, e", "four are enough"},
		{4, "3: a b c d e", "b c d=gone e=gone s", "a, b, c, d, s", "a seat is kept"},
		{4, "3: a b c d e f", "b c d e f", "a, b, c, d, e", "five"},
		{6, "3: a b c d e f", "b c d e f=gone s", "a, b, c, d, e, s", "no empty seat"},
		{6, "3: a b c d e f", "b c d e=gone f=gone s", "a, b, c, d, e, s", "a seat is kept"},
		{6, "3: a b c d e f", "b c d e=leaving f=gone s", "a, b, c, d, e, s", "the leaving voter stays for now"},
		{6, "3: a b c d e f g", "b c d e f=gone g=gone", "", "nothing is better"},
		{3, "3: a b c d e f g", "b=leaving c=leaving d=leaving e=leaving f=leaving g=leaving s t", "a, f, g, s, t", "both come in by one change"},
		{3, "3: a b c d e f g", "b=leaving c=leaving d=leaving e=leaving f=leaving g=leaving s t u v w", "a, e, f, g, s, t, u", "seven at most"},
		{3, "3: a b c d e", "b c d=leaving e=leaving s", "a, b, c", "no voter that leaves is needed"},
	} {
		b := scene(t, c.e, c.others)
		b.m.cfg.Expect, b.m.cfg.MinVoters = c.least, c.least
		if target, reason := b.m.target(); names(target) != c.target {
			t.Errorf("%d at least, of %s with %s: to %q (%s), want %q, %s", c.least, c.e, c.others, names(target), reason, c.target, c.wants)
		}
	}
}

// Holds the rule to its table and to its purpose, for each number of voters: no absent voter is
// voted out except for a smaller majority, or for another node in its place; and no change makes
// the mesh survive fewer failures.
func TestSeats(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(seatTable), "\n")[1:]
	for _, line := range rows {
		var voters, away int
		left, right, _ := strings.Cut(line, "|")
		if _, err := fmt.Sscan(left, &voters, &away); err != nil {
			t.Fatal(err)
		}
		for standbys, want := range strings.Fields(right) {
			var all, others []string
			for i := range voters {
				name := string(rune('a' + i))
				all = append(all, name)
				if i >= voters-away {
					name += "=gone"
				}
				if i > 0 {
					others = append(others, name)
				}
			}
			for i := range standbys {
				others = append(others, string(rune('s'+i)))
			}
			b := scene(t, "3: "+strings.Join(all, " "), strings.Join(others, " "))
			target, reason := b.m.target()
			name := fmt.Sprintf("%d voters, %d absent, %d on standby: to %s (%s)", voters, away, standbys, names(target), reason)
			kept, out, in := 0, voters, 0
			for _, v := range target {
				switch i := int(v.Name[0] - 'a'); {
				case i < voters-away:
					out--
				case i < voters:
					out--
					kept++
				default:
					in++
				}
			}
			got := "."
			if target != nil {
				got = fmt.Sprint(len(target))
			}
			if kept > 0 {
				got += fmt.Sprintf("-%d", kept)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			if target == nil {
				continue
			}
			before, after := voters/2+1, len(target)/2+1
			if out > in && after >= before {
				t.Errorf("%s: %d out and %d in, and %d votes are needed where it were %d", name, out, in, after, before)
			}
			if spare, was := len(target)-kept-after, voters-away-before; spare < was {
				t.Errorf("%s: %d more may fail, where it were %d", name, spare, was)
			}
		}
	}
}
