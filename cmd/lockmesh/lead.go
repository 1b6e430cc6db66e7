package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// leadVerb runs a command whenever this process leads.
type leadVerb struct {
	jobFlags
	TTL   time.Duration `name:"ttl" placeholder:"TIME" help:"How long others wait after a crash of the node. (the node's own TTL)"`
	Value string        `placeholder:"TEXT" help:"What others see with the leader, such as an address."`
	Once  bool          `help:"End when the leadership ends, instead of campaigning again."`
	Pause time.Duration `default:"1s" placeholder:"TIME" help:"The pause before the next campaign, after an error or a command that has ended. (${default})"`
	Name  string        `arg:"" help:"The name of the election: a key."`

	command []string
}

// Help implements [kong.HelpProvider].
func (*leadVerb) Help() string {
	return `One process at a time leads: the holder of the key NAME. The command runs while this process
leads, and is ended when the leadership is lost; then this process campaigns again. Other programs
see the leader with lockmesh inspect NAME, or the method Leader of an election in Go.

A command that ends by itself ends its leadership, so that another node may lead, and is started
again when this process leads again, whatever the command's code; lead ends only if the command
can't be run at all. With --once the exit code is the command's.

Example:
  lockmesh lead scheduler --value 10.0.0.7:8080 -- ./scheduler`
}

// Run runs the verb.
func (v *leadVerb) Run(ctx context.Context, g *globals) error {
	if len(v.command) == 0 {
		return usage("no command: lockmesh lead NAME -- COMMAND")
	}
	if v.Pause < 0 {
		return usage("--pause %v is negative", v.Pause)
	}
	lock := &lockFlags{TTL: v.TTL, Value: v.Value, ConflictExit: exitHeld}
	if err := lock.check(); err != nil {
		return err
	}
	signals, stop := listen()
	defer stop()
	l, err := g.connectUntilSignal(ctx, signals)
	if err != nil {
		return err
	}
	defer l.close()
	c := &guarded{lockFlags: lock, jobFlags: &v.jobFlags, keys: []string{v.Name}, args: v.command, signals: signals}
	for {
		told, err := g.underLock(ctx, l, c)
		if v.Once || !mayLeadAgain(err) || told != 0 {
			return err
		}
		if err != nil {
			_, _ = fmt.Fprintf(g.err, "lockmesh: %s; campaigning again in %v\n", describe(err), v.Pause)
		}
		if err := pause(ctx, v.Pause, signals); err != nil {
			return err
		}
	}
}

// pause waits for a time, or until a signal.
func pause(ctx context.Context, d time.Duration, signals <-chan os.Signal) error {
	waiting, stop := untilSignal(ctx, signals)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-waiting.Done():
	case <-timer.C:
	}
	stop()
	return causeOf(waiting, nil)
}

// mayLeadAgain reports whether a further campaign may succeed after an error of lockmesh. The codes
// of the command, such as 78, aren't lockmesh's: the command may succeed at its next turn.
func mayLeadAgain(err error) bool {
	var e *exit
	if errors.As(err, &e) && e.err == nil {
		return true
	}
	switch codeOf(err) {
	case exitUsage, exitConfig, exitNotRun, exitNotFound:
		return false
	}
	return true
}
