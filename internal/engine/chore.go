package engine

import (
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// chore is the same work for many calls or leases, such as the release of every lease when the node
// leaves. A node may have 100,000 leases, so the loop does a chore in pieces: each round does as
// much as its budget allows, and the urgent messages of other nodes are processed between rounds.
type chore struct {
	// list returns the numbers of the calls or leases concerned. The loop calls list as the chore
	// begins, after the chores before it.
	list func() []vote.Number
	// do does the work for a number. The call or the lease may have ended since the listing.
	do func(now vote.Now, n vote.Number)
	// done, if not nil, is closed when the chore is done.
	done chan<- struct{}

	begun   bool
	numbers []vote.Number // still to do
}

// The costs of chores, in the unit of [node.Budget]; BenchmarkStop measures the time of a round.
const (
	// costFreed is the cost of ending a lease: its context ends, and messages to the voters follow.
	costFreed = 32
	// costFailed is the cost of failing a call, whose goroutine becomes runnable.
	costFailed = 8
	// listed is how many numbers the loop lists for a unit of work.
	listed = 8
)

// addChore has the loop do a chore, after the chores that were added before.
func (l *loop) addChore(c chore) { l.chores = append(l.chores, c) }

// doChores does as much of the chores as the budget of a round allows.
func (l *loop) doChores(now vote.Now) {
	limit := l.node.Work() + node.Budget
	for len(l.chores) > 0 {
		c := &l.chores[0]
		if !c.begun {
			c.begun, c.numbers = true, c.list()
			l.node.Spend(len(c.numbers) / listed)
		}
		for len(c.numbers) > 0 {
			if l.node.Work() >= limit {
				return
			}
			c.do(now, c.numbers[0])
			c.numbers = c.numbers[1:]
		}
		if c.done != nil {
			close(c.done)
		}
		l.chores = l.chores[1:]
	}
	l.chores = nil
}

// numbers lists the numbers in a table.
func (t *table[V]) numbers() []vote.Number {
	numbers := make([]vote.Number, 0, len(t.m))
	for n := range t.m {
		numbers = append(numbers, n)
	}
	return numbers
}
