package shrink

import (
	"fmt"
	"go/format"
	"io"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// Test returns the name of the test that WriteTest writes.
func (s *Result) Test() string { return fmt.Sprintf("TestShrunkSeed%d", s.seed) }

// testFormat is a Go file before gofmt.
const testFormat = `package sim_test

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/sim"
%[6]s)

// %[1]s replays a shrunk run of seed %[2]d, which failed with
//
//	%[3]s
//
// The test passes once the fault is mended. The seed may differ: the random draws that the failure
// needs are kept. Put the file into the folder sim, and name the test after the fault.
func %[1]s(t *testing.T) {
	w := sim.New(%[4]s)
	w.Run(%[5]s)
	if err := w.Settle(); err != nil {
		t.Error(err)
	}
}
`

// textMost is how many bytes of a violation's text the test's comment repeats.
const textMost = 300

// WriteTest writes a Go file with a test that replays the run: the test fails while the fault
// exists, and passes afterwards. Options.Build is left out, since only the simulator's own tests
// set this field.
func (s *Result) WriteTest(out io.Writer) error {
	text, _, _ := strings.Cut(s.Violation.Error(), "\n")
	if len(text) > textMost {
		text = strings.ToValidUTF8(text[:textMost], "") + "…"
	}
	options, imports := literal(s.Options), ""
	if strings.Contains(options, "fault.") {
		imports = "\t\"github.com/lockmesh/lockmesh/sim/fault\"\n"
	}
	code := fmt.Sprintf(testFormat, s.Test(), s.seed, text, options, durationLiteral(s.Length), imports)
	b, err := format.Source([]byte(code))
	if err != nil {
		return fmt.Errorf("the test that was written isn't Go: %w", err)
	}
	_, err = out.Write(b)
	return err
}

// pictured is how much of a run a picture shows before the violation.
const pictured = 10 * time.Second

// WritePicture runs the world once more and draws the time before the violation, as
// [sim.World.WritePicture] does.
func (s *Result) WritePicture(out io.Writer) error {
	o := s.Options
	o.Picture = &timeline.Recording{From: max(0, s.Violation.At-pictured)}
	w := sim.New(o)
	w.Run(s.Length)
	_ = w.Settle() // the violation is known
	return w.WritePicture(out)
}
