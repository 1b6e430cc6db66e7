package lockmesh

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"slices"
)

const (
	// MinSecretLen is the least length of a secret in bytes: 128 bits, which can't be guessed if
	// they are random.
	MinSecretLen = 16

	// MaxSecrets is how many secrets are accepted at a time.
	MaxSecrets = 3
)

// Secret is the shared secret of a mesh, for [Config]. A Secret doesn't print itself: not by
// package fmt with any verb, as JSON or any other text, or to a log. But package fmt calls no
// methods on values in unexported fields, and prints the bytes: don't print a struct that has a
// Config in an unexported field. (A [Mesh] prints the node's name.) string(secret) is the secret,
// for the place where the application keeps the secret.
//
// A []byte can be assigned to a field of this type.
type Secret []byte

// secretBytes is how many random bytes a new secret has: as many as the keys derived from it.
const secretBytes = 32

// NewSecret returns a new secret: 256 random bits as 43 letters, digits, dashes and underscores, so
// that it fits into an environment variable or a file. Give the same secret to all nodes.
func NewSecret() Secret {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.AppendEncode(nil, b[:])
}

// redacted is what a secret shows of itself.
func (s Secret) redacted() string {
	if len(s) == 0 {
		return "[no secret]"
	}
	return "[secret]"
}

// String hides the secret.
func (s Secret) String() string { return s.redacted() }

// Format hides the secret from every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.redacted()) }

// LogValue hides the secret from package slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.redacted()) }

// MarshalText hides the secret from JSON and other text formats. A secret can't be read back from
// there.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.redacted()), nil }

// UnmarshalText takes the text as it is, so that a secret in a JSON file is the same as in an
// environment variable. (Without it package json would decode the text from base64.) What
// MarshalText has written is no secret, and is an error.
func (s *Secret) UnmarshalText(text []byte) error {
	if hidden := string(text); hidden == Secret("x").redacted() || hidden == Secret(nil).redacted() {
		return fmt.Errorf("lockmesh: %s stands for a secret that is hidden, and can't be read back", hidden)
	}
	*s = slices.Clone(text)
	return nil
}

const (
	// leastDistinct is how many different bytes a secret must have. Of sixteen random hexadecimal
	// digits, fewer are different once in some 27,000 times; of sixteen random bytes, never.
	leastDistinct = 6

	// sequenceShare is the share of a secret that may be one step after the byte before, such as in
	// "0123456789abcdef": less than one in so many.
	sequenceShare = 2
)

// weakness returns why a secret can be guessed; empty if nothing obvious is wrong. It finds
// repeated and consecutive bytes, and can't tell whether a secret is random.
func (s Secret) weakness() string {
	distinct := make(map[byte]bool)
	steps := 0
	for i, b := range s {
		distinct[b] = true
		if i > 0 && (b == s[i-1]+1 || b == s[i-1]-1) {
			steps++
		}
	}
	switch {
	case len(distinct) < leastDistinct:
		return fmt.Sprintf("it has only %d different bytes", len(distinct))
	case steps*sequenceShare >= len(s):
		return "most of it is a sequence, such as 0123456789"
	}
	for period := 1; period <= len(s)/2; period++ {
		if s.repeats(period) {
			return fmt.Sprintf("it repeats its first %d bytes", period)
		}
	}
	return ""
}

// repeats reports whether each byte equals the byte one period before.
func (s Secret) repeats(period int) bool {
	for i := period; i < len(s); i++ {
		if s[i] != s[i-period] {
			return false
		}
	}
	return true
}

// problem returns why a secret can't be used; empty if it can.
func (s Secret) problem() string {
	if len(s) < MinSecretLen {
		return fmt.Sprintf("it has %d bytes, fewer than %d; use random bytes, the same on all nodes",
			len(s), MinSecretLen)
	}
	if why := s.weakness(); why != "" {
		return "it can be guessed: " + why +
			"; use random bytes, such as those of NewSecret, the same on all nodes"
	}
	return ""
}

// secretsProblem returns why a list of secrets can't be used; empty if it can.
func secretsProblem(secrets []Secret) string {
	if len(secrets) > MaxSecrets {
		return fmt.Sprintf("there are %d, and %d are accepted at a time", len(secrets), MaxSecrets)
	}
	for i, s := range secrets {
		if problem := s.problem(); problem != "" {
			return fmt.Sprintf("secret %d of %d: %s", i+1, len(secrets), problem)
		}
	}
	return ""
}

func rawSecrets(secrets []Secret) [][]byte {
	var raw [][]byte
	for _, s := range secrets {
		raw = append(raw, s)
	}
	return raw
}

// SecretStatus is a secret in use in the mesh, as far as gossip knows. It shows how far a change of
// the secret has come: see docs/changing-the-secret.md.
type SecretStatus struct {
	// ID tells secrets apart, and is the same on all nodes. It is no secret, and tells nothing
	// about a random one.
	ID string
	// AcceptedBy and SentBy are the live nodes that accept the secret, and that send it, by name;
	// this node is among them.
	AcceptedBy, SentBy []string
}
