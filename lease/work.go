package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// Budget bounds the work of a voter in a single call: the rest of a long task waits for the next
// Tick, which is due at once (see Next). The unit is the full processing of a request. On slow
// hardware (a Raspberry Pi 4, a throttled virtual machine) a unit takes up to half a microsecond,
// so Budget is 2 ms there, and a tenth of 2 ms on a server: BenchmarkWork measures the time.
//
// Budget is a count and not a time because the voter has no clock of its own, and a run must be
// repeatable.
const Budget = 4096

// taskBudget is the part of the budget for a task before the next task runs, so that a task with
// ten requests doesn't wait for the end of a task with a million requests.
const taskBudget = Budget / 8

// scanned is how many requests a scan may pass for a unit of work, if each request costs only a
// comparison.
const scanned = 32

// shifted is how many entries of a list may be moved for a unit of work.
const shifted = 1024

// weighed is how many TryLocks of a key are examined for a unit of work, each compared with the
// votes of the key.
const weighed = 8

// task is work that doesn't fit into a single call. A task keeps its own position, so that changes
// of keys and sessions between two runs do no harm.
type task interface {
	// run continues the task until the task is done or its budget is exhausted.
	run(v *Voter) (done bool)
}

// work is the list of the voter's tasks, in the order of their runs, and the count of work done.
type work struct {
	tasks   []task
	endings int    // how many of the tasks are of type ending
	used    int    // in the call under way
	limit   int    // of used, for the task under way
	total   uint64 // since the voter's start
}

// begin gives the timers of a call their budget.
func (w *work) begin() { w.used, w.limit = 0, taskBudget }

// Busy reports whether there is work for Tick to continue at once.
func (l *sessionLayer) Busy() bool {
	return len(l.work.tasks) > 0 || l.work.used >= taskBudget && l.isDue()
}

// Work returns the work done since the voter's start, in units of [Budget].
func (l *sessionLayer) Work() uint64 { return l.work.total }

// spend counts work done.
func (w *work) spend(units int) {
	w.used += units
	w.total += uint64(units)
}

// exhausted reports whether the task under way has used up its budget, and must let other work go
// first.
func (w *work) exhausted() bool { return w.used >= w.limit }

// renewBudget gives a task its budget, as far as the budget of the call goes.
func (w *work) renewBudget() { w.limit = min(w.used+taskBudget, Budget) }

// postpone has a task wait for its next run.
func (w *work) postpone(t task) { w.tasks = append(w.tasks, t) }

// leftForTimers gives the rest of the budget to the timers, and reports whether there is a rest.
func (w *work) leftForTimers() bool {
	if w.used >= Budget {
		return false
	}
	w.limit = Budget
	return true
}

// startTask begins a task. A short task is finished at once, and nothing shows that it was a task.
func (v *Voter) startTask(t task) {
	v.renewBudget()
	if v.exhausted() || !t.run(v) {
		v.postpone(t)
	}
}

// sessionTask is the task of taking a step with each of some requests of a session.
type sessionTask struct {
	s       *session
	numbers []vote.Number // the requests still without the step
	step    func(*Voter, *entry)
}

func (t *sessionTask) run(v *Voter) (done bool) {
	for len(t.numbers) > 0 && !t.s.leaves() {
		if v.exhausted() {
			return false
		}
		if e := t.s.entries.m[t.numbers[0]]; e != nil {
			t.step(v, e)
		}
		t.numbers = t.numbers[1:]
		v.spend(1)
	}
	return true
}

// runTasks runs the tasks, one after the other, until the budget of the call is used up.
func (v *Voter) runTasks() {
	w := &v.work
	for len(w.tasks) > 0 && w.used < Budget {
		t := w.tasks[0]
		w.renewBudget()
		w.used++ // for looking at the task: no run is free
		done := t.run(v)
		w.tasks[0] = nil
		w.tasks = w.tasks[1:]
		if !done {
			w.postpone(t)
		}
	}
	if len(w.tasks) == 0 {
		w.tasks = nil
	}
}
