package main

import (
	"fmt"
	"io"

	"github.com/lockmesh/lockmesh/sim"
)

// refreshed is for how long refreshes are counted.
const refreshed = 10 * ttl

// upkeep is the traffic sent and received in this time while no keys are locked.
type upkeep struct {
	voter, other traffic // on average; other is zero where all vote
	mesh         traffic // sent
}

// refreshes counts the upkeep while the last node holds a number of leases.
func refreshes(s shape, leases int) (u upkeep, err error) {
	m, err := newMesh(s, equal, 1, leases > 0)
	if err != nil {
		return u, err
	}
	if err := m.hold(m.names[s.nodes-1], leases); err != nil {
		return u, err
	}
	m.reset()
	m.Run(refreshed)
	if err := m.Err(); err != nil {
		return u, err
	}
	if n := m.said(true).messages; n > 0 {
		return u, fmt.Errorf("%d messages of locks though no node locks", n)
	}
	sum := func(names []string) (t traffic) {
		for _, name := range names {
			for _, x := range []*traffic{of(m.sent, name), of(m.received, name)} {
				t.messages += x.messages
				t.bytes += x.bytes
			}
		}
		if n := len(names); n > 0 {
			t.messages, t.bytes = t.messages/n, t.bytes/n
		}
		return t
	}
	return upkeep{voter: sum(m.names[:s.voters]), other: sum(m.names[s.voters:]), mesh: m.said(false)}, nil
}

// hold makes a node take leases, a hundred at a time.
func (m *mesh) hold(node string, leases int) error {
	var r *sim.Request
	for i := range leases {
		r = m.Script.Lock(node, keyOf(i))
		if i%100 == 99 || i == leases-1 {
			if err := m.becomes(r, sim.Granted); err != nil {
				return err
			}
		}
	}
	m.Run(ttl)
	if leases > 0 && !m.Script.Held(r) {
		return m.why("a lease was lost")
	}
	return nil
}

func perSecond(t traffic) (messages, bytes string) {
	if t.messages == 0 {
		return "-", "-"
	}
	return rate(t.messages, refreshed), rate(t.bytes, refreshed)
}

func printRefresh(out io.Writer, full bool) error {
	if err := say(out, `### Keeping leases alive

The messages while no node locks or unlocks: each node refreshes its session at each voter five
times per TTL of %v, with any number of leases. Messages and bytes of frames a second; a node's
columns add up sent and received messages, and the mesh's columns count each message once.`, ttl); err != nil {
		return err
	}
	t := newTable("nodes", "a voter: messages/s", "bytes/s", "another node: messages/s", "bytes/s", "the mesh: messages/s", "bytes/s")
	row := func(first any, u upkeep) {
		cells := []any{first}
		for _, x := range []traffic{u.voter, u.other, u.mesh} {
			messages, bytes := perSecond(x)
			cells = append(cells, messages, bytes)
		}
		t.row(cells...)
	}
	for _, s := range []shape{{3, 3}, {10, 7}, {50, 7}, {300, 7}} {
		u, err := refreshes(s, 0)
		if err != nil {
			return err
		}
		row(s, u)
	}
	if err := t.print(out); err != nil {
		return err
	}
	if err := say(out, "\nFour nodes, of which three vote, while the fourth node holds leases:"); err != nil {
		return err
	}
	t = newTable("leases", "a voter: messages/s", "bytes/s", "the fourth node: messages/s", "bytes/s", "the mesh: messages/s", "bytes/s")
	held := []int{0, 1000}
	if full {
		held = append(held, 100_000)
	}
	for _, n := range held {
		u, err := refreshes(shape{4, 3}, n)
		if err != nil {
			return err
		}
		row(count(n), u)
	}
	return t.print(out)
}
