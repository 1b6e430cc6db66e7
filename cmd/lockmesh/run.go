package main

import (
	"context"
	"time"

	"github.com/alecthomas/kong"
)

// jobFlags are the flags of the verbs to run a command.
type jobFlags struct {
	Grace time.Duration `env:"LOCKMESH_GRACE" placeholder:"TIME" help:"When the lock is lost, how long the command has between SIGTERM and SIGKILL. SIGKILL is sent TIME before the end of a lease that isn't renewed. At most a fifth of the lease. (1s, or a fifth of a shorter lease)"`
	Yield bool          `help:"Send the command SIGTERM when another node asks for the lock."`
	Alone bool          `name:"command-only" aliases:"close" help:"Release the lock when the command itself has ended, even if processes that it has started in its process group go on. flock(1) has -o for this."`
}

// runVerb runs a command while locks are held.
type runVerb struct {
	lockFlags
	jobFlags
	Shell string   `short:"c" aliases:"command" placeholder:"COMMAND" help:"Run COMMAND by sh -c, in place of a command after --."`
	Keys  []string `arg:"" name:"key" help:"The keys to lock: all of them, in the order of their names."`

	command []string // the words behind --
}

// Help implements [kong.HelpProvider].
func (*runVerb) Help() string {
	return `The command runs in a process group of its own, and gets the signals that lockmesh gets. It has the
variables LOCKMESH_KEY, LOCKMESH_TOKEN (the fencing token), LOCKMESH_NODE, and for several keys
LOCKMESH_TOKENS with a line for each: token and key.

The exit code is the command's, or 128 and its signal; 75 the lock is held or the wait over; 69 no
majority of voters, or no node answers; 79 the lock was lost while the command ran, or a lock during
the wait for another; 64 and 78 wrong flags or settings; 126 and 127 the command can't be run or
found.

Examples:
  lockmesh run backup -- /usr/local/bin/backup --all    one backup at a time, in the whole mesh
  lockmesh run -n nightly -- ./report || echo skipped   not at all if another machine is at it
  lockmesh run -w 30s --permits 3 encoder -- ffmpeg …   three at a time
  lockmesh run -s data -- sh -c 'tar c /data | wc -c'   readers together, no writer meanwhile`
}

// Run runs the verb.
func (r *runVerb) Run(ctx context.Context, g *globals) error {
	args, err := r.args()
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return err
	}
	signals, stop := listen()
	defer stop()
	l, err := g.connectUntilSignal(ctx, signals)
	if err != nil {
		return err
	}
	defer l.close()
	_, err = g.underLock(ctx, l, &guarded{lockFlags: &r.lockFlags, jobFlags: &r.jobFlags, keys: r.Keys, args: args, signals: signals})
	return err
}

// args returns the command and its arguments.
func (r *runVerb) args() ([]string, error) {
	switch {
	case r.Shell != "" && len(r.command) > 0:
		return nil, usage("there is a command after -c and another after --; leave one of them out")
	case r.Shell != "":
		return []string{"sh", "-c", r.Shell}, nil
	case len(r.command) == 0:
		return nil, usage("no command: lockmesh run KEY -- COMMAND, or lockmesh run KEY -c 'COMMAND'")
	}
	return r.command, nil
}

var _ kong.HelpProvider = (*runVerb)(nil)
