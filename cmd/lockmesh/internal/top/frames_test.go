package top

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/lockmesh/lockmesh/admin"
)

var update = flag.Bool("update", false, "write the pictures in testdata anew")

// hostileKey is a key able to change a terminal, with wide and combining characters.
const hostileKey = "日本語/e\u0301\u0301\u0301/\x1b[2J\x1b]0;owned\a/\u202ereversed\n"

// pictures are the screens of testdata. Each begins with a healthy mesh after one look.
var pictures = map[string]func(s *screen){
	"healthy": func(s *screen) {
		s.looks(healthy(s.now), keys(s.now), grantsOf(map[string]int{"jobs/1": 3, "hot/1": 1204, "hot/2": 17}))
	},
	"hottest": func(s *screen) {
		s.looks(healthy(s.now), keys(s.now), grantsOf(map[string]int{"jobs/1": 3, "hot/1": 1204, "hot/2": 17}))
		s.presses("s")
	},
	"quiet": func(s *screen) {
		status := healthy(s.now)
		e := &status.Electorate
		e.Counting, e.Spare = 2, 0
		e.Voters[2] = admin.Voter{
			Name: "gamma", State: "quiet", QuietMS: 3_200, Text: "gamma: quiet for another 3.2s", RoundTripUS: 410,
		}
		e.Voters[1].Drift = "gains 3% on this node's clock"
		s.looks(status, keys(s.now), seen{live: true})
	},
	"change": func(s *screen) {
		status := healthy(s.now)
		status.Draining = true
		e := &status.Electorate
		e.Dynamic, e.Version, e.Joint = true, 12, true
		e.Old, e.New = []string{"alpha", "beta", "gamma"}, []string{"alpha", "beta", "delta"}
		e.Voters = append(e.Voters, admin.Voter{Name: "delta", State: "connecting", Text: "delta: connecting (no answer yet)"})
		slices.SortFunc(e.Voters, func(a, b admin.Voter) int { return strings.Compare(a.Name, b.Name) })
		e.Change = "from alpha, beta, gamma to alpha, beta, delta: drains for another 4.1s"
		s.looks(status, keys(s.now), seen{live: true})
	},
	"no-majority": func(s *screen) {
		status := healthy(s.now)
		e := &status.Electorate
		e.Counting, e.Spare, e.Ready = 1, 0, false
		for i, name := range []string{"beta", "gamma"} {
			e.Voters[i+1] = admin.Voter{Name: name, State: "unreachable", RoundTripUS: 300,
				Text: name + ": unreachable (10.0.0." + fmt.Sprint(i+2) + ":7950: connect: connection refused)"}
		}
		e.Lost = "beta and gamma have been gone for 5m0s; if they are gone for good, see \"Lost for good\" in " +
			"docs/electorate.md, and name new voters with lockmesh recover"
		status.Refused = []admin.RefusedPeer{{Name: "delta", Addr: "10.0.0.4:7950", Reason: "max TTL 5s, here 10s"}}
		status.Waiting[0].Text = "1 of 3 voters counts: beta unreachable, gamma unreachable"
		s.looks(status, nil, seen{live: true})
	},
	"lost": func(s *screen) {
		s.looks(healthy(s.now), keys(s.now), seen{live: true})
		why := "no answer from the node at /run/lockmesh/lockmesh.sock: connection refused " +
			"(the node isn't up: it has ended, or listens elsewhere)"
		for range 3 {
			s.sends(beat{s.next}, looked{at: s.next.Add(time.Millisecond), why: why})
		}
		s.sends(beat{s.now.Add(time.Second)})
	},
	"late": func(s *screen) {
		s.sends(beat{s.next}, beat{s.next.Add(4 * time.Second)})
	},
	"paused": func(s *screen) {
		s.presses("p")
		s.sends(beat{s.now.Add(time.Minute)})
	},
	"many": func(s *screen) {
		s.looks(healthy(s.now), many(1000), seen{live: true})
		s.list.more = true
		s.presses("pgdown", "pgdown")
	},
	"none": func(s *screen) {
		status := healthy(s.now)
		status.Held, status.Waiting = nil, nil
		s.looks(status, nil, seen{live: true})
	},
	"hostile": func(s *screen) {
		status := healthy(s.now)
		status.Name, status.Addr = "alpha\x1b[31m", "10.0.0.1:7950\r\n"
		status.Electorate.Voters[1].Name = "be\tta\x9b31m"
		status.Waiting[0].Key, status.Waiting[0].Text = hostileKey, "held by \x1b[5mbeta"
		l := keys(s.now)[1:2]
		l[0].Key, l[0].Holders[0].Node, l[0].Holders[0].Value = hostileKey, "be\nta", admin.Value("v\x1b]0;x\a\xff")
		l[0].Waiters[0].Node = "wa\x1b[2Jiter"
		s.looks(status, l, grantsOf(map[string]int{hostileKey: 2}))
	},
	"hostile-detail": func(s *screen) {
		l := keys(s.now)[1:2]
		l[0].Key, l[0].Holders[0].Node, l[0].Holders[0].Value = hostileKey, "be\nta", admin.Value("v\x1b]0;x\a\xff")
		l[0].Waiters[0].Node = "wa\x1b[2Jiter"
		s.looks(healthy(s.now), l, seen{live: true})
		s.presses("enter")
		s.detailed(&l[0])
	},
	"typing": func(s *screen) { s.presses("/", "jobs/") },
	"filter": func(s *screen) {
		s.presses("/", "jobs/", "enter")
		s.looks(healthy(s.now), keys(s.now)[1:4], seen{live: true})
	},
	"filter-none": func(s *screen) {
		s.presses("/", "x", "enter")
		s.looks(healthy(s.now), nil, seen{live: true})
	},
	"detail": func(s *screen) {
		s.presses("enter")
		l := keys(s.now)[1]
		s.detailed(&l)
	},
	"detail-long": func(s *screen) {
		s.presses("enter")
		l := keys(s.now)[1]
		for i := range 40 {
			l.Waiters = append(l.Waiters, admin.Waiter{
				Node: fmt.Sprintf("node-%d", i), Mode: "shared", Try: i%2 == 0, Since: s.now,
			})
		}
		s.detailed(&l)
		s.presses("pgdown")
	},
	"prefix": func(s *screen) {
		s.Prefix = "jobs/"
		s.looks(healthy(s.now), keys(s.now), grantsOf(map[string]int{"jobs/1": 3}))
	},
	"closed": func(s *screen) {
		status := healthy(s.now)
		status.Closed, status.Electorate, status.Held, status.Waiting = true, admin.Electorate{}, nil, nil
		s.looks(status, nil, seen{why: "the node has ended"})
	},
	"long-value": func(s *screen) {
		l := keys(s.now)[5:]
		l[0].Holders[0].Value = admin.Value(strings.Repeat("日", 2000))
		s.looks(healthy(s.now), l, seen{live: true})
	},
	"help":      func(s *screen) { s.presses("?") },
	"no-grants": func(s *screen) { s.Count = false },
	"watch-broken": func(s *screen) {
		s.looks(healthy(s.now), keys(s.now), seen{why: "the node has 64 streams already, the most it has"})
	},
	"voters": func(s *screen) {
		status := healthy(s.now)
		e := &status.Electorate
		e.Voters = nil
		for i := range 15 {
			e.Voters = append(e.Voters, admin.Voter{Name: fmt.Sprintf("voter-%02d", i), State: "reachable", RoundTripUS: 700})
		}
		e.Voters[11].State, e.Voters[11].Text = "silent", "voter-11: silent for 3s"
		e.Counting, e.Majority, e.Spare = 14, 8, 6
		s.looks(status, keys(s.now), seen{live: true})
	},
}

// detailed has the node answer for the key of the detail.
func (s *screen) detailed(l *admin.Lock) {
	status := healthy(s.now)
	at := s.now.Add(time.Second)
	status.At = at
	s.sends(beat{at}, looked{at: at, status: status, seen: seen{live: true}},
		listed{at: at, prefix: s.filter, locks: keys(s.now)},
		inspected{at: at, key: s.detail.key, lock: l})
}

// picture returns a screen of a size.
func picture(name string, width, height int, colors bool) *screen {
	s := newScreen(Settings{Count: true, Colors: colors})
	s.sends(tea.WindowSizeMsg{Width: width, Height: height})
	s.looks(healthy(start), keys(start), seen{live: true})
	pictures[name](s)
	return s
}

// TestPictures: the screens are the files of testdata. Look at the changes made by -update: no
// test sees ugliness.
func TestPictures(t *testing.T) {
	if *update {
		old, err := filepath.Glob("testdata/*.txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := 0
	check := func(file, got string) {
		path := filepath.Join("testdata", file+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if string(want) != got {
			t.Errorf("%s shows\n%s\nand not\n%s\ngo test ./internal/top -update writes the pictures anew",
				file, got, want)
		}
	}
	for name := range pictures {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 15}} {
			check(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), picture(name, size[0], size[1], false).frame()+"\n")
		}
	}
	for _, name := range []string{"healthy", "lost", "no-majority"} {
		colors := strings.ReplaceAll(picture(name, 80, 24, true).frame(), "\x1b", "^[")
		check(name+"-colors", colors+"\n")
	}
	if files, _ := filepath.Glob("testdata/*.txt"); len(files) != found {
		t.Errorf("testdata has %d pictures, of which %d are tested", len(files), found)
	}
}

// sgr is a change of the looks of a text: the only control sequence of a picture.
var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// fits fails unless the picture is no larger than the screen, and changes nothing else of the
// terminal.
func (s *screen) fits(t *testing.T) {
	t.Helper()
	frame := s.frame()
	lines := strings.Split(frame, "\n")
	if len(lines) > s.height {
		t.Fatalf("at %dx%d the picture has %d lines:\n%s", s.width, s.height, len(lines), frame)
	}
	for _, l := range lines {
		if !s.Colors && sgr.MatchString(l) {
			t.Fatalf("a picture without colours has colours: %q", l)
		}
		l = sgr.ReplaceAllString(l, "")
		if cells(l) > s.width {
			t.Fatalf("at %dx%d a line has %d cells: %s", s.width, s.height, cells(l), l)
		}
		if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("at %dx%d the terminal gets more than text: %q", s.width, s.height, l)
		}
	}
}

// TestPicturesFit: no picture is larger than its screen or changes a terminal, whatever the size.
func TestPicturesFit(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		t.Run(name, func(t *testing.T) {
			for _, colors := range []bool{false, true} {
				s := picture(name, 80, 24, colors)
				for width := 1; width <= 130; width += 1 + width/8 {
					for height := 1; height <= 45; height += 1 + height/8 {
						s.sends(tea.WindowSizeMsg{Width: width, Height: height})
						s.fits(t)
					}
				}
			}
		})
	}
}

// FuzzTexts: no text of the mesh changes a terminal, wherever a node shows the text.
func FuzzTexts(f *testing.F) {
	f.Add(hostileKey, uint8(80), uint8(24))
	f.Add("\x1b[31m\r\n\u202e\x9b\xff", uint8(40), uint8(15))
	f.Add(strings.Repeat("日e\u0301\u200d🏳\ufe0f", 40), uint8(33), uint8(40))
	f.Fuzz(func(t *testing.T, text string, width, height uint8) {
		status := healthy(start)
		status.Name, status.Addr = text, text
		status.Refused = []admin.RefusedPeer{{Name: text, Addr: text, Reason: text}}
		status.Waiting = []admin.Request{{Key: text, Since: start, Text: text}}
		e := &status.Electorate
		e.Dynamic, e.Joint, e.Old, e.New = true, true, []string{text}, []string{text, text}
		e.Change, e.Trouble, e.Lost = text, text, text
		e.Voters[0] = admin.Voter{Name: text, State: text, Text: text, Drift: text}
		l := admin.Lock{
			Key:     text,
			Holders: []admin.Holder{{Node: text, Mode: text, Value: admin.Value(text)}},
			Waiters: []admin.Waiter{{Node: text, Mode: text, Value: admin.Value(text)}},
		}
		s := newScreen(Settings{Count: true, Prefix: text})
		s.sends(tea.WindowSizeMsg{Width: 1 + int(width), Height: 1 + int(height)})
		grants := grantsOf(map[string]int{text: 1, text + "1": 2})
		grants.why = text
		s.looks(status, []admin.Lock{l}, grants)
		s.fits(t)
		s.presses("s") // by grants
		s.fits(t)
		s.presses("/")
		s.sends(tea.PasteMsg{Content: text})
		s.fits(t)
		s.presses("esc", "home", "enter")
		s.fits(t)
		at := s.now.Add(time.Second)
		s.sends(beat{at}, looked{at: at, status: status, seen: grants}, listed{at: at, prefix: text, why: text})
		if d := s.detail; d != nil {
			s.sends(inspected{at: at, key: d.key, lock: &l, why: text})
			s.fits(t)
		}
		s.sends(beat{at.Add(time.Minute)}, looked{at: at.Add(time.Minute), why: text})
		s.fits(t)
	})
}
