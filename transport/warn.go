package transport

import (
	"log/slog"
	"sync"
	"time"
)

// topic is the subject of a warning. Each topic has a rate of its own.
type topic int

const (
	topicGarbage topic = iota // a peer outside our protocols
	topicSecret               // a peer without our secret
	topicTerms                // a peer with other terms
	topicDialed               // a dialed peer with incompatible configuration
	topicBroken               // a link broken by the peer's fault
	topicPackets              // dropped gossip packets
	topicSocket               // trouble with our own sockets
	topics
)

// warnEvery is the minimum time between two lines on one topic: any peer that reaches the port can
// cause log lines, and must not be able to fill a disk.
const warnEvery = time.Second

// warner logs at a bounded rate: at most one line per topic in warnEvery, with the count of lines
// suppressed since the previous line.
type warner struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	next [topics]time.Time // the earliest time of the topic's next line
	kept [topics]uint64    // lines suppressed
}

func newWarner(logger *slog.Logger) *warner {
	return &warner{logger: logger, now: time.Now}
}

// warn logs a line, or counts it as suppressed.
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

// flush logs how many lines were suppressed for good, when the port closes.
func (w *warner) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept uint64
	for t := range w.kept {
		kept += w.kept[t]
		w.kept[t] = 0
	}
	if kept > 0 {
		w.logger.Warn("transport suppressed warnings of the last second", "suppressed", kept)
	}
}
