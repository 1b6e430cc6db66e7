package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
)

// secretVariable names the environment variable with the secret. There is no flag for the secret,
// since every user of the machine can read the arguments of a process.
const secretVariable = "LOCKMESH_SECRET"

// minEvery keeps the waits and the work, all fractions of the interval, well above the time for a
// message on a busy machine.
const minEvery = time.Second

// options are the parsed command line.
type options struct {
	config lockmesh.Config
	every  time.Duration
	runFor time.Duration // 0: until interrupted
	demo   bool
}

const usage = `Nightly runs a job on one of many nodes: all of them start it, and one runs it.

Usage: nightly [-every 2s] [-for 0s]                                  three nodes in one process; it ends by itself
       nightly -name a -voters a,b,c [-bind host:port] [-peers host:port,...] [flags]   one node; Ctrl-C ends it

The secret that all nodes share is read from $` + secretVariable + `. Without one, only loopback addresses are allowed.
-voters, -max-ttl, -every and the secret must be the same on all nodes.

Flags:
`

// parse reads the command line. If parse returns an error, it has already written the reason to
// stderr.
func parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var (
		o             options
		peers, voters string
	)
	f := flag.NewFlagSet("nightly", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = io.WriteString(stderr, usage); f.PrintDefaults() }
	f.StringVar(&o.config.Name, "name", "", "`name` of this node, unique in the mesh; without it, three nodes are started here")
	f.StringVar(&o.config.Bind, "bind", "127.0.0.1:0", "`host:port` to listen on, TCP and UDP; port 0 lets the system choose")
	f.StringVar(&peers, "peers", "", "addresses of some other nodes, `host:port,...`")
	f.StringVar(&voters, "voters", "", "`names` of the nodes that vote, with commas between them")
	f.DurationVar(&o.config.MaxTTL, "max-ttl", time.Second, "for how long a dead node keeps the job from others, and a node that starts doesn't vote")
	f.DurationVar(&o.every, "every", 2*time.Second, "how often the job is to run, counted from midnight in UTC")
	f.DurationVar(&o.runFor, "for", 0, "end after so long, though not before the three nodes have shown everything (default: then, or never)")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.demo = o.config.Name == ""
	o.config.Peers, o.config.Voters, o.config.Secret = list(peers), list(voters), []byte(env(secretVariable))
	o.config.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := o.check(f); err != nil {
		_, _ = fmt.Fprintf(stderr, "nightly: the command line can't be used:\n%v\nTry -h.\n", err)
		return nil, err
	}
	return &o, nil
}

func (o *options) check(f *flag.FlagSet) error {
	var errs []error
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is no flag", f.Arg(0)))
	}
	if o.every < minEvery {
		errs = append(errs, fmt.Errorf("-every %v is less than %v, in which no job can be passed around", o.every, minEvery))
	}
	if o.runFor < 0 {
		errs = append(errs, fmt.Errorf("-for %v is negative; 0 sets no end", o.runFor))
	}
	if !o.demo {
		return errors.Join(append(errs, o.config.Validate())...)
	}
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "bind", "peers", "voters":
			errs = append(errs, fmt.Errorf("-%s is for one node: give it a -name", set.Name))
		}
	})
	sample := lockmesh.Config{Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a"}, MaxTTL: o.config.MaxTTL}
	return errors.Join(append(errs, sample.Validate())...)
}

// list splits at commas and drops empty items.
func list(s string) []string {
	var all []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}
