package main

import (
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// shapes are the meshes in which a free lock is acquired.
var shapes = []shape{{3, 3}, {5, 5}, {7, 7}, {9, 9}, {50, 7}, {300, 7}}

// acquire returns how long nodes, taking turns, took to lock uncontended keys. Each world has other
// links.
func acquire(s shape, net sim.Net, samples int) ([]time.Duration, error) {
	worlds := max(3, 60/s.nodes)
	var took []time.Duration
	for seed := range worlds {
		m, err := newMesh(s, net, uint64(seed+1), false)
		if err != nil {
			return nil, err
		}
		for i := range samples / worlds {
			d, err := m.take(m.names[i%s.nodes], fmt.Sprintf("key-%d", i%100))
			if err != nil {
				return nil, err
			}
			took = append(took, d)
			m.Run(time.Millisecond)
		}
	}
	return took, nil
}

func printAcquire(out io.Writer, full bool) error {
	samples := 600
	if full {
		samples = 6000
	}
	if err := say(out, `### A free lock

Nodes lock keys that no other node wants, one after the other. Over equal links every message takes
%v. Each uneven link has a base of %v to %v; a message takes the base plus up to half of
the base, and one message in a hundred up to nine bases more. The last column is relative to three
nodes.`,
		delay, uneven.Least, uneven.Most); err != nil {
		return err
	}
	t := newTable("nodes", "equal: median", "p99", "uneven: median", "p99", "median, relative")
	var first time.Duration
	for _, s := range shapes {
		even, err := acquire(s, equal, samples)
		if err != nil {
			return err
		}
		odd, err := acquire(s, uneven, samples)
		if err != nil {
			return err
		}
		median := rank(odd, 50)
		if first == 0 {
			first = median
		}
		t.row(s, millis(rank(even, 50)), millis(rank(even, 99)), millis(median), millis(rank(odd, 99)), ratio(median, first))
	}
	return t.print(out)
}
