package engine

import (
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// task is the same work for many calls or leases, such as the release of every lease when the node
// leaves. A node may have 100,000 leases, so the loop does a task in pieces: each round does as
// much as its budget allows, and the urgent messages of other nodes are processed between rounds.
type task struct {
	// list returns the numbers of the calls or leases concerned. The loop calls list as the task
	// begins, after the tasks before it.
	list func() []vote.Number
	// do does the work for a number. The call or the lease may have ended since the listing.
	do func(now vote.Now, n vote.Number)
	// done, if not nil, is closed when the task is done.
	done chan<- struct{}

	begun   bool
	numbers []vote.Number // still to do
}

// The costs of tasks, in the unit of [node.Budget]; BenchmarkStop measures the time of a round.
const (
	// costFreed is the cost of ending a lease: its context ends, and messages to the voters follow.
	costFreed = 32
	// costFailed is the cost of failing a call, whose goroutine becomes runnable.
	costFailed = 8
	// listed is how many numbers the loop lists for a unit of work.
	listed = 8
)

// addTask has the loop do a task, after the tasks that were added before.
func (l *loop) addTask(c task) { l.tasks = append(l.tasks, c) }

// doTasks does as much of the tasks as the budget of a round allows.
func (l *loop) doTasks(now vote.Now) {
	limit := l.node.Work() + node.Budget
	for len(l.tasks) > 0 {
		c := &l.tasks[0]
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
		l.tasks = l.tasks[1:]
	}
	l.tasks = nil
}

// numbers lists the numbers in a table.
func (t *table[V]) numbers() []vote.Number {
	numbers := make([]vote.Number, 0, len(t.m))
	for n := range t.m {
		numbers = append(numbers, n)
	}
	return numbers
}
