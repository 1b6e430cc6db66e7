package resp

import (
	"fmt"
	"strings"

	"github.com/tidwall/redcon"
)

// reply is an answer to a request: a status, failure, integer, bulk, null, nullArray, array or
// pairs.
type reply any

type (
	status    string   // a word such as OK
	failure   string   // an error, beginning with its code
	integer   int64    // a number
	bulk      string   // a string of bytes
	null      struct{} // no string
	nullArray struct{} // no array
	array     []reply  // several answers
	pairs     []reply  // names and values by turns
)

const ok = status("OK")

// protocol is the version of RESP of a connection. The two differ here in absent values and in
// pairs only: clients insisting on version 3 get the same answers.
type protocol int

const (
	resp2 protocol = 2
	resp3 protocol = 3
)

// appendReply appends an answer.
func (p protocol) appendReply(b []byte, r reply) []byte {
	switch r := r.(type) {
	case status:
		return redcon.AppendString(b, string(r))
	case failure:
		return redcon.AppendError(b, shorten(string(r)))
	case integer:
		return redcon.AppendInt(b, int64(r))
	case bulk:
		return redcon.AppendBulkString(b, string(r))
	case null:
		if p == resp3 {
			return append(b, "_\r\n"...)
		}
		return redcon.AppendNull(b)
	case nullArray:
		if p == resp3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "*-1\r\n"...)
	case pairs:
		if p == resp3 {
			b = fmt.Appendf(b, "%%%d\r\n", len(r)/2)
		} else {
			b = redcon.AppendArray(b, len(r))
		}
		return p.appendItems(b, r)
	case array:
		return p.appendItems(redcon.AppendArray(b, len(r)), r)
	}
	panic("resp: no such reply")
}

func (p protocol) appendItems(b []byte, items []reply) []byte {
	for _, item := range items {
		b = p.appendReply(b, item)
	}
	return b
}

// shorten bounds the text of an error, and cuts no character in two.
func shorten(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}
