package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
)

// board stands for the partitions of a real program: it sees all work, and refuses forbidden work.
// The demo's nodes share a board.
type board struct {
	guards *fence.Guards

	mu        sync.Mutex
	parts     [parts]entry
	units     int   // units of work done
	violation error // the first violation
	change    chan struct{}
}

// entry is the current or last worker of a partition.
type entry struct {
	node  string
	lease *lockmesh.Lease
}

func newBoard() *board {
	return &board{guards: fence.NewGuards(2 * parts), change: make(chan struct{})}
}

// begin records that a node works on a partition from now on. The previous lease must have ended,
// with a smaller token.
func (b *board) begin(p int, node string, lease *lockmesh.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.parts[p]
	b.parts[p] = entry{node, lease}
	switch {
	case last.lease == nil:
	case last.lease.Err() == nil:
		b.recordViolation(fmt.Errorf("node %s and node %s work on partition %d at once", last.node, node, p))
	case lease.Token() <= last.lease.Token():
		b.recordViolation(fmt.Errorf("node %s works on partition %d by token %d, which isn't larger than %d of node %s, the one before",
			node, p, lease.Token(), last.lease.Token(), last.node))
	}
	b.notify()
}

// write is a unit of work. A late write, by a token older than the newest, is refused.
func (b *board) write(p int, lease *lockmesh.Lease) error {
	return b.guards.Do(partKey(p), lease.Token(), func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.units++
		return nil
	})
}

// end records that a node has ended its work on a partition.
func (b *board) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notify()
}

func (b *board) recordViolation(err error) {
	if b.violation == nil {
		b.violation = err
	}
}

func (b *board) notify() {
	close(b.change)
	b.change = make(chan struct{})
}

// snapshot returns how many partitions each node has, a channel that is closed on changes, and the
// first violation.
func (b *board) snapshot() (has map[string]int, change <-chan struct{}, wrong error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	has = make(map[string]int)
	for _, e := range b.parts {
		if e.lease != nil && e.lease.Err() == nil {
			has[e.node]++
		}
	}
	return has, b.change, b.violation
}

// done returns how many units of work were done.
func (b *board) done() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.units
}

// balanced reports whether all partitions have workers, spread evenly over exactly these nodes.
func balanced(has map[string]int, nodes []string) bool {
	least, most := fairShare(parts, len(nodes))
	sum := 0
	for _, n := range nodes {
		if has[n] < least || has[n] > most {
			return false
		}
		sum += has[n]
	}
	return sum == parts
}

// bars draws how many partitions each node has, a mark for every two.
func bars(has map[string]int, nodes []string) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s %2d %-*s ", n, has[n], parts/4, strings.Repeat("#", (has[n]+1)/2))
	}
	return strings.TrimSpace(b.String())
}
