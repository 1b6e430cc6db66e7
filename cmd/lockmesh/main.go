// Lockmesh takes locks of a mesh for shell scripts and other programs, shows what happens in the
// mesh, and runs agents: nodes that take locks for programs in any language.
//
//	lockmesh run backup -- /usr/local/bin/backup
//
// runs a command while a lock is held. lockmesh -h lists all verbs; docs/command.md in the
// repository has the details.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

// The main thread stays the main goroutine's: on Linux a command is killed at the end of the thread
// on which the command was started.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 3 && os.Args[1] == job.GuardVerb {
		job.Guard(os.Args[2])
		return
	}
	s := &streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	err := execute(os.Args[1:], s)
	var e *exit
	if errors.As(err, &e) && (e.signal == syscall.SIGINT || e.signal == syscall.SIGQUIT) {
		// A shell ends the running script if the signal has ended the command.
		dieOf(e.signal, e.echo)
	}
	os.Exit(codeOf(err))
}

// streams are the standard input, output and error of the process.
type streams struct {
	in       *os.File
	out, err *os.File
}

// cli is the command line.
type cli struct {
	globals

	Run  runVerb  `cmd:"" help:"Run a command while locks are held."`
	Lock lockVerb `cmd:"" help:"Hold a lock until the standard input ends."`
	Lead leadVerb `cmd:"" help:"Run a command whenever this process is the leader."`

	Ls         lsVerb         `cmd:"" help:"List keys with their holders."`
	Inspect    inspectVerb    `cmd:"" help:"Show who holds a key, and who waits."`
	Watch      watchVerb      `cmd:"" help:"Print what happens to keys, as it happens."`
	Top        topVerb        `cmd:"" help:"Show the mesh live, on a whole screen."`
	Status     statusVerb     `cmd:"" help:"Show the node and the voters."`
	Members    membersVerb    `cmd:"" help:"List the nodes that gossip knows."`
	Electorate electorateVerb `cmd:"" help:"Show the voters, and how they change."`

	Wait waitVerb `cmd:"" help:"Wait until locks can be granted, another node may be restarted, or a key is free."`

	Revoke  revokeVerb  `cmd:"" help:"Ask the holders of a key to release it."`
	Evict   evictVerb   `cmd:"" help:"End a lease against the will of its holder."`
	Drain   drainVerb   `cmd:"" help:"Have the node take no more locks, and wait until it holds none."`
	Stop    stopVerb    `cmd:"" help:"End the node, which will be back."`
	Leave   leaveVerb   `cmd:"" help:"End the node for good."`
	Recover recoverVerb `cmd:"" help:"Name new voters after a majority was lost for good."`

	Agent      agentVerb      `cmd:"" help:"Run a node that takes locks for other programs."`
	Doctor     doctorVerb     `cmd:"" help:"Look for what keeps a node of this machine from the mesh."`
	Keygen     keygenVerb     `cmd:"" help:"Print a new secret for a mesh."`
	Rotate     rotateVerb     `cmd:"" help:"Show how far a change of the secret has come, and the next step."`
	Version    versionVerb    `cmd:"" help:"Print the version."`
	Completion completionVerb `cmd:"" help:"Print a script that completes lockmesh's words in a shell."`
	Complete   completeVerb   `cmd:"" hidden:"" name:"internal-complete"`
}

const description = `Locks for scripts and programs in any language, granted by a majority of a mesh's nodes.

Most verbs talk to a node: an agent, or an application that embeds lockmesh and serves its admin
socket. -a or LOCKMESH_ADDR tells the node's socket or URL. With --join, the process itself is a
node for as long as it runs.`

// errAnswered ends the parsing of a command line with a request for help.
var errAnswered = errors.New("answered")

// execute runs a command line, tells the user about an error, and returns the error.
func execute(args []string, s *streams) error {
	err := dispatch(args, s)
	if err == nil || errors.Is(err, errAnswered) {
		return nil
	}
	var e *exit
	if !errors.As(err, &e) || e.err != nil {
		_, _ = fmt.Fprintln(s.err, "lockmesh: "+describe(err))
	}
	return err
}

func dispatch(args []string, s *streams) (err error) {
	c := new(cli)
	parser, err := newParser(c, s)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	args, command, has := cutCommand(args)
	c.Run.command, c.Lead.command = command, command
	defer func() {
		if r := recover(); r != nil { // kong ends the parsing so, after printing help
			if r != errAnswered {
				panic(r)
			}
			err = errAnswered
		}
	}()
	parsed, err := parser.Parse(joinNegatives(args))
	if err != nil {
		var p *kong.ParseError
		if errors.As(err, &p) {
			return usage("%v; see lockmesh %s-h", err, verbOf(p.Context))
		}
		return err
	}
	if has && !takesCommand(verb(parsed)) {
		return usage("%q takes no command after --", verb(parsed))
	}
	c.streams = s
	return parsed.Run(&c.globals, parser, context.Background())
}

func newParser(c *cli, s *streams) (*kong.Kong, error) {
	return kong.New(c, kong.Name("lockmesh"), kong.Description(description),
		kong.Writers(s.out, s.err), kong.Exit(func(int) { panic(errAnswered) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.Help(printHelp),
		kong.ShortUsageOnError(), kong.BindTo(context.Background(), (*context.Context)(nil)),
		kong.Vars{"defaultAddr": defaultAddr(), "machineSocket": machineSocket, "version": newVersion().String()})
}

// printHelp prints the help of a verb. kong knows nothing of the command after --.
func printHelp(o kong.HelpOptions, c *kong.Context) error {
	var b strings.Builder
	out := c.Stdout
	c.Stdout = &b
	err := kong.DefaultHelpPrinter(o, c)
	c.Stdout = out
	if err != nil {
		return err
	}
	text := b.String()
	if v := c.Selected(); v != nil && takesCommand(v.Name) {
		text = strings.Replace(text, " [flags]\n", " [flags] -- COMMAND [ARG ...]\n", 1)
	}
	_, err = io.WriteString(out, text)
	return err
}

// takesCommand reports whether a verb runs a command.
func takesCommand(verb string) bool { return verb == "run" || verb == "lead" }

// joinNegatives joins negative numbers with the flags before: kong takes a number for a flag
// otherwise, without a helpful error.
func joinNegatives(args []string) (joined []string) {
	for i, a := range args {
		if a == "--" {
			return append(joined, args[i:]...)
		}
		last := len(joined) - 1
		switch {
		case len(a) < 2 || a[0] != '-' || !strings.Contains("0123456789.", a[1:2]) || last < 0:
		case strings.HasPrefix(joined[last], "--") && !strings.Contains(joined[last], "="):
			joined[last] += "=" + a
			continue
		case len(joined[last]) == 2 && joined[last][0] == '-':
			joined[last] += a
			continue
		}
		joined = append(joined, a)
	}
	return joined
}

// cutCommand returns the words before -- (for run and lead only), and the words behind.
func cutCommand(args []string) (before, command []string, has bool) {
	i := slices.Index(args, "--")
	if i < 0 || !slices.ContainsFunc(args[:i], takesCommand) {
		return args, nil, false
	}
	return args[:i], args[i+1:], true
}

// verb returns the first word of the parsed verb.
func verb(c *kong.Context) string {
	word, _, _ := strings.Cut(c.Command(), " ")
	return word
}

// verbOf returns the verb of a command line, as far as the parser came, and a blank.
func verbOf(c *kong.Context) string {
	if c == nil || c.Selected() == nil {
		return ""
	}
	return c.Selected().Name + " "
}
