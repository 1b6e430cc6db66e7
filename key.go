package lockmesh

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxKeyLen is the maximum length of a key in bytes. For longer names use a hash.
const MaxKeyLen = 512

// checkKey returns the error of an unusable key; nil if the key can be used. Keys appear in logs
// and errors, so control characters are not allowed.
func checkKey(op, key string) error {
	text := ""
	switch {
	case key == "":
		text = "it is empty; name what you lock"
	case len(key) > MaxKeyLen:
		// The error doesn't contain the key, which may be megabytes long.
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
