package otellock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// text returns all data for exporters, as one text.
func (o *telemetry) text() string {
	o.t.Helper()
	synctest.Wait()
	spans, err := json.Marshal(tracetest.SpanStubsFromReadOnlySpans(o.ended.Ended()))
	if err != nil {
		o.t.Fatal(err)
	}
	all := []string{string(spans)}
	metrics := o.collect()
	for _, p := range points(metrics) {
		all = append(all, p.name())
	}
	for _, m := range metrics {
		all = append(all, m.Name, m.Description, m.Unit)
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, d := range h.DataPoints {
				for _, e := range d.Exemplars {
					all = append(all, fmt.Sprint(e.FilteredAttributes))
				}
			}
		}
	}
	return strings.Join(all, "\n")
}

// useUp acquires locks of all kinds, and has some refused, lost and evicted.
func useUp(t *testing.T, m *meshtest.Mesh, o *telemetry, prefix string) {
	t.Helper()
	a := m.Node("a")
	ctx, caller := o.tracer.Start(t.Context(), "order")
	defer caller.End()
	useAllKinds(ctx, t, a, prefix)
	other := lock(ctx, t, m.Node("b"), prefix+"held")
	if _, err := a.TryLock(ctx, prefix+"held"); !errors.Is(err, lockmesh.ErrHeld) {
		t.Fatal(err)
	}
	if _, err := a.Lock(within(ctx, t, time.Second), prefix+"held"); !errors.Is(err, lockmesh.ErrHeld) {
		t.Fatal(err)
	}
	unlock(t, other)
	evicted := lock(ctx, t, a, prefix+"evicted")
	if err := m.Node("b").Evict(ctx, prefix+"evicted", evicted.Token()); err != nil {
		t.Fatal(err)
	}
	<-evicted.Done()
	lost := lock(ctx, t, a, prefix+"lost")
	m.Crash("b")
	m.Crash("c")
	<-lost.Done()
	time.Sleep(time.Minute)
	if _, err := a.Lock(within(ctx, t, time.Second), prefix+"late"); !errors.Is(err, lockmesh.ErrNoQuorum) {
		t.Fatal(err)
	}
}

func TestNoKeyIsExported(t *testing.T) {
	for name, row := range map[string]struct {
		options []otellock.Option
		spans   []otellock.SpansOption
		want    map[string]bool // whether a text is exported
	}{
		"without options": {nil, nil, map[string]bool{"customer-": false, "granted": true, "evicted": true, "lost": true}},
		"with a prefix": {
			[]otellock.Option{otellock.WithPrefixes("customer")}, nil, map[string]bool{"customer": true, "customer-": false},
		},
		"with other keys allowed": {nil, []otellock.SpansOption{otellock.WithKeys("order-")}, map[string]bool{"customer-": false}},
		"with keys allowed":       {nil, []otellock.SpansOption{otellock.WithKeys("order-", "customer-")}, map[string]bool{"customer-": true}},
		"with all keys allowed":   {nil, []otellock.SpansOption{otellock.WithKeys("")}, map[string]bool{"customer-": true}},
	} {
		t.Run(name, func(t *testing.T) {
			setUp{options: row.options, spans: row.spans}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
				useUp(t, m, o, "customer-")
				got := o.text()
				for text, want := range row.want {
					if strings.Contains(got, text) != want {
						t.Errorf("%q is exported: %v, want %v", text, !want, want)
					}
				}
			})
		})
	}
}

// Spans have only the attributes listed in the comment of NewSpans; metrics have values known
// beforehand.
func TestAttributesAreBounded(t *testing.T) {
	source, err := os.ReadFile("spans.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"mesh": true}
	for _, row := range regexp.MustCompile(`(?m)^//\t((?:lockmesh|error)\.\w+) `).FindAllStringSubmatch(string(source), -1) {
		listed[row[1]] = true
	}
	values := map[string][]string{
		"mesh":    {"orders"},
		"state":   {"reachable", "quiet", "connecting", "unreachable", "refused", "behind", "silent"},
		"op":      {"lock", "trylock", "rlock", "tryrlock", "acquire", "tryacquire", "lockall", "campaign", "upgrade", "enter", "countdown"},
		"outcome": {"granted", "held", "no_quorum", "refused", "busy", "clash", "permits", "lost", "closed", "error"},
		"prefix":  {"", "customer"},
		"voter":   {"a", "b", "c"},
		"reason": {
			"unlocked", "expired", "lost", "evicted", "released", "closed", "abandoned", // of a lease
			"configuration", "secret", "name", "not_voter", "ttl", "old_copy", "deposed", // of a refusal
			"silent", "unfinished", "displaced", "compressed", // of a handshake
		},
		"what": {
			"observer_event", "log_line", "watch_event", "gossip_packet", "gossip_stream", "slow_link", "bad_link", "stranger",
		},
	}
	setUp{
		options: []otellock.Option{otellock.WithPrefixes("customer"), otellock.WithAttributes(attribute.String("mesh", "orders"))},
		spans:   []otellock.SpansOption{otellock.WithKeys("")},
	}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		useUp(t, m, o, "customer-")
		synctest.Wait()
		used := make(map[string]bool)
		for _, s := range o.ended.Ended() {
			for name := range attributes(s) {
				used[name] = true
			}
		}
		if !maps.Equal(used, listed) {
			t.Errorf("spans have the attributes\n%v\nand the comment of NewSpans lists\n%v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(listed)))
		}
		for _, p := range points(o.collect()) {
			for _, a := range p.attrs.ToSlice() {
				if !slices.Contains(values[string(a.Key)], a.Value.AsString()) {
					t.Errorf("%s has an unknown attribute", p.name())
				}
			}
		}
	})
}
