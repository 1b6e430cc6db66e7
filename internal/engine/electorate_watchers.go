package engine

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// ElectorateEvery is the interval between checks of a watched electorate, in addition to each new
// version: the state of a voter may change with any message.
const ElectorateEvery = 250 * time.Millisecond

// ElectorateView is the electorate as seen by this node at a moment. The receiver owns the slices.
type ElectorateView struct {
	Majority int
	Ready    bool
	Spare    int // how many voters may fail with a majority left
	Voters   []quorum.VoterState
	Dynamic  bool
	Status   electorate.Status // zero unless membership is dynamic
}

// ElectorateWatcher is told of changes of the electorate. The loop calls the functions, which must
// not block.
type ElectorateWatcher struct {
	Changed func(ElectorateView) // something may have changed
	End     func()               // the last call: the watcher was removed, or the loop has ended
	over    bool                 // removed before it was added
}

// WatchElectorate adds a watcher, which receives the present view at once. It fails with ErrFull,
// or as any call does, without a call of End.
func (eng *Engine) WatchElectorate(w *ElectorateWatcher) error {
	begun := make(chan error, 1)
	if err := eng.loop.box.putCall(func(now vote.Now) { begun <- eng.loop.watchElectorate(now, w) }); err != nil {
		return err
	}
	select {
	case err := <-begun:
		return err
	case <-eng.loop.done:
		return errs.Closed
	}
}

// UnwatchElectorate removes a watcher.
func (eng *Engine) UnwatchElectorate(w *ElectorateWatcher) {
	eng.loop.box.post(false, func(vote.Now) { eng.loop.unwatchElectorate(w) })
}

// electorateView returns the electorate as seen by this node.
func (l *loop) electorateView(now vote.Now) ElectorateView {
	v := ElectorateView{Majority: l.node.Electorate().Majority(), Ready: l.node.Ready(), Spare: l.node.Spare(), Voters: l.node.Voters(now)}
	v.Status, v.Dynamic = l.electorateStatus(now)
	return v
}

// watchElectorate adds a watcher, which receives the present view at once.
func (l *loop) watchElectorate(now vote.Now, w *ElectorateWatcher) error {
	v := &l.electorate
	if len(v.watchers) >= l.engine.cfg.Limits.Watches {
		return ErrFull
	}
	if v.watchers == nil {
		v.watchers = make(map[*ElectorateWatcher]struct{})
	}
	v.watchers[w] = struct{}{}
	w.Changed(l.electorateView(now))
	if v.stopTimer == nil {
		l.scheduleElectorateCheck()
	}
	if w.over { // ctx ended before the watch began
		l.unwatchElectorate(w)
	}
	return nil
}

func (l *loop) unwatchElectorate(w *ElectorateWatcher) {
	w.over = true
	if _, ok := l.electorate.watchers[w]; ok {
		delete(l.electorate.watchers, w)
		w.End()
	}
}

// publishElectorate sends the new status to all watches.
func (l *loop) publishElectorate(now vote.Now) {
	for w := range l.electorate.watchers {
		w.Changed(l.electorateView(now))
	}
}

// scheduleElectorateCheck schedules the next check of the electorate, as long as there are watches.
func (l *loop) scheduleElectorateCheck() {
	over := false // a timer may fire twice
	l.electorate.stopTimer = l.clocks.After(ElectorateEvery, func() {
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
