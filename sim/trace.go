package sim

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// tracer writes a line for each event. Times are the world's, in seconds.
type tracer struct {
	w   io.Writer
	buf []byte
}

// note writes a line about a host, or about the world if h is nil.
func (w *World) note(h *host, format string, args ...any) {
	if w.trace == nil {
		return
	}
	b := w.trace.begin(w.now)
	if h != nil {
		b = append(b, h.alias...)
		b = append(b, ' ')
	}
	b = fmt.Appendf(b, format, args...)
	w.trace.end(b)
}

func (t *tracer) begin(at Moment) []byte {
	b := strconv.AppendInt(t.buf[:0], int64(at/1e9), 10)
	b = append(b, '.')
	micros := int64(at/1000) % million
	for div := int64(million / 10); div > 0; div /= 10 {
		b = append(b, byte('0'+micros/div%10))
	}
	return append(b, ' ')
}

func (t *tracer) end(b []byte) {
	b = append(b, '\n')
	t.buf = b
	if _, err := t.w.Write(b); err != nil {
		panic(fmt.Sprintf("sim: the trace can't be written: %v", err))
	}
}

// message writes a line about a message on its arrival.
func (t *tracer) message(at Moment, from, to *host, m *vote.Message) {
	b := t.begin(at)
	b = append(b, from.alias...)
	b = append(b, '>')
	b = append(b, to.alias...)
	b = append(b, ' ')
	t.end(appendMessage(b, m))
}

// appendMessage appends a description of a message: its kind and the fields in use.
func appendMessage(b []byte, m *vote.Message) []byte {
	b = append(b, m.Kind.String()...)
	num := func(name string, x uint64) {
		if x != 0 {
			b = append(b, ' ')
			b = append(b, name...)
			b = strconv.AppendUint(b, x, 10)
		}
	}
	flag := func(name string, on bool) {
		if on {
			b = append(b, ' ')
			b = append(b, name...)
		}
	}
	span := func(name string, d time.Duration) {
		if d != 0 {
			b = append(b, ' ')
			b = append(b, name...)
			b = append(b, d.String()...)
		}
	}
	num("stream ", uint64(m.Stream))
	num("#", uint64(m.Number))
	num("s", uint64(m.Serial))
	if m.Key != "" {
		b = strconv.AppendQuote(append(b, ' '), string(m.Key))
	}
	num("time ", uint64(m.Time))
	num("hint ", uint64(m.TokenHint))
	num("token ", uint64(m.Token))
	flag("try", m.Try)
	flag("won", m.Won)
	flag("counting", m.Counting)
	span("ttl ", m.TTL)
	if m.Kind == vote.KindAck || m.Kind == vote.KindAnswer && m.End {
		num("gen ", uint64(m.Generation))
		span("quiet ", m.Quiet)
	}
	if m.Kind == vote.KindAck {
		num("processed ", m.Processed)
		num("pushed ", m.Pushed)
		num("count ", m.Count)
	}
	num("received ", m.Received)
	if m.Reason != vote.ReasonNone {
		b = append(append(b, ": "...), m.Reason.String()...)
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		b = append(b, " ["...)
		b = append(strconv.AppendUint(append(b, '#'), uint64(e.Number), 10), ' ')
		b = append(b, e.Key...)
		num("s", uint64(e.Serial))
		num("yielded ", uint64(e.Yielded))
		num("token ", uint64(e.Token))
		b = append(b, ']')
	}
	flag("end", m.End)
	return b
}
