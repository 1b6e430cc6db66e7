package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"

	"github.com/lockmesh/lockmesh/bench/internal/stats"
)

// sample is one number that was measured.
type sample struct {
	Workload string
	Service  string
	Metric   string
	Value    float64
}

// results are all that was measured.
type results struct {
	Machine map[string]string
	Samples []sample
	Curves  map[string]stats.Hist // how long a key took to take, by service
}

func newResults() *results { return &results{Curves: map[string]stats.Hist{}} }

// add notes a number, unless it is none: the fairness among callers of whom nobody got anything.
func (r *results) add(workload, service, metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	r.Samples = append(r.Samples, sample{workload, service, metric, value})
}

// values returns all that were measured of one thing.
func (r *results) values(workload, service, metric string) (all []float64) {
	for _, s := range r.Samples {
		if s.Workload == workload && s.Service == service && s.Metric == metric {
			all = append(all, s.Value)
		}
	}
	return all
}

// median is NaN of what wasn't measured.
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
