package lockmesh

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Errors of use are mistakes in the caller's source, beyond the help of an error value: a method
// called on a nil or zero value, a nil context, a nil function. They panic before anything is sent,
// with a text that names the method and the remedy.

// checkUsable panics unless a method's receiver was made by maker, the function that makes such
// values.
func checkUsable(is bool, method, maker string) {
	if !is {
		panic("lockmesh: " + method + " was called on a nil or zero value; " +
			"only " + maker + " makes a usable one, and none when it returns an error")
	}
}

// checkNotNil panics if a method was called with a nil context.
func checkNotNil(ctx context.Context, method string) {
	if ctx == nil {
		panic("lockmesh: " + method + " was called with a nil context; pass context.Background() if there is no other")
	}
}

// checkContext panics if a method was called with a nil context. A context with a panicking method
// panics here, in the caller's goroutine, before there is a request to be left behind; see
// guardContext.
func checkContext(ctx context.Context, method string) {
	checkNotNil(ctx, method)
	_ = ctx.Done()
	_ = ctx.Err()
}

// checkFunc panics if a method was called with a nil function.
func checkFunc(is bool, method string) {
	if !is {
		panic("lockmesh: " + method + " was called with a nil function")
	}
}

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
