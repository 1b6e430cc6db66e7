package main

import (
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// linger is how long production lets a word wait that nobody waits for (package transport).
const linger = 500 * time.Microsecond

// silences are how long words linger in the meshes that are compared: not at all, as if all voters were asked at once, and as in production.
var silences = []time.Duration{0, linger}

// silent returns how long a node that doesn't vote took to be granted keys that nobody else wants: while all of three voters answer, or, with stopped, while one
// of them has just stopped, each voter in turn, which the node doesn't know yet.
func silent(net sim.Net, linger time.Duration, stopped bool, samples int) (took []time.Duration, err error) {
	m, err := newLingeringMesh(shape{4, 3}, net, 1, false, linger)
	if err != nil {
		return nil, err
	}
	node := m.names[3]
	for i := range samples {
		voter := m.names[i%3]
		if stopped {
			m.Stop(voter)
		}
		r := m.Lock(node, keyOf(i))
		if err := m.becomes(r, sim.Granted); err != nil {
			return nil, err
		}
		took = append(took, r.Had-r.Asked)
		if stopped {
			m.Continue(voter)
		}
		m.Release(r)
		if err := m.becomes(r, sim.Released); err != nil {
			return nil, err
		}
		m.Run(20 * delay)
	}
	return took, m.Err()
}

func printSilent(out io.Writer, full bool) error {
	samples := 300
	if full {
		samples = 3000
	}
	if err := say(out, `### A voter that doesn't answer

A node that doesn't vote takes keys that nobody else wants, with three voters. It asks a majority first; the word to the third lingers for up to %v, for others to
travel with. "One stopped": one voter in turn has stopped just before, and nobody knows yet; two times of three it is one of those asked first. Links as above.`, linger); err != nil {
		return err
	}
	t := newTable("words linger", "voters", "equal: median", "p99", "uneven: median", "p99")
	for _, d := range silences {
		for _, stopped := range []bool{false, true} {
			voters, lingers := "all answer", "not at all"
			if stopped {
				voters = "one stopped"
			}
			if d > 0 {
				lingers = fmt.Sprint(d)
			}
			cells := []any{lingers, voters}
			for _, net := range []sim.Net{equal, uneven} {
				took, err := silent(net, d, stopped, samples)
				if err != nil {
					return err
				}
				cells = append(cells, millis(rank(took, 50)), millis(rank(took, 99)))
			}
			t.row(cells...)
		}
	}
	return t.print(out)
}
