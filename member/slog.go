package member

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// lineMax is how much of a gossip log line is kept, in bytes. memberlist prints whole byte slices
// of peers.
const lineMax = 1024

// sumEvery is the minimum time between two complaints of serf or memberlist logged above Debug.
// While a network is cut, serf and memberlist write one or two complaints a second on every node,
// most of them about the same problem; lockmesh itself logs all that an operator must know about
// the cut.
const sumEvery = time.Minute

// A lineWriter converts lines of serf's and memberlist's *log.Logger ("[WARN] memberlist: ...") to
// records. All lines are logged as Debug, except that one complaint (Warn or above) a minute is
// logged as Info, with the number of complaints since the previous Info record.
type lineWriter struct {
	out *slog.Logger

	mu   sync.Mutex
	next time.Time // when a complaint is next logged as Info
	more int       // complaints logged as Debug since the last Info record
}

// newLineLogger returns a logger for serf and memberlist that writes to out.
func newLineLogger(out *slog.Logger) *log.Logger {
	return log.New(&lineWriter{out: out}, "", 0)
}

// Write receives one line, since log.Logger calls Write once per line. It never fails.
func (w *lineWriter) Write(line []byte) (int, error) {
	level, text := parseLine(line)
	ctx := context.Background()
	if level >= slog.LevelWarn {
		if more, due := w.complain(); due {
			w.out.Info("gossip has reported a problem; it may be over", "complaint", text, "more_since_the_last", more)
			return len(line), nil
		}
	}
	w.out.Log(ctx, slog.LevelDebug, text, "reported_as", level)
	return len(line), nil
}

// complain reports whether a complaint is due as Info, and how many complaints were logged as Debug
// before.
func (w *lineWriter) complain() (more int, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Before(w.next) {
		w.more++
		return 0, false
	}
	w.next = now.Add(sumEvery)
	more, w.more = w.more, 0
	return more, true
}

var linePrefixes = []struct {
	prefix string
	level  slog.Level
}{
	{"[DEBUG]", slog.LevelDebug},
	{"[INFO]", slog.LevelInfo},
	{"[WARN]", slog.LevelWarn},
	{"[ERR]", slog.LevelError},
	{"[ERROR]", slog.LevelError},
}

// everyday lists harmless lines that memberlist logs as trouble; they are logged as Debug.
var everyday = []string{
	refusedPrefix, // our own refusals, repeated with every packet
	// a node is back under another port; duplicate names are reported by duplicateNames
	"Conflicting address for",
	// This node is back under the same name, and an old message about the node still circulates.
	"Refuting an alive message",
	// Close ends the gossip as a crash does, and Leave and Stop have told the members before.
	"Shutdown without a Leave",
	errClosed.Error(), // a message to a peer after this node's gossip has ended
	// A stream abandoned by its dialer before the first byte, common where many nodes start at
	// once.
	`unacceptable label ""`,
}

// parseLine splits a line into its level and its text. A line without a level counts as Info.
func parseLine(line []byte) (slog.Level, string) {
	line = bytes.TrimSpace(line)
	level := slog.LevelInfo
	for _, p := range linePrefixes {
		if rest, ok := bytes.CutPrefix(line, []byte(p.prefix)); ok {
			level, line = p.level, bytes.TrimSpace(rest)
			break
		}
	}
	for _, p := range everyday {
		if bytes.Contains(line, []byte(p)) {
			level = slog.LevelDebug
		}
	}
	if len(line) > lineMax {
		return level, strings.ToValidUTF8(string(line[:lineMax]), "") + "..."
	}
	return level, string(line)
}
