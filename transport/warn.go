package transport

import (
	"log/slog"
	"sync"
	"time"
)

// topic is what a warning is about. Each topic has a rate of its own.
type topic int

const (
	topicGarbage topic = iota // a peer that speaks nothing of ours
	topicSecret               // a peer without our secret
	topicTerms                // a peer with other terms
	topicDialed               // a peer that we dialed, and with which no link is possible
	topicBroken               // a link that broke by the peer's fault
	topicPackets              // packets of gossip dropped
	topicSocket               // our own sockets in trouble
	topics
)

// warnEvery is the least time between two lines on one topic: whoever can reach the port can cause them, and must not be able to
// fill a disk with them.
const warnEvery = time.Second

// warner logs at a bounded rate: at most one line a topic in warnEvery, with the count of those kept back since the last.
type warner struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	next [topics]time.Time // when the topic may speak again
	kept [topics]uint64    // lines kept back
}

func newWarner(logger *slog.Logger) *warner {
	return &warner{logger: logger, now: time.Now}
}

// warn logs a line, or counts it.
func (w *warner) warn(t topic, text string, attrs ...any) {
	kept, ok := w.admit(t)
	if !ok {
		return
	}
	if kept > 0 {
		attrs = append(attrs, "suppressed", kept)
	}
	w.logger.Warn(text, attrs...)
}

func (w *warner) admit(t topic) (kept uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Before(w.next[t]) {
		w.kept[t]++
		return 0, false
	}
	w.next[t] = now.Add(warnEvery)
	kept, w.kept[t] = w.kept[t], 0
	return kept, true
}

// flush says how many lines were kept back for good. Called when the port closes.
func (w *warner) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept uint64
	for t := range w.kept {
		kept += w.kept[t]
		w.kept[t] = 0
	}
	if kept > 0 {
		w.logger.Warn("transport kept back warnings of the last second", "suppressed", kept)
	}
}
