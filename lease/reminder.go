package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// reminder schedules a check of a vote: at the end of the vote's proposal timeout, or of the vote.
type reminder struct {
	at     vote.Instant
	serial vote.Serial
	key    *key
}

// reminders is a heap, the earliest first. An obsolete reminder is skipped when its time comes.
type reminders []reminder

func (h reminders) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].serial < h[j].serial
}

func (h *reminders) add(r reminder) {
	*h = append(*h, r)
	all := *h
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if !all.less(i, up) {
			break
		}
		all[i], all[up] = all[up], all[i]
		i = up
	}
}

// take removes and returns the earliest reminder.
func (h *reminders) take() reminder {
	all := *h
	first, n := all[0], len(all)-1
	all[0], all[n] = all[n], reminder{}
	all = all[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && all.less(down+1, down) {
			down++
		}
		if !all.less(down, i) {
			break
		}
		all[i], all[down] = all[down], all[i]
		i = down
	}
	if c := cap(all); c > roomy && n <= c/8 {
		all = append(make(reminders, 0, 2*n), all...)
	}
	*h = all
	return first
}

// remind schedules a check of a vote at an instant.
func (l *voteLayer) remind(e *entry, at vote.Instant) {
	l.at(at)
	x := l.spares.coldFor(e)
	if x.timed != 0 && x.timed <= at && x.timed > l.now.Slow {
		return // the vote is checked earlier, and then scheduled anew
	}
	x.timed = at
	l.votes.reminders.add(reminder{at, e.serial, e.key})
}

func (v *Voter) advanceReminders() {
	var granted *key // by the reminder before; nothing has happened to the key since
	for len(v.votes.reminders) > 0 && v.votes.reminders[0].at <= v.now.Slow && !v.exhausted() {
		v.spend(1)
		r := v.votes.reminders.take()
		e := r.key.voteOf(r.serial)
		if e == nil {
			continue
		}
		x := v.spares.coldFor(e)
		if x.timed > v.now.Slow {
			// A later check is scheduled: this reminder is left over from before the vote became
			// residual, was reclaimed, or got an earlier check.
			continue
		}
		x.timed = 0
		switch {
		case x.end() != 0 && x.end() <= v.now.Slow:
			v.outlasted(e)
			granted = nil
		default:
			if end := x.end(); end != 0 {
				v.remind(e, end)
			}
			if r.key != granted { // the timeouts of many readers end together
				v.grantVotes(r.key)
				granted = r.key
			}
		}
	}
	if len(v.votes.reminders) > 0 {
		v.at(v.votes.reminders[0].at)
	}
}
