// Package conversation compares what a state machine says with texts in testdata: a change of
// behaviour is a change of text. The tests of lease (the voter) and quorum (the requester) use it.
package conversation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Machine is a state machine under test. Do carries out a command, and writes what the machine says
// to the buffer, each line indented by four spaces.
type Machine interface {
	Do(t *testing.T, words []string)
	Buffer() *bytes.Buffer
}

// TestAll plays each file testdata/*.txt to a new machine. With update, the files are written anew.
func TestAll(t *testing.T, update bool, newMachine func(t *testing.T) Machine) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := Play(t, newMachine(t), string(want))
			switch {
			case update:
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			case !bytes.Equal(got, want):
				t.Errorf("it says something else now (-update writes it down):\n%s", diff(string(want), string(got)))
			}
		})
	}
}

// Play plays a text to a machine, and returns the text with what the machine says now.
func Play(t *testing.T, m Machine, text string) []byte {
	t.Helper()
	buf := m.Buffer()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "    "):
			continue // what the machine said when the file was written
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(buf, line)
			continue
		}
		fmt.Fprintln(buf, line)
		m.Do(t, strings.Fields(line))
	}
	return buf.Bytes()
}

// diff marks the first difference between two texts, with the lines around the difference.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			at := func(s []string) string {
				if i < len(s) {
					return s[i]
				}
				return "(end)"
			}
			return fmt.Sprintf("line %d, after %q:\n  want %s\n  got  %s", i+1, strings.Join(w[max(0, i-3):min(i, len(w))], " / "), at(w), at(g))
		}
	}
	return "no difference"
}

// Options splits the words of a command into its options (name=value) and the other words.
func Options(args []string) (options map[string]string, words []string) {
	options = map[string]string{}
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok && !strings.Contains(k, ":") {
			options[k] = v
		} else {
			words = append(words, a)
		}
	}
	return options, words
}

// Show returns a function that appends to a buffer, after a space, what is set.
func Show(buf *bytes.Buffer) func(set bool, format string, args ...any) {
	return func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(buf, " "+format, args...)
		}
	}
}

// ViewText returns a view as text.
func ViewText(s vote.View) string {
	what := map[vote.State]string{
		vote.Holding: "holding", vote.Promised: "promised", vote.Waiting: "waiting", vote.Delayed: "resting",
		vote.Released: "freed", vote.Ended: "ended", vote.Changed: "changed",
	}[s.State]
	text := fmt.Sprintf("%s: %s %d %s %s", s.Key, s.Owner.Node, s.Number, s.Mode, what)
	if s.Permits != 0 {
		text += fmt.Sprintf(" permits=%d", s.Permits)
	}
	if s.Slot != 0 {
		text += fmt.Sprintf(" slot=%d", s.Slot)
	}
	if s.Try {
		text += " try"
	}
	text += fmt.Sprintf(" token=%d for=%v left=%v", s.Token, s.For, s.Left)
	if s.Version != 0 {
		text += fmt.Sprintf(" version=%d %q", s.Version, s.Value)
	}
	return text
}

// SpecOption reads an option of a request; false for any other option.
func SpecOption(w *vote.Spec, k, v string) bool {
	n := func() uint64 { n, _ := strconv.ParseUint(v, 10, 64); return n }
	d := func() time.Duration { d, _ := time.ParseDuration(v); return d }
	switch k {
	case "try":
		w.Try = true
	case "shared":
		w.Mode = vote.Shared
	case "permits":
		w.Mode, w.Permits = vote.Permit, uint16(n())
	case "beside":
		w.Beside = vote.Number(n())
	case "length":
		w.Length = d()
	case "delay":
		w.Delay = d()
	case "minhold":
		w.MinHold = d()
	case "ends":
		w.EndsAfter = d()
	default:
		return false
	}
	return true
}
