package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
)

// electorates are the numbers of voters for which the messages of a lock are counted.
var electorates = []int{1, 3, 5, 7, 9}

// aWhile is longer than deferred requests (hedges) are held back with round trips as long as here.
const aWhile = 20 * time.Millisecond

// keyOf returns keys of 24 bytes.
func keyOf(i int) string { return fmt.Sprintf("jobs/nightly/item-%06d", i) }

// lockWords returns the messages between nodes for a number of locks and their releases: by kind,
// and in total. The requester is a voter if byVoter is set, and holds each key for long.
func lockWords(voters int, byVoter bool, long time.Duration, locks int) (map[vote.Kind]*traffic, traffic, error) {
	m, err := newMesh(shape{voters + 1, voters}, equal, 1, false)
	if err != nil {
		return nil, traffic{}, err
	}
	node := m.names[voters]
	if byVoter {
		node = m.names[0]
	}
	if err := m.warmUp(node); err != nil {
		return nil, traffic{}, err
	}
	m.reset()
	for i := range locks {
		r := m.Script.Lock(node, keyOf(i))
		if err := m.becomes(r, sim.Granted); err != nil {
			return nil, traffic{}, err
		}
		m.Run(long)
		m.Script.Release(r)
		if err := m.becomes(r, sim.Released); err != nil {
			return nil, traffic{}, err
		}
	}
	m.Run(ttl / 100) // until the last message has come
	kinds := maps.Clone(m.kinds)
	maps.DeleteFunc(kinds, func(k vote.Kind, _ *traffic) bool { return k.Urgent() })
	return kinds, m.said(true), nil
}

func printLock(out io.Writer, full bool) error {
	locks := 100
	if full {
		locks = 1000
	}
	if err := say(out, `### The messages of a lock

All messages between nodes for one free lock and its release, and the bytes of their frames, for a
key of %d bytes. TLS and TCP add bytes of their own. Messages of a node to its own voter don't leave
the node, and don't count. For a lock that is released at once, the node asks a bare majority; for a
lock that is held for %v, the node asks all voters.`, len(keyOf(0)), aWhile); err != nil {
		return err
	}
	t := newTable("voters", "voter asks, released at once: messages", "bytes", "held: messages", "bytes", "non-voter asks, released at once: messages", "bytes", "held: messages", "bytes")
	for _, voters := range electorates {
		cells := []any{voters}
		for _, byVoter := range []bool{true, false} {
			for _, long := range []time.Duration{0, aWhile} {
				_, sum, err := lockWords(voters, byVoter, long, locks)
				if err != nil {
					return err
				}
				cells = append(cells, each(sum.messages, float64(locks)), each(sum.bytes/locks, 1))
			}
		}
		t.row(cells...)
	}
	if err := t.print(out); err != nil {
		return err
	}
	if err := say(out, "\nThe same for each voter asked, other than the node's own voter, by kind of message, in order:"); err != nil {
		return err
	}
	kinds, _, err := lockWords(3, false, aWhile, locks)
	if err != nil {
		return err
	}
	t = newTable("kind", "messages", "bytes")
	order := []vote.Kind{vote.KindRequest, vote.KindPromise, vote.KindConfirm, vote.KindRelease, vote.KindReleased}
	for k := range kinds {
		if !slices.Contains(order, k) {
			return fmt.Errorf("a free lock needs a %v, for which there is no row", k)
		}
	}
	for _, k := range order {
		x := of(kinds, k)
		t.row(k, each(x.messages, float64(3*locks)), each(x.bytes/(3*locks), 1))
	}
	return t.print(out)
}
