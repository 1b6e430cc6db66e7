package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"

	"github.com/lockmesh/lockmesh/bench/internal/stats"
)

// sample is a measured number.
type sample struct {
	Workload string
	Service  string
	Metric   string
	Value    float64
}

// results are all measurements.
type results struct {
	Machine map[string]string
	Samples []sample
	Curves  map[string]stats.Hist // the time to take a key, by service
}

func newResults() *results { return &results{Curves: map[string]stats.Hist{}} }

// add records a number, unless the number is undefined, such as the fairness among callers without
// a single lock.
func (r *results) add(workload, service, metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	r.Samples = append(r.Samples, sample{workload, service, metric, value})
}

// values returns all measured values of a metric.
func (r *results) values(workload, service, metric string) (all []float64) {
	for _, s := range r.Samples {
		if s.Workload == workload && s.Service == service && s.Metric == metric {
			all = append(all, s.Value)
		}
	}
	return all
}

// median returns NaN for a metric without values.
func (r *results) median(workload, service, metric string) float64 {
	return stats.Median(r.values(workload, service, metric))
}

func (r *results) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644)
}
