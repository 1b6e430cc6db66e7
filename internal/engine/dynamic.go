package engine

import (
	"cmp"
	"strings"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/quorum"
)

// electorateState is the loop's state about the electorate, in addition to the state of the node.
type electorateState struct {
	dynamic    bool
	self       vote.Elector // this node as a voter
	version    uint64       // the version logged last
	changes    uint64       // versions that came while this node ran
	jointSince vote.Instant // since when this node knows that the electorate is joint, on the slow clock; else zero
	dialsStale bool         // the set of nodes to dial may have changed
	// the logged difference between this node's MaxVoters and the decided value
	loggedDifference string
	lost             bool // the log says that the electorate is lost
	// the logged reason why this NonVoting node stays a voter
	loggedStays string
	// the state directory could not be written at the last check; an alarm has been logged
	trouble      bool
	dialFailures map[vote.NodeID]dialFailure
	watchers     map[*ElectorateWatcher]struct{}
	stopTimer    func() // stops the timer of the watches' next check; nil if there is none
	// notified when this node is no voter any more, or of why the node stays a voter; each has room
	leaveWaiters []chan<- string
	recoveries   []recovery // answered once their version is stored
}

func newElectorateState(f *node.Dynamic, now vote.Now) electorateState {
	e := electorateState{
		dynamic: true, self: vote.Elector{Name: f.State.Name, Dir: f.State.Dir}, version: f.State.Electorate.Version,
		dialsStale: true, dialFailures: make(map[vote.NodeID]dialFailure),
	}
	e.noteJoint(now, f.State.Electorate.Joint())
	return e
}

// noteJoint records whether the electorate is joint.
func (v *electorateState) noteJoint(now vote.Now, joint bool) {
	switch {
	case !joint:
		v.jointSince = 0
	case v.jointSince == 0:
		v.jointSince = now.Slow
	}
}

// electorateChanged applies a new configuration of the electorate.
func (l *loop) electorateChanged(now vote.Now, e *quorum.Event) {
	for _, s := range l.subscriptions { // publish may change subscriptionsByNonce
		s.merger.Reconfigure(e.Electorate, e.Places)
		l.publish(now, s)
	}
	v := &l.electorate
	v.dialsStale = true
	for name, f := range v.dialFailures {
		l.reportFailure(now, name, f)
	}
	st, _ := l.node.ElectorateStatus(now)
	if known := &st.Electorate; known.Version != v.version {
		was := v.version
		v.version = known.Version
		v.changes++
		v.noteJoint(now, known.Joint())
		l.observeElectorate(now)
		l.log.Info("the electorate has changed", "version", vote.VersionNumber(known.Version), "voters", ElectorNames(known.Voters), "joint", known.Joint(), "old", ElectorNames(known.Old), "max_ttl", known.MaxTTL)
		if was == 0 && l.engine.cfg.Bootstrap {
			l.engine.warnBootstrap()
		}
		if was == 1 && l.engine.cfg.FromFixed {
			l.engine.warnFromFixed()
		}
	}
	if !st.IsVoter() {
		l.answerLeave("")
	}
	l.publishElectorate(now)
}

// checkElectorate handles changes that come with the passing of time alone.
func (l *loop) checkElectorate(now vote.Now) {
	l.electorate.dialsStale = true
	for name := range l.electorate.dialFailures {
		if !l.engine.finder.Wants(name) {
			delete(l.electorate.dialFailures, name)
		}
	}
	st, _ := l.node.ElectorateStatus(now)
	switch lost := st.Lost != ""; {
	case lost && !l.electorate.lost:
		l.log.Error("the electorate is lost: "+st.Lost, "version", vote.VersionNumber(st.Electorate.Version))
	case !lost && l.electorate.lost:
		l.log.Info("the electorate is no longer lost: enough of its voters are reachable",
			"version", vote.VersionNumber(st.Electorate.Version))
	}
	if lost := st.Lost != ""; lost != l.electorate.lost {
		l.electorate.lost = lost
		l.observeElectorate(now)
	}
	if l.electorate.trouble && st.Trouble == "" && l.engine.cfg.Register == nil {
		l.log.Info("the state directory can be written again: this node takes part in changes of the electorate", "version", vote.VersionNumber(st.Electorate.Version))
	}
	l.electorate.trouble = st.Trouble != ""
	if st.Differs != "" && st.Differs != l.electorate.loggedDifference {
		l.log.Warn(st.Differs, "version", vote.VersionNumber(st.Electorate.Version))
	}
	l.electorate.loggedDifference = st.Differs
	if st.Stays != "" {
		l.answerLeave(st.Stays)
	}
	if l.engine.cfg.NonVoting && st.Stays != l.electorate.loggedStays {
		if l.electorate.loggedStays = st.Stays; st.Stays != "" {
			l.log.Warn("this node is NonVoting, and stays a voter until another voting node takes its place: start one", "reason", st.Stays, "version", vote.VersionNumber(st.Electorate.Version))
		}
	}
}

// checkIdentity has a new identity of this node published. A mesh that is born by count has a
// process take another identity in place of a start.
func (l *loop) checkIdentity() {
	if l.electorate.dynamic {
		if self := l.node.Elector(); self != l.electorate.self {
			l.electorate.self = self
			l.electorate.dialsStale = true
			l.log.Info("this process takes part in the mesh as a new one, with another identity", "identity", DirText(self.Dir))
			if !l.engine.cfg.NonVoting {
				wakeup.Replace(l.engine.newDirs, self.Dir)
			}
		}
	}
}

// publishDirs tells gossip the identities of this node, since gossip may wait.
func (eng *Engine) publishDirs() {
	for {
		select {
		case dir := <-eng.newDirs:
			eng.group.SetDir(dir)
		case <-eng.ctx.Done():
			return
		}
	}
}

// explain adds to a lack of quorum the reason that only the electorate knows: it is lost, or there
// is none yet. A refusal by the voters gets the text of this node's own refusal, if there is one: a
// voter that withdrew refuses its own node as well, and knows less about the reason.
func (l *loop) explain(now vote.Now, w quorum.Wait) quorum.Wait {
	switch w.Reason {
	case quorum.WaitNoQuorum:
	case quorum.WaitRefused:
		w.Text = cmp.Or(l.refused(now), w.Text)
		return w
	default:
		return w
	}
	st, dynamic := l.electorateStatus(now)
	switch {
	case !dynamic:
	case st.Electorate.Version == 0:
		w.Text = withTrouble(st.Change, st.Trouble)
	case st.Lost != "":
		w.Text += "; " + st.Lost
	case l.engine.cfg.Register != nil:
		w.Text = withTrouble(w.Text, st.Trouble)
	}
	return w
}

// withTrouble adds the trouble of this node to a text, unless the text names the trouble.
func withTrouble(text, trouble string) string {
	if trouble == "" || strings.Contains(text, trouble) {
		return text
	}
	return text + "; " + trouble
}

// electorateStatus returns the state of a dynamic electorate as seen by this node; false if the
// electorate is fixed. While no electorate is known, Change also says why the configured peers lead
// to no other node.
func (l *loop) electorateStatus(now vote.Now) (electorate.Status, bool) {
	st, dynamic := l.node.ElectorateStatus(now)
	if dynamic && st.Electorate.Version == 0 {
		if text := l.engine.finder.Trouble(); text != "" {
			st.Change += "; " + text
		}
	}
	return st, dynamic
}

// endElectorate tells all waiting calls and watches that nothing more will come.
func (l *loop) endElectorate() {
	v := &l.electorate
	for _, r := range v.recoveries {
		r.done <- l.fail(errs.Failure{Op: "recover", Reason: errs.Closed})
	}
	v.recoveries, v.leaveWaiters = nil, nil // leaveElectorate sees the end of the loop
	if v.stopTimer != nil {
		v.stopTimer()
	}
	for w := range v.watchers {
		w.End()
	}
	v.watchers = nil
}
