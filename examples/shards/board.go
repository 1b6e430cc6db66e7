package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
)

// board is what the partitions themselves would be in a real program: it sees all work, and refuses what must not be. The demo's nodes share one.
type board struct {
	guards *fence.Guards

	mu     sync.Mutex
	parts  [parts]entry
	units  int   // how much work was done
	wrong  error // the first thing that must not be
	change chan struct{}
}

// entry is who works on a partition, or did last.
type entry struct {
	node  string
	lease *lockmesh.Lease
}

func newBoard() *board {
	return &board{guards: fence.NewGuards(2 * parts), change: make(chan struct{})}
}

// begin notes that a node works on a partition from now on. The one before must have ended, and its token must have been smaller.
func (b *board) begin(p int, node string, lease *lockmesh.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.parts[p]
	b.parts[p] = entry{node, lease}
	switch {
	case last.lease == nil:
	case last.lease.Err() == nil:
		b.complain(fmt.Errorf("node %s and node %s work on partition %d at once", last.node, node, p))
	case lease.Token() <= last.lease.Token():
		b.complain(fmt.Errorf("node %s works on partition %d by token %d, which isn't larger than %d of node %s, the one before",
			node, p, lease.Token(), last.lease.Token(), last.node))
	}
	b.stir()
}

// write is a unit of work. A late one, by a token older than the newest, is refused.
func (b *board) write(p int, lease *lockmesh.Lease) error {
	return b.guards.Do(partKey(p), lease.Token(), func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.units++
		return nil
	})
}

// end notes that a node has ended its work on a partition.
func (b *board) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stir()
}

func (b *board) complain(err error) {
	if b.wrong == nil {
		b.wrong = err
	}
}

func (b *board) stir() {
	close(b.change)
	b.change = make(chan struct{})
}

// look returns how many partitions each node has, a channel that is closed when that changes, and what must not have been.
func (b *board) look() (has map[string]int, change <-chan struct{}, wrong error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	has = make(map[string]int)
	for _, e := range b.parts {
		if e.lease != nil && e.lease.Err() == nil {
			has[e.node]++
		}
	}
	return has, b.change, b.wrong
}

// done returns how much work was done.
func (b *board) done() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.units
}

// even reports whether all partitions are worked on, by these nodes and no others, and evenly.
func even(has map[string]int, nodes []string) bool {
	least, most := fair(parts, len(nodes))
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
