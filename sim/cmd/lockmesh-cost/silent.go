package main

import (
	"io"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// silent returns how long a node that doesn't vote took to lock uncontended keys, with three
// voters: while all voters answer (all), for the first lock after a voter has stopped, each voter
// in turn (first), and for the following locks (after).
func silent(net sim.Net, samples int) (all, first, after []time.Duration, err error) {
	m, err := newMesh(shape{4, 3}, net, 1, false)
	if err != nil {
		return nil, nil, nil, err
	}
	node := m.names[3]
	if err := m.warmUp(node); err != nil {
		return nil, nil, nil, err
	}
	take := func(n int, took *[]time.Duration) {
		for range n {
			var d time.Duration
			if err == nil {
				d, err = m.take(node, keyOf(len(all)+len(first)+len(after)))
			}
			*took = append(*took, d)
		}
	}
	for i := range samples / 10 {
		take(10, &all)
		m.Script.Stop(m.names[i%3])
		take(1, &first)
		take(9, &after)
		m.Script.Continue(m.names[i%3])
		m.Run(20 * delay)
	}
	if err == nil {
		err = m.Err()
	}
	return all, first, after, err
}

func printSilent(out io.Writer, full bool) error {
	samples := 300
	if full {
		samples = 3000
	}
	if err := say(out, `### A voter that doesn't answer

With three voters, a node that doesn't vote locks keys that no other node wants, and unlocks at
once. The node asks two voters, and the third voter only if one of the two takes longer than the
usual round trip. Then a voter stops, each voter in turn, and the node isn't notified; in two cases
of three the node asks the stopped voter. Afterwards the node treats this voter as slow. Links as
above.`); err != nil {
		return err
	}
	t := newTable("locks", "equal: median", "p99", "uneven: median", "p99")
	rows := []struct {
		name  string
		cells []any
	}{{name: "all voters answer"}, {name: "the first lock after a voter stops"}, {name: "the following locks"}}
	for _, net := range []sim.Net{equal, uneven} {
		all, first, after, err := silent(net, samples)
		if err != nil {
			return err
		}
		for i, took := range [][]time.Duration{all, first, after} {
			rows[i].cells = append(rows[i].cells, millis(rank(took, 50)), millis(rank(took, 99)))
		}
	}
	for _, row := range rows {
		t.row(append([]any{row.name}, row.cells...)...)
	}
	return t.print(out)
}
