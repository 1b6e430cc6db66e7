package lockmesh

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// electorateEvery is the interval between checks of a watched electorate, in addition to each new
// version: the state of a voter may change with any message.
const electorateEvery = 250 * time.Millisecond

// electorateView is the electorate as seen by this node at a moment. The receiver owns the slices.
type electorateView struct {
	majority int
	ready    bool
	voters   []quorum.VoterState
	dynamic  bool
	status   electorate.Status // zero unless membership is dynamic
}

// electorateWatcher is told of changes of the electorate. The loop calls the functions, which must
// not block.
type electorateWatcher struct {
	changed func(electorateView) // something may have changed
	end     func()               // the last call: the watcher was removed, or the loop has ended
	over    bool                 // removed before it was added
}

// electorateView returns the electorate as seen by this node.
func (l *loop) electorateView(now vote.Now) electorateView {
	v := electorateView{majority: l.node.Electorate().Majority(), ready: l.node.Ready(), voters: l.node.Voters(now)}
	v.status, v.dynamic = l.node.ElectorateStatus(now)
	return v
}

// watchElectorate adds a watcher, which receives the present view at once.
func (l *loop) watchElectorate(now vote.Now, w *electorateWatcher) error {
	v := &l.electorate
	if len(v.watchers) >= MaxWatches {
		return ErrBusy
	}
	if v.watchers == nil {
		v.watchers = make(map[*electorateWatcher]struct{})
	}
	v.watchers[w] = struct{}{}
	w.changed(l.electorateView(now))
	if v.stopTimer == nil {
		l.scheduleElectorateCheck()
	}
	if w.over { // ctx ended before the watch began
		l.unwatchElectorate(w)
	}
	return nil
}

func (l *loop) unwatchElectorate(w *electorateWatcher) {
	w.over = true
	if _, ok := l.electorate.watchers[w]; ok {
		delete(l.electorate.watchers, w)
		w.end()
	}
}

// publishElectorate sends the new status to all watches.
func (l *loop) publishElectorate(now vote.Now) {
	for w := range l.electorate.watchers {
		w.changed(l.electorateView(now))
	}
}

// scheduleElectorateCheck schedules the next check of the electorate, as long as there are watches.
func (l *loop) scheduleElectorateCheck() {
	over := false // a timer may fire twice
	l.electorate.stopTimer = l.clocks.After(electorateEvery, func() {
		l.box.post(false, func(now vote.Now) {
			if over {
				return
			}
			over = true
			l.electorate.stopTimer = nil
			if len(l.electorate.watchers) > 0 {
				l.publishElectorate(now)
				l.scheduleElectorateCheck()
			}
		})
	})
}
