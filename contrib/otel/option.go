package otellock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/lockmesh/lockmesh"
)

// MetricsOption changes the result of [NewMetrics].
type MetricsOption interface{ forMetrics(*config) }

// SpansOption changes the result of [NewSpans].
type SpansOption interface{ forSpans(*config) }

// Option changes the result of [NewMetrics] or of [NewSpans].
type Option interface {
	MetricsOption
	SpansOption
}

// maxPrefixes is the maximum number of prefixes of [WithPrefixes]. An application has about a dozen
// pairs of operation and outcome, and the SDK merges the attribute sets of an instrument beyond
// 2,000.
const maxPrefixes = 100

// WithPrefixes tells locks apart by the prefix of the key: the metric lockmesh.acquire has the
// attribute "prefix", and spans have "lockmesh.key_prefix". The value is the longest of the given
// prefixes with which the key begins, or empty for other keys. Each prefix multiplies the number of
// time series by two, three and so on: name few, at most 100.
func WithPrefixes(prefixes ...string) Option {
	return both(func(c *config) { c.prefixes, c.hasPrefixes = slices.Clone(prefixes), true })
}

// WithAttributes adds attributes to all metrics and spans of a node. Several nodes in one process
// need an attribute that tells the nodes apart, such as the name of the mesh: otherwise the metrics
// of the nodes overwrite each other.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return both(func(c *config) { c.attributes = slices.Clone(attributes) })
}

// WithKeys adds the key to the spans of keys that begin with one of the prefixes, as the attribute
// "lockmesh.key". The empty prefix allows all keys. A key may contain whatever the application has
// put there, such as the name of a customer, and goes to all readers of the traces.
func WithKeys(prefixes ...string) SpansOption {
	return forSpans(func(c *config) { c.keys = slices.Clone(prefixes) })
}

type (
	both     func(*config)
	forSpans func(*config)
)

func (o both) forMetrics(c *config)   { o(c) }
func (o both) forSpans(c *config)     { o(c) }
func (o forSpans) forSpans(c *config) { o(c) }

// config has the options of a node's metrics or spans. It isn't changed after the constructor.
type config struct {
	prefixes    []string
	hasPrefixes bool
	keys        []string // prefixes of the keys that spans may have
	attributes  []attribute.KeyValue
}

// check returns the error of an option that can't be used.
func (c *config) check() error {
	if len(c.prefixes) > maxPrefixes {
		return fmt.Errorf("WithPrefixes: %d prefixes are more than %d; name fewer prefixes",
			len(c.prefixes), maxPrefixes)
	}
	for _, p := range c.prefixes {
		if err := checkPrefix(p); err != nil {
			return fmt.Errorf("WithPrefixes: %w", err)
		}
		if p == "" {
			return errors.New("WithPrefixes: a prefix is empty; " +
				"leave it out, since all other keys have an empty prefix anyway")
		}
	}
	for _, p := range c.keys {
		if err := checkPrefix(p); err != nil {
			return fmt.Errorf("WithKeys: %w", err)
		}
	}
	for _, a := range c.attributes {
		if err := checkAttribute(a); err != nil {
			return fmt.Errorf("WithAttributes: %w", err)
		}
	}
	return nil
}

// checkPrefix returns the error of a text that can't be the prefix of a key.
func checkPrefix(p string) error {
	switch {
	case len(p) > lockmesh.MaxKeyLen:
		return fmt.Errorf("a prefix has %d bytes, and the longest key has %d; shorten the prefix",
			len(p), lockmesh.MaxKeyLen)
	case !utf8.ValidString(p):
		return fmt.Errorf("the prefix %q isn't UTF-8, as every key is; correct the prefix", p)
	}
	return nil
}

// checkAttribute returns the error of an attribute that would hide an attribute of this package, or
// that exporters can't encode.
func checkAttribute(a attribute.KeyValue) error {
	name, value := string(a.Key), a.Value
	switch {
	case name == "":
		return errors.New("an attribute has no name; give the attribute a name")
	case !utf8.ValidString(name),
		value.Type() == attribute.STRING && !utf8.ValidString(value.AsString()):
		return fmt.Errorf("the attribute %q isn't UTF-8; correct its name or value", name)
	case slices.Contains(metricAttributes, a.Key),
		strings.HasPrefix(name, "lockmesh."), a.Key == keyErrorType:
		return fmt.Errorf("the attribute %q is one of this package's; choose another name", name)
	}
	return nil
}

// prefixOf returns the longest configured prefix of a key; empty if there is none.
func (c *config) prefixOf(key string) (longest string) {
	for _, p := range c.prefixes {
		if len(p) > len(longest) && strings.HasPrefix(key, p) {
			longest = p
		}
	}
	return longest
}

// allows reports whether spans may have the key.
func (c *config) allows(key string) bool {
	return slices.ContainsFunc(c.keys, func(p string) bool { return strings.HasPrefix(key, p) })
}
