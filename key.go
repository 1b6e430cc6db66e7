package lockmesh

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// MaxKeyLen is the longest key in bytes. Name longer things by a hash.
const MaxKeyLen = vote.MaxKeyLen

// checkKey says why a key can't be used; nil when it can. Keys are printed in logs and errors, hence no control characters.
func checkKey(op, key string) error {
	text := ""
	switch {
	case key == "":
		text = "it is empty; name what you lock"
	case len(key) > MaxKeyLen:
		// The key is left out of the error: it may be megabytes.
		return &Error{Op: op, Reason: ErrKey, Text: fmt.Sprintf("it has %d bytes, more than %d; use a hash of it", len(key), MaxKeyLen)}
	case !utf8.ValidString(key):
		text = "it isn't UTF-8; encode binary keys, in hex for example"
	default:
		for i, r := range key {
			if unicode.IsControl(r) {
				text = fmt.Sprintf("it has the control character %U at byte %d; take it out", r, i)
				break
			}
		}
	}
	if text == "" {
		return nil
	}
	return &Error{Op: op, Key: key, Reason: ErrKey, Text: text}
}
