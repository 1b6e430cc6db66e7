package plot

import (
	"fmt"
	"math"
)

// scale maps values of an axis to positions in the picture.
type scale struct {
	log      bool
	min, max float64
	from, to float64
	ticks    []float64
	text     func(float64) string
}

// manyDecades is the number of decades above which only powers of ten have ticks.
const manyDecades = 3.2

func newScale(a Axis, span [2]float64, from, to float64) *scale {
	s := &scale{log: a.Log, min: span[0], max: span[1], from: from, to: to, text: a.Text}
	if a.Min != 0 || a.Max != 0 {
		s.min, s.max = a.Min, a.Max
	}
	if s.text == nil {
		s.text = short
	}
	switch {
	case len(a.Ticks) > 1:
		s.ticks, s.min, s.max = a.Ticks, a.Ticks[0], a.Ticks[len(a.Ticks)-1]
	case s.log:
		s.logTicks()
	default:
		s.linearTicks()
	}
	return s
}

func (s *scale) logTicks() {
	if s.min <= 0 || s.max <= 0 {
		s.min, s.max = 1, 10
	}
	steps := []float64{1, 2, 5}
	if math.Log10(s.max/s.min) > manyDecades {
		steps = steps[:1]
	}
	const nearly = 1 + 1e-9
	var all []float64
	for d := math.Floor(math.Log10(s.min)); d <= math.Ceil(math.Log10(s.max)); d++ {
		for _, step := range steps {
			all = append(all, step*math.Pow(10, d))
		}
	}
	low, high := all[0], all[len(all)-1]
	for _, t := range all {
		if t <= s.min*nearly {
			low = t
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i]*nearly >= s.max {
			high = all[i]
		}
	}
	if low == high {
		high *= 10
	}
	s.min, s.max = low, high
	for _, t := range all {
		if t >= low && t <= high*nearly {
			s.ticks = append(s.ticks, t)
		}
	}
}

func (s *scale) linearTicks() {
	if s.max <= s.min {
		s.max = s.min + 1
	}
	raw := (s.max - s.min) / 6
	base := math.Pow(10, math.Floor(math.Log10(raw)))
	step := base * 10
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*base >= raw {
			step = m * base
			break
		}
	}
	for t := math.Ceil(s.min/step) * step; t <= s.max+step/1000; t += step {
		s.ticks = append(s.ticks, t)
	}
}

// at returns the position of a value, in the picture's units.
func (s *scale) at(v float64) float64 {
	part := (v - s.min) / (s.max - s.min)
	if s.log {
		part = math.Log(v/s.min) / math.Log(s.max/s.min)
	}
	return s.from + part*(s.to-s.from)
}

// short formats numbers as 20, 5k, 2M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
