package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

const (
	// longestGrace is the default of --grace for leases of enough length.
	longestGrace = time.Second

	// gracesInLease is how many times --grace a lease has to be. The node renews a lease when a
	// fifth of it has passed, and tells so within a quarter of the rest: this process always knows
	// of more than half of a lease. An unrenewed lease counts as lost two graces before its end,
	// and two fifths are less than a half, by a tenth of the lease for delays.
	gracesInLease = 5
)

// phase is the state of a supervisor.
type phase int

const (
	running   phase = iota // the command runs
	lingering              // the command has ended, and others of its processes run
	ending                 // the lock is lost, and the processes have been told to end
	killing                // the time of the processes is over
	over                   // no process of the job runs
)

// supervisor runs a command while locks are held. When a lock is lost, or isn't renewed in time,
// the processes of the command get SIGTERM, and SIGKILL while the lock is still kept from others.
type supervisor struct {
	holder   *holder
	grace    time.Duration
	follow   bool // wait for all processes of the command, as flock(1) does in effect
	yield    bool // end the command when another node asks for the key
	signals  <-chan os.Signal
	terminal *job.Terminal

	job     *job.Job
	phase   phase
	killAt  time.Time  // in the phases ending and killing
	loss    error      // why the lock is lost
	end     job.Change // of the command
	endAt   time.Time
	given   bool           // the job has the terminal
	forced  bool           // SIGKILL was sent
	foreign bool           // processes of another user couldn't be ended
	told    syscall.Signal // the last passed-on signal of the user to end processes
	toldAt  time.Time
	asked   bool // the job was told to end since another node asks for the key
}

// newGrace returns the time between SIGTERM and SIGKILL: as asked for, if the lease is long enough.
func newGrace(asked, lease time.Duration) (time.Duration, error) {
	longest := lease / gracesInLease
	switch {
	case asked < 0:
		return 0, usage("--grace %v is negative", asked)
	case asked == 0:
		return min(longestGrace, longest), nil
	case asked > longest:
		return 0, usage("--grace %v is too long for a lease of %v: at most a fifth of the lease, %v; "+
			"a longer lease needs a larger --ttl, or a larger MaxTTL of the mesh", asked, lease, longest)
	}
	return asked, nil
}

// run runs the command to its end.
func (s *supervisor) run(args []string) error {
	files := s.holder.files()
	j, err := job.Start(job.Command{Args: args, Env: append(os.Environ(), s.holder.environment()...), Keep: files})
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	s.job = j
	defer j.Close()
	s.terminal = job.OpenTerminal()
	defer s.terminal.Close()
	s.watch()
	if s.given {
		s.terminal.Give(ownGroup(), j.Group())
	}
	return s.result()
}

// watch handles all events until the job is over.
func (s *supervisor) watch() {
	lost, revoked := s.holder.lost(), s.revoked()
	changes := s.job.Changes()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.phase != over {
		timer.Reset(max(time.Until(s.next()), 0))
		select {
		case c, ok := <-changes:
			if !ok {
				changes = nil
				continue
			}
			s.changed(c)
		case sig := <-s.signals:
			s.pass(sig.(syscall.Signal))
		case err := <-lost:
			s.lose(err)
		case r := <-revoked:
			s.revokedBy(r)
		case <-timer.C:
		}
		s.tick()
	}
}

// revoked returns a channel of requests to release a key. Its goroutines end with the holds.
func (s *supervisor) revoked() <-chan admin.Revocation {
	out := make(chan admin.Revocation)
	for _, hold := range s.holder.holds {
		go func() {
			for {
				select {
				case <-hold.Done():
					return
				case r := <-hold.Revoked():
					select {
					case out <- r:
					case <-hold.Done():
						return
					}
				}
			}
		}()
	}
	return out
}

// next returns when tick has something to do at the latest.
func (s *supervisor) next() time.Time {
	switch s.phase {
	case running:
		return s.renewalLimit()
	case lingering:
		return earlier(s.renewalLimit(), s.nextLook())
	case ending:
		if s.end.Ended {
			return earlier(s.killAt, s.nextLook())
		}
		return s.killAt
	}
	return time.Now().Add(job.Pause(s.killAt))
}

// renewalLimit returns when a lease without a renewal counts as lost.
func (s *supervisor) renewalLimit() time.Time { return s.holder.deadline().Add(-2 * s.grace) }

// nextLook returns when to look again whether processes go on, once the command has ended: seldom
// if they go on for long, since the look goes through all processes of the machine.
func (s *supervisor) nextLook() time.Time {
	return time.Now().Add(job.Pause(s.endAt))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tick does the work due by now.
func (s *supervisor) tick() {
	now := time.Now()
	if s.loss == nil && !now.Before(s.renewalLimit()) {
		left := time.Until(s.holder.deadline())
		s.lose(fmt.Errorf("the lease ends in %v, and the node hasn't renewed it", roundTime(left)))
	}
	if s.phase == ending && !now.Before(s.killAt) {
		s.phase, s.killAt = killing, now // perhaps late, after a stop of this process
	}
	if s.end.Ended && !s.job.Alive() || s.phase == lingering && !s.follow {
		s.phase = over
		return
	}
	if s.phase == killing {
		s.forced = true
		s.note(s.job.Kill())
	}
}

// note tells the user, once, that processes of another user can't be ended.
func (s *supervisor) note(foreign []int) {
	if len(foreign) == 0 || s.foreign {
		return
	}
	s.foreign = true
	_, _ = fmt.Fprintf(s.holder.link.g.err, "lockmesh: processes of another user, as sudo starts them, can't be ended from here, "+
		"and go on without the lock: %s; lockmesh waits for their end (run lockmesh itself as that user)\n", strings.Trim(fmt.Sprint(foreign), "[]"))
}

// lose begins the end of the job, since the lock is lost or about to be lost.
func (s *supervisor) lose(err error) {
	if s.loss != nil {
		return
	}
	s.loss = err
	now := time.Now()
	s.killAt = now.Add(s.grace)
	if last := s.holder.deadline().Add(-s.grace); last.Before(s.killAt) {
		s.killAt = last
	}
	s.phase = ending
	_, _ = fmt.Fprintf(s.holder.link.g.err, "lockmesh: the lock is lost, and the command is ended: %s\n", describe(err))
	if now.Before(s.killAt) { // else a stopped job wouldn't be over in time
		s.job.SignalAll(syscall.SIGTERM)
		resume(s.job)
	}
}

// revokedBy tells the user about another node's request for a key.
func (s *supervisor) revokedBy(r admin.Revocation) {
	what := "the command goes on; --yield would end it"
	if s.yield {
		what = "the command is told to end"
	}
	reason := ""
	if r.Reason != "" {
		reason = ", to " + safe(r.Reason)
	}
	_, _ = fmt.Fprintf(s.holder.link.g.err, "lockmesh: node %s asks for the lock%s: %s\n", safe(r.Node), reason, what)
	if s.yield && !s.asked && s.phase == running {
		s.asked = true
		s.job.SignalAll(syscall.SIGTERM)
		resume(s.job)
	}
}

// changed handles a change of the command's state.
func (s *supervisor) changed(c job.Change) {
	switch {
	case c.Ended:
		s.end, s.endAt = c, time.Now()
		if s.phase == running {
			s.phase = lingering
		}
	case s.phase == running && isTerminalStop(c.Stopped):
		s.wantsTerminal(c.Stopped)
	case s.phase == running && isUserStop(c.Stopped) && s.given:
		// The key was meant for all processes started together by the shell, and only the job has
		// got the signal. This process gets the signal as well, and stops then.
		s.terminal.Give(ownGroup(), s.job.Group())
		signalOwnGroup(stopKey)
	}
}

// wantsTerminal handles a job stopped for reading from or changing the terminal: the job gets the
// terminal if this process may give the terminal.
func (s *supervisor) wantsTerminal(sig syscall.Signal) {
	if !s.terminal.IsOurs() {
		// The user has put this process into the background, and continues the process to bring it
		// back. Or another lockmesh has started this process, and gives the terminal then.
		if !job.StopForTerminal(sig) {
			s.job.Signal(syscall.SIGHUP) // as the system does with a group without a shell
			resume(s.job)
			return
		}
	}
	s.given = true
	s.resumed()
}

// pass hands a signal to the job.
func (s *supervisor) pass(sig syscall.Signal) {
	if isForAll(sig) {
		s.job.SignalAll(sig)
	} else {
		s.job.Signal(sig)
	}
	switch {
	case sig == stopKey:
		if job.StopSelf() {
			s.resumed()
		} else {
			resume(s.job)
		}
	case isEnd(sig):
		if !isToEnd(s.told) {
			s.told, s.toldAt = sig, time.Now()
		}
		resume(s.job) // a stopped process handles the signal once continued
	}
}

// isToEnd reports whether a signal of the user means the end, however the command handles the
// signal.
func isToEnd(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT
}

// endedBy returns the signal by which the user has ended the command; zero without such a signal. A
// command may handle other signals, such as HUP, and go on: such a signal counts if the command has
// ended by the signal, or within the grace.
func (s *supervisor) endedBy() syscall.Signal {
	if isToEnd(s.told) || s.loss == nil && (s.end.Signal == s.told || s.endAt.Sub(s.toldAt) <= s.grace) {
		return s.told
	}
	return 0
}

// resumed continues the job after this process was continued, if the locks are still held. While
// this process was stopped, it has read nothing from the node.
func (s *supervisor) resumed() {
	for _, hold := range s.holder.holds {
		if err := hold.Err(); err != nil {
			s.lose(err)
			return
		}
	}
	if s.given {
		s.terminal.Give(s.job.Group(), s.job.Group())
	}
	resume(s.job)
}

// result returns how the process ends.
func (s *supervisor) result() error {
	if s.loss != nil {
		how := "the command has ended"
		switch {
		case s.foreign:
			how = "the command couldn't be ended, and has gone on without the lock to its own end"
		case s.forced:
			how = "the command was killed"
		}
		return &exit{code: exitLost, err: fmt.Errorf("the lock was lost while the command ran; %s: %w", how, s.loss)}
	}
	if sig := s.end.Signal; sig != 0 {
		return &exit{code: exitSignal + int(sig), signal: sig, echo: s.given}
	}
	if s.end.Code != 0 {
		return &exit{code: s.end.Code}
	}
	return nil
}
