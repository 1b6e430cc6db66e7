package otellock_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockmesh/lockmesh/meshtest"
)

// named runs a mesh until all metrics exist, and returns the attributes of each metric by its name:
// in OpenTelemetry, and as exported to Prometheus by OpenTelemetry's exporter.
func named(t *testing.T) (own, exported map[string]string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	own, exported = make(map[string]string), make(map[string]string)
	setUp{readers: []metric.Reader{reader}, mesh: []meshtest.Option{meshtest.WithDynamicMembership()}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		l := lock(t.Context(), t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		for _, p := range points(o.collect()) {
			var names []string
			for _, a := range p.attrs.ToSlice() {
				names = append(names, string(a.Key))
			}
			own[p.metric] = strings.Join(names, ",")
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			var names []string
			for _, l := range f.Metric[0].Label {
				names = append(names, l.GetName())
			}
			exported[f.GetName()] = strings.Join(names, ",")
		}
		unlock(t, l)
	})
	return own, exported
}

// listed returns the metrics in the list of a comment, by name, with their attributes.
func listed(t *testing.T, file string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^//\t(lockmesh[_.][\w.]+)(?:\{([\w,]+)\})? `).FindAllStringSubmatch(read(t, file), -1) {
		all[row[1]] = row[2]
	}
	if len(all) < 20 {
		t.Fatalf("%s lists only %d metrics", file, len(all))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each metric is listed in the comment of NewMetrics. An exporter turns these metrics into the
// metrics of contrib/prometheus, with the same labels, so that the alerts and the dashboard in
// deploy fit. (A test of contrib/prometheus compares the list in its comment with the metrics
// themselves.)
func TestNamesAndTheirLists(t *testing.T) {
	own, exported := named(t)
	if want := listed(t, "metrics.go"); !maps.Equal(own, want) {
		t.Errorf("there are\n%v\nand the comment of NewMetrics lists\n%v", sorted(own), sorted(want))
	}
	if want := listed(t, "../prometheus/metrics.go"); !maps.Equal(exported, want) {
		t.Errorf("for Prometheus there are\n%v\nand contrib/prometheus has\n%v", sorted(exported), sorted(want))
	}
}

func sorted(of map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, name+"{"+of[name]+"}")
	}
	return all
}

// The alerts name bounds of buckets, so the bounds are the same as well.
func TestTheBoundsOfBuckets(t *testing.T) {
	bounds := func(file string) map[string]string {
		all := make(map[string]string)
		for _, row := range regexp.MustCompile(`(?s)(\w+)(?:Bounds|Buckets) += \[\]float64\{(.*?)\}`).FindAllStringSubmatch(read(t, file), -1) {
			all[row[1]] = strings.Trim(strings.Join(strings.Fields(row[2]), ""), ",")
		}
		return all
	}
	ours, theirs := bounds("instruments.go"), bounds("../prometheus/metrics.go")
	if len(ours) != 3 || !maps.Equal(ours, theirs) {
		t.Errorf("the bounds are\n%v\nand those of contrib/prometheus\n%v", ours, theirs)
	}
}

// The table of docs/monitoring.md has each metric of both modules, with their names side by side.
func TestTheTableOfMetrics(t *testing.T) {
	ours, theirs := make(map[string]string), make(map[string]string)
	name := regexp.MustCompile("`(lockmesh[_.][\\w.]+)(?:\\{([\\w,]+)\\})?`")
	for line := range strings.Lines(read(t, "../../docs/monitoring.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(line, "| `lockmesh_") {
			continue
		}
		prom, otel := name.FindAllStringSubmatch(cells[1], -1), name.FindAllStringSubmatch(cells[2], -1)
		if len(prom) != len(otel) {
			t.Errorf("a row has %d names for Prometheus, and %d for OpenTelemetry: %s", len(prom), len(otel), line)
			continue
		}
		for i := range prom {
			theirs[prom[i][1]], ours[otel[i][1]] = prom[i][2], prom[i][2]
			rest, fits := strings.CutPrefix(prom[i][1], strings.ReplaceAll(otel[i][1], ".", "_"))
			if !fits || !slices.Contains([]string{"", "_seconds", "_total", "_seconds_total"}, rest) {
				t.Errorf("%s isn't what an exporter makes of %s", prom[i][1], otel[i][1])
			}
		}
	}
	if want := listed(t, "metrics.go"); !maps.Equal(ours, want) {
		t.Errorf("the table has\n%v\nand the comment of NewMetrics\n%v", sorted(ours), sorted(want))
	}
	if want := listed(t, "../prometheus/metrics.go"); !maps.Equal(theirs, want) {
		t.Errorf("the table has\n%v\nand contrib/prometheus\n%v", sorted(theirs), sorted(want))
	}
}
