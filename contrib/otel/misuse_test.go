package otellock_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// The error of a misuse describes the mistake and its correction.
func TestMisuse(t *testing.T) {
	many := make([]string, 101)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	both := func(o otellock.Option) func() error {
		return func() error {
			_, err := otellock.NewMetrics(noop.NewMeterProvider(), o)
			_, other := otellock.NewSpans(tracenoop.NewTracerProvider(), o)
			if (err == nil) != (other == nil) || err != nil && strings.ReplaceAll(err.Error(), "Metrics", "Spans") != other.Error() {
				t.Errorf("NewMetrics says %v, and NewSpans %v", err, other)
			}
			return err
		}
	}
	keys := func(prefix string) func() error {
		return func() error {
			_, err := otellock.NewSpans(tracenoop.NewTracerProvider(), otellock.WithKeys(prefix))
			return err
		}
	}
	for name, row := range map[string]struct {
		call func() error
		text string // of the error; empty for none
	}{
		"a nil provider of metrics": {func() error { _, err := otellock.NewMetrics(nil); return err }, "pass the application's, or otel.GetMeterProvider()"},
		"a nil provider of spans":   {func() error { _, err := otellock.NewSpans(nil); return err }, "pass the application's, or otel.GetTracerProvider()"},
		"a nil mesh": {func() error {
			m, err := otellock.NewMetrics(noop.NewMeterProvider())
			if err != nil {
				t.Fatal(err)
			}
			return m.Watch(nil)
		}, "the mesh is nil; call Watch after Join"},
		"an empty prefix":                    {both(otellock.WithPrefixes("a", "")), "leave it out"},
		"a prefix that isn't UTF-8":          {both(otellock.WithPrefixes("a\xff")), `"a\xff" isn't UTF-8`},
		"a prefix longer than a key":         {both(otellock.WithPrefixes(strings.Repeat("a", 513))), "513 bytes, and the longest key has 512"},
		"a prefix as long as a key":          {both(otellock.WithPrefixes(strings.Repeat("a", 512))), ""},
		"too many prefixes":                  {both(otellock.WithPrefixes(many...)), "101 prefixes are more than 100"},
		"as many prefixes as possible":       {both(otellock.WithPrefixes(many[1:]...)), ""},
		"no prefixes":                        {both(otellock.WithPrefixes()), ""},
		"an attribute without a name":        {both(otellock.WithAttributes(attribute.String("", "v"))), "has no name"},
		"an attribute that isn't UTF-8":      {both(otellock.WithAttributes(attribute.String("mesh", "a\xff"))), `"mesh" isn't UTF-8`},
		"a name that isn't UTF-8":            {both(otellock.WithAttributes(attribute.String("a\xff", "v"))), `"a\xff" isn't UTF-8`},
		"an attribute of this package":       {both(otellock.WithAttributes(attribute.String("outcome", "v"))), `"outcome" is one of this package's`},
		"an attribute of this package spans": {both(otellock.WithAttributes(attribute.String("lockmesh.key", "v"))), `"lockmesh.key" is one of this package's`},
		"an attribute of the application":    {both(otellock.WithAttributes(attribute.Int("shard", 1))), ""},
		"a prefix of keys that isn't UTF-8":  {keys("a\xff"), "WithKeys"},
		"a prefix of all keys":               {keys(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.call()
			switch {
			case row.text == "" && err != nil:
				t.Error(err)
			case row.text != "" && (err == nil || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(err.Error(), "otellock: ")):
				t.Errorf("the error is %v, want %q in it", err, row.text)
			case row.text != "" && !errors.Is(err, lockmesh.ErrConfig):
				t.Errorf("%v isn't ErrConfig", err)
			}
		})
	}
}

// A provider may fail at each call; the error is then the provider's.
func TestAProviderThatFails(t *testing.T) {
	for _, call := range []string{"Float64Histogram", "Int64ObservableCounter"} {
		if _, err := otellock.NewMetrics(&broken{call: call}); !errors.Is(err, errBroken) {
			t.Errorf("%s fails: NewMetrics says %v", call, err)
		}
	}
	mesh := meshtest.New(t, 1).Node("a")
	for call, want := range map[string]struct{ watch, end error }{
		"RegisterCallback": {watch: errBroken},
		"Unregister":       {end: errBroken},
		"none":             {},
	} {
		provider := &broken{call: call}
		m, err := otellock.NewMetrics(provider)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.Watch(mesh); !errors.Is(err, want.watch) {
				t.Errorf("%s fails: Watch says %v", call, err)
			}
			if err := m.Close(); !errors.Is(err, want.end) {
				t.Errorf("%s fails: Close says %v", call, err)
			}
		}
		if provider.registered != 0 {
			t.Errorf("%s fails: %d callbacks are still registered", call, provider.registered)
		}
		// A provider that fails to forget the callback gets no more observations of the node,
		// either.
		seen := new(seen)
		if err := provider.callback(t.Context(), seen); err != nil || seen.observations != 0 {
			t.Errorf("%s fails: after Close there are %d observations (%v)", call, seen.observations, err)
		}
	}
}

var errBroken = errors.New("broken, as a test wants")

// broken is a provider with one failing call.
type broken struct {
	noop.MeterProvider
	call       string
	callback   metric.Callback
	registered int
}

func (b *broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{broken: b} }

func (b *broken) is(call string) error {
	if b.call == call {
		return errBroken
	}
	return nil
}

type brokenMeter struct {
	noop.Meter
	broken *broken
}

func (m brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.broken.is("Float64Histogram")
}

func (m brokenMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return noop.Int64ObservableCounter{}, m.broken.is("Int64ObservableCounter")
}

// RegisterCallback registers the callback even if the call fails, as the SDK does if some of the
// instruments are unknown.
func (m brokenMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.broken.callback = f
	m.broken.registered++
	return brokenRegistration{broken: m.broken}, m.broken.is("RegisterCallback")
}

type brokenRegistration struct {
	noop.Registration
	broken *broken
}

func (r brokenRegistration) Unregister() error {
	r.broken.registered--
	return r.broken.is("Unregister")
}

// seen counts the observations of a callback.
type seen struct {
	noop.Observer
	observations int
}

func (s *seen) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption) { s.observations++ }
func (s *seen) ObserveFloat64(metric.Float64Observable, float64, ...metric.ObserveOption) {
	s.observations++
}
