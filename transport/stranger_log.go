package transport

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// strangerLog is the log of strangers: a line soon after the first event, and then at most one a
// minute. The lock of admission guards the log.
type strangerLog struct {
	logger                      *slog.Logger
	by                          map[netip.Addr]uint64 // connections since the last line, by source
	silent, unfinished, evicted uint64
	last                        time.Time // when the last line was written
	timer                       *time.Timer
	due, over                   bool
}

// logEvent counts a connection, and schedules a log line; mu is held.
func (d *admission) logEvent(from netip.Addr, count *uint64) {
	*count++
	t := &d.log
	if _, counted := t.by[from]; counted || len(t.by) < countedSources {
		t.by[from]++
	}
	if t.due || t.over {
		return
	}
	t.due = true
	wait := logAfter
	if !t.last.IsZero() {
		wait = max(wait, logEvery-time.Since(t.last))
	}
	t.timer = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !t.over {
			t.write()
		}
	})
}

// write writes the log line, if there is any count to report; the lock of admission is held.
func (t *strangerLog) write() {
	if t.silent+t.unfinished+t.evicted == 0 {
		return
	}
	sources := slices.SortedFunc(maps.Keys(t.by), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(t.by[b], t.by[a]), a.Compare(b))
	})
	var from []string
	for _, s := range sources[:min(len(sources), loggedSources)] {
		from = append(from, fmt.Sprintf("%s (%d)", s, t.by[s]))
	}
	t.logger.Warn("connections came in that did not complete the handshake: keep strangers away "+
		"from the port; members still get in",
		"silent", t.silent, "unfinished", t.unfinished, "displaced", t.evicted,
		"from", from, "sources", len(sources))
	t.silent, t.unfinished, t.evicted = 0, 0, 0
	clear(t.by)
	t.last, t.due = time.Now(), false
}
