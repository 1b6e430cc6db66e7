package main

import (
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

const (
	contested = "jobs/nightly"
	askers    = 4                    // nodes requesting the key
	callers   = 4                    // on each of these nodes
	held      = 5 * time.Millisecond // by each caller
)

// relay is the cost of passing a key around among many callers.
type relay struct {
	between     []time.Duration // from a release on a node to the grant on another
	within      int             // how often the lease was handed over among a node's callers
	said        traffic         // between nodes
	grants      int
	voters      int
	ofThemVoter bool
}

// handOvers makes four callers on each of four nodes request the same key again and again, for a
// number of grants. The nodes are voters if vote is set.
func handOvers(voters int, vote bool, grants int) (*relay, error) {
	s := shape{voters + askers, voters}
	if vote {
		s = shape{max(voters, askers), voters}
	}
	m, err := newMesh(s, equal, 1, false)
	if err != nil {
		return nil, err
	}
	nodes := m.names[s.nodes-askers:]
	r := &relay{voters: voters, ofThemVoter: vote}
	var given struct { // the last release
		by string
		at time.Duration
	}
	counting := false
	m.granted = func(q *sim.Request) {
		if counting && given.by != "" {
			r.grants++
			if given.by == q.Node {
				r.within++
			} else {
				r.between = append(r.between, q.Had-given.at)
			}
		}
		m.At(held, func() {
			given.by, given.at = q.Node, m.Now()
			m.Script.Release(q)
			m.Script.Lock(q.Node, q.Key)
		})
	}
	for i := range callers * askers {
		m.Script.Lock(nodes[i%askers], contested)
		m.Run(delay)
	}
	m.Run(2 * callers * askers * (held + 2*delay)) // until every caller has had its turn, twice
	m.reset()
	counting = true
	if !m.RunUntil(patience, func() bool { return r.grants == grants }) {
		return nil, m.why(fmt.Sprintf("%d grants", r.grants))
	}
	r.said = m.said(true)
	return r, m.Err()
}

func printHandOver(out io.Writer, full bool) error {
	grants := 64
	if full {
		grants = 640
	}
	if err := say(out, `### From holder to holder

%d callers on %d nodes want the same key again and again; each caller holds the key for %v. The time
is from the release on one node to the grant on another node, in delays of one message (all links
take %v). So the time is also the number of messages sent one after the other: the release to a
voter, and the voter's promise to the next request in the queue. Messages and bytes are the totals
between nodes about the key, for each grant.`, callers*askers, askers, held, delay); err != nil {
		return err
	}
	t := newTable("voters", "requesters", "delays, median", "most", "messages", "bytes")
	for _, voters := range []int{3, 5, 7} {
		for _, vote := range []bool{false, true} {
			if vote && voters < askers {
				continue
			}
			r, err := handOvers(voters, vote, grants)
			if err != nil {
				return err
			}
			who := "non-voters"
			if vote {
				who = "voters"
			}
			t.row(voters, who, ratio(rank(r.between, 50), delay), ratio(rank(r.between, 100), delay),
				each(r.said.messages, float64(r.grants)), each(r.said.bytes, float64(r.grants)))
		}
	}
	return t.print(out)
}
