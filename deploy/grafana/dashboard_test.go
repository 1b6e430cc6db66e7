package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The file equals the program's output.
func TestTheFileIsThisDashboard(t *testing.T) {
	var want bytes.Buffer
	out := json.NewEncoder(&want)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(Dashboard()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("dashboard.json is another dashboard; run go generate in this directory")
	}
}

// Each metric of contrib/prometheus is on the dashboard, or its absence has a reason; and the
// dashboard, the alerts and docs/monitoring.md name no other metric and no other label. A test of
// contrib/prometheus compares the list in its comment with the metrics themselves.
func TestAllMetricsAreUsedAndNoOthers(t *testing.T) {
	metrics := make(map[string][]string) // labels by name
	for _, m := range regexp.MustCompile(`(?m)^//\t(lockmesh_\w+)(?:\{([\w,]+)\})? `).FindAllStringSubmatch(read(t, "../../contrib/prometheus/metrics.go"), -1) {
		metrics[m[1]] = strings.Split(m[2], ",")
	}
	if len(metrics) < 20 {
		t.Fatalf("contrib/prometheus lists only %d metrics", len(metrics))
	}
	absent := map[string]string{
		"lockmesh_voters_needed": "it follows from the number of voters",
		"lockmesh_pauses_total":  "the dashboard shows their length",
	}
	var expressions []string
	for _, r := range rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				expressions = append(expressions, q.expr)
			}
		}
	}
	shown := names(strings.Join(expressions, "\n"))
	for name := range metrics {
		if _, excused := absent[name]; shown[name] == excused {
			t.Errorf("%s is on the dashboard: %v; its absence has a reason: %v", name, shown[name], excused)
		}
	}
	for file, text := range map[string]string{
		"the dashboard": strings.Join(expressions, "\n"), "alerts.yaml": read(t, "../prometheus/alerts.yaml"),
		"alerts_test.yaml": read(t, "../prometheus/alerts_test.yaml"), "docs/monitoring.md": read(t, "../../docs/monitoring.md"),
	} {
		for _, name := range slices.Sorted(maps.Keys(names(text))) {
			if metrics[name] == nil {
				t.Errorf("%s names %s, which isn't among the metrics", file, name)
			}
		}
	}
	// A label in braces belongs to the metric before the braces.
	for _, e := range expressions {
		for _, use := range regexp.MustCompile(`(lockmesh_\w+?)(?:_bucket|_count|_sum)?\{([^}]*)\}`).FindAllStringSubmatch(e, -1) {
			for _, label := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(use[2], -1) {
				if !slices.Contains(append(metrics[use[1]], "job", "instance"), label[1]) {
					t.Errorf("%s has no label %s, in %s", use[1], label[1], e)
				}
			}
		}
	}
}

// names returns the metrics named in a text.
func names(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile(`lockmesh_\w+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			m = strings.TrimSuffix(m, suffix)
		}
		all[m] = true
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
