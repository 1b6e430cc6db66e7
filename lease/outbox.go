package lease

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// outbox has the effects of a voter's call: the messages to send, and the alarms.
type outbox struct {
	out    []vote.Outbound // the messages that the current call sends
	alarms []string        // for the operator, who has not fetched them yet
	unsent vote.Message    // scratch space for messages that can't be received
}

// collect has the messages of a call appended to out.
func (o *outbox) collect(out []vote.Outbound) { o.out = out }

// end returns the messages of the call.
func (o *outbox) end() []vote.Outbound {
	out := o.out
	o.out = nil
	return out
}

// send adds a message to the output and returns the message, to be filled in before the next call
// of send. Messages are large, so each is built in place.
func (o *outbox) send(conn vote.Conn, kind vote.Kind) *vote.Message {
	n := len(o.out)
	if n < cap(o.out) {
		o.out = o.out[:n+1]
		o.out[n] = vote.Outbound{}
	} else {
		o.out = append(o.out, vote.Outbound{})
	}
	b := &o.out[n]
	b.Conn, b.Message.Kind = conn, kind
	return &b.Message
}

// sendNowhere returns a message to be filled in like a message of send, which isn't sent.
func (o *outbox) sendNowhere() *vote.Message {
	o.unsent = vote.Message{}
	return &o.unsent
}

// unknown reports that this voter doesn't know a stream.
func (o *outbox) unknown(conn vote.Conn, stream vote.Stream) {
	o.send(conn, vote.KindUnknown).Stream = stream
}

// closeConn has a connection closed.
func (o *outbox) closeConn(conn vote.Conn) {
	o.out = append(o.out, vote.Outbound{Conn: conn, Close: true})
}

// alarm alerts the operator.
func (o *outbox) alarm(format string, args ...any) {
	o.alarms = append(o.alarms, fmt.Sprintf(format, args...))
}

// takeAlarms returns the alarms, and forgets them.
func (o *outbox) takeAlarms() []string {
	a := o.alarms
	o.alarms = nil
	return a
}
