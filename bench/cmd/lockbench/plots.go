package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockmesh/lockmesh/bench/internal/plot"
)

// lineStyle is the style of a service's curve: each family of services has a colour.
type lineStyle struct {
	colour string
	dashed bool
}

var lineStyles = map[string]lineStyle{
	nameLimit:          {"#000000", true},
	nameEmbedded:       {"#0b57d0", false},
	nameClient:         {"#0b57d0", true},
	nameEmbeddedTLS:    {"#38a3d8", false},
	nameClientTLS:      {"#38a3d8", true},
	nameRedis:          {"#c5221f", false},
	nameRedisBatched:   {"#c5221f", true},
	nameRedisRueidis:   {"#8c1d18", false},
	nameRedsync:        {"#e37400", false},
	nameRedsyncBatch:   {"#e37400", true},
	nameRedsyncRueidis: {"#9a6a00", false},
	nameEtcd:           {"#188038", false},
}

// tailShare is the share of all durations at which the plot ends on the right.
const tailShare = 0.999

// plots draws the measured curves, if there are any.
func plots(r *results, dir string) error {
	return errors.Join(
		draw(filepath.Join(dir, "latency.svg"), latencyChart(r)),
		draw(filepath.Join(dir, "throughput.svg"), throughputChart(r)),
	)
}

func draw(path string, c plot.Chart) error {
	if len(c.Series) == 0 {
		return nil
	}
	return os.WriteFile(path, []byte(c.SVG()), 0o644)
}

func latencyChart(r *results) plot.Chart {
	c := plot.Chart{
		Title: "How long it takes to take a free key",
		X:     plot.Axis{Label: "microseconds", Log: true},
		Y:     plot.Axis{Label: "share that took at most so long", Max: 1, Text: func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }},
	}
	for _, name := range serviceNames {
		s := series(name)
		for _, p := range r.Curves[name].CDF() {
			if p.Share <= tailShare {
				s.Points = append(s.Points, plot.Point{X: p.NS / 1000, Y: p.Share})
			}
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

func throughputChart(r *results) plot.Chart {
	c := plot.Chart{
		Title: "Locks taken and given back in a second",
		X:     plot.Axis{Label: "callers at once, each with a key of its own", Log: true, Text: func(v float64) string { return fmt.Sprint(v) }},
		Y:     plot.Axis{Label: "a second", Log: true},
	}
	for _, n := range callerCounts {
		c.X.Ticks = append(c.X.Ticks, float64(n))
	}
	for _, name := range serviceNames {
		s := series(name)
		s.Marks = true
		for _, n := range callerCounts {
			if values := r.values(throughputOf(n), name, mPerSecond); len(values) > 0 {
				v := r.median(throughputOf(n), name, mPerSecond)
				if name == nameLimit {
					v /= 2
				}
				s.Points = append(s.Points, plot.Point{X: float64(n), Y: v})
			}
		}
		if name == nameLimit {
			s.Name += " (two answers each)"
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

func series(name string) plot.Series {
	return plot.Series{Name: name, Colour: lineStyles[name].colour, Dashed: lineStyles[name].dashed}
}
