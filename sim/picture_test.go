package sim

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// depict runs a seed and returns the world and its picture.
func depict(t *testing.T, o Options, length time.Duration, p timeline.Recording) (*World, []byte) {
	t.Helper()
	o.Picture = &p
	w := New(o)
	w.Run(length)
	var b bytes.Buffer
	if err := w.WritePicture(&b); err != nil {
		t.Fatal(err)
	}
	return w, b.Bytes()
}

// count reads a picture as XML and counts its elements by name and class.
func count(t *testing.T, picture []byte) map[string]int {
	t.Helper()
	n := make(map[string]int)
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("the picture isn't well-formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			class := ""
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					class = a.Value
				}
			}
			n[e.Name.Local+"."+class]++
		}
	}
}

func TestTheSameSeedGivesTheSamePicture(t *testing.T) {
	eachSeed(t, 8, func(t *testing.T, seed uint64) {
		w, a := depict(t, Draw(seed), 15*time.Second, timeline.Recording{})
		_, b := depict(t, Draw(seed), 15*time.Second, timeline.Recording{})
		if !bytes.Equal(a, b) {
			t.Error("two runs of one seed give two pictures")
		}
		if _, c := depict(t, Draw(seed+1), 15*time.Second, timeline.Recording{}); bytes.Equal(a, c) {
			t.Error("two seeds give one picture")
		}
		unseen := New(Draw(seed))
		unseen.Run(15 * time.Second)
		if unseen.Hash() != w.Hash() {
			t.Error("to draw a run changes it")
		}
	})
}

func TestAPictureShowsEveryLease(t *testing.T) {
	eachSeed(t, 8, func(t *testing.T, seed uint64) {
		w, whole := depict(t, Draw(seed), 20*time.Second, timeline.Recording{})
		n := count(t, whole)
		if got, want := n["rect.lease"], int(w.Figures().Acquisitions); got != want || want == 0 {
			t.Errorf("%d leases are drawn, %d were granted", got, want)
		}
		// The legend has one of each.
		if got, want := n["path.death"]-1, int(w.Figures().Crashes); got != want {
			t.Errorf("%d crashes are drawn of %d", got, want)
		}
		if got, want := n["path.birth"]-1, int(w.Figures().Restarts)+len(w.hosts); got != want {
			t.Errorf("%d starts are drawn of %d", got, want)
		}
		// A window shows the leases granted before its end and not ended before its start.
		short, early := New(Draw(seed)), New(Draw(seed))
		early.Run(8 * time.Second)
		held := 0
		for _, k := range early.judge.lockKeys {
			held += len(k.holds)
		}
		_, window := depict(t, Draw(seed), 20*time.Second, timeline.Recording{From: 8 * time.Second, To: 12 * time.Second})
		short.Run(12 * time.Second)
		want := held + int(short.Figures().Acquisitions-early.Figures().Acquisitions)
		if got := count(t, window)["rect.lease"]; got != want {
			t.Errorf("the window shows %d leases of %d", got, want)
		}
	})
}

func TestAPictureOfAScene(t *testing.T) {
	p := &timeline.Recording{}
	s := awake(t, Options{Voters: 5, Picture: p})
	from := s.Now()
	a := s.holds("a", "<k>")
	s.Split([]string{"a", "b"}, []string{"c", "d", "e"})
	s.becomes(a, Lost, 2*sceneTTL)
	s.CutOneWay("c", "d")
	s.Stop("e")
	s.Run(100 * time.Millisecond)
	s.Join([]string{"a", "b"}, []string{"c", "d", "e"})
	release := s.Stall("a", "b", false)
	s.Run(100 * time.Millisecond)
	s.MendOneWay("c", "d")
	s.Continue("e")
	release()
	p.From = from
	var b bytes.Buffer
	if err := s.WritePicture(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a b | c d e", "nothing from c to d", "held up: a→b", "&lt;k&gt;", ">stopped<", `class="lost"`, "No violation"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture doesn't say %s", want)
		}
	}
	count(t, b.Bytes())
}

func TestAPictureMarksTheViolation(t *testing.T) {
	o := Draw(7)
	o.MaxTTL, o.TTL = 5*time.Second, nil
	// A node without a startup quarantine.
	o.Build = func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		now.Slow = now.Slow.Add(-cfg.MaxTTL)
		return node.New(cfg, now)
	}
	w, picture := depict(t, o, 20*time.Second, timeline.Recording{})
	if w.Err() == nil {
		t.Fatal("nothing is violated")
	}
	if n := count(t, picture); n["line.violation"] != 1 {
		t.Errorf("%d red lines", n["line.violation"])
	}
	if !bytes.Contains(picture, []byte("VIOLATION of “"+w.failed.Check)) {
		t.Error("the picture doesn't say what is violated")
	}
}

func TestAPictureShowsMessagesWhenThereIsRoom(t *testing.T) {
	p := &timeline.Recording{}
	s := awake(t, Options{Picture: p})
	drawn := func(from time.Duration) map[string]int {
		p.From = from
		var b bytes.Buffer
		if err := s.WritePicture(&b); err != nil {
			t.Fatal(err)
		}
		return count(t, b.Bytes())
	}
	from := s.Now()
	s.holds("a", "k")
	s.Run(10 * time.Millisecond)
	// One arrow for the legend; for each of two voters a request, a report and a promise.
	if n := drawn(from)["line.arrow"]; n < 1+2*3 {
		t.Errorf("only %d messages are drawn", n)
	}
	for range 100 {
		s.Release(s.holds("b", "l"))
		s.Run(50 * time.Millisecond)
	}
	if n := drawn(from)["line.arrow"]; n != 0 {
		t.Errorf("%d messages are drawn; nobody can read so many", n)
	}
}

func TestAPictureNeedsSomethingToShow(t *testing.T) {
	w := New(Options{})
	if err := w.WritePicture(io.Discard); err == nil {
		t.Error("a picture of nothing recorded")
	}
	w = New(Options{Picture: &timeline.Recording{From: time.Minute}})
	w.Run(time.Second)
	if err := w.WritePicture(io.Discard); err == nil || !strings.Contains(err.Error(), "lasted 1s") {
		t.Errorf("a window after the run's end: %v", err)
	}
}
