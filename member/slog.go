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

// lineMax is how much of a gossip log line is kept, in bytes. memberlist prints whole byte slices of peers.
const lineMax = 1024

// Lines above Debug are let through at linesPerSecond with a burst of linesBurst: an unknown sender can make memberlist write one
// for every packet. The burst covers what a mesh of a few dozen nodes has to say when it starts.
const (
	linesPerSecond = 5
	linesBurst     = 100
)

// A lineWriter turns lines of serf's and memberlist's *log.Logger ("[WARN] memberlist: ...") into records of the same level. One
// line in is one record out, unless there are too many; then the next record says how many were left out.
type lineWriter struct {
	out *slog.Logger

	mu         sync.Mutex
	tokens     float64
	filled     time.Time
	suppressed int
}

// newLineLogger returns a logger for serf and memberlist that writes to out.
func newLineLogger(out *slog.Logger) *log.Logger {
	return log.New(&lineWriter{out: out, tokens: linesBurst, filled: time.Now()}, "", 0)
}

// Write takes one line: log.Logger calls it once for each. It never fails.
func (w *lineWriter) Write(line []byte) (int, error) {
	level, text := parseLine(line)
	ctx := context.Background()
	if !w.out.Enabled(ctx, level) {
		return len(line), nil
	}
	missed, ok := w.take(level)
	switch {
	case !ok:
	case missed > 0:
		w.out.Log(ctx, level, text, "suppressed", missed)
	default:
		w.out.Log(ctx, level, text)
	}
	return len(line), nil
}

// take reports whether a record of the level may go out, and how many were left out before it. Debug is asked for by whoever
// debugs, and is not limited.
func (w *lineWriter) take(level slog.Level) (missed int, ok bool) {
	if level <= slog.LevelDebug {
		return 0, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.tokens = min(linesBurst, w.tokens+now.Sub(w.filled).Seconds()*linesPerSecond)
	w.filled = now
	if w.tokens < 1 {
		w.suppressed++
		return 0, false
	}
	w.tokens--
	missed, w.suppressed = w.suppressed, 0
	return missed, true
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

// everyday are lines that memberlist takes for trouble and that aren't, so that they go to Debug.
var everyday = []string{
	refusedMark,                 // what we said ourselves, repeated with every packet
	"Conflicting address for",   // a node is back under another port; two live processes with one name are told by us
	"Refuting an alive message", // this node is back under the same name, and an old word of it still goes round
	errCut.Error(),              // a word to a peer after this node's gossip has ended
}

// parseLine splits a line into its level and its text. A line without a level is taken for Info.
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
