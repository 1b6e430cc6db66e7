package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
)

// secretVariable names the environment variable with the secret. There is no flag for the secret,
// since every user of the machine can read the arguments of a process.
const secretVariable = "LOCKMESH_SECRET"

// options are the parsed command line.
type options struct {
	config lockmesh.Config
	http   string
	runFor time.Duration // 0: until interrupted
	kill   bool          // kill the leader once
	three  bool          // three nodes in this process
}

const usage = `Leader is a service with one leader and standbys, and a page on each node that shows who leads.

Usage: leader [-demo] [-for 10s]                               three nodes in one process
       leader -name a -voters a,b,c [-bind host:port] [-peers host:port,...] [-http host:port] [flags]   one node

Ctrl-C ends it. The secret that all nodes share is read from $` + secretVariable + `. Without one, only loopback addresses are
allowed. -voters, -max-ttl and the secret must be the same on all nodes.

Flags:
`

// parse reads the command line. If parse returns an error, it has already written the reason to
// stderr.
func parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var (
		o             options
		peers, voters string
	)
	f := flag.NewFlagSet("leader", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = io.WriteString(stderr, usage); f.PrintDefaults() }
	f.StringVar(&o.config.Name, "name", "", "`name` of this node, unique in the mesh; without it, three nodes are started here")
	f.StringVar(&o.config.Bind, "bind", "127.0.0.1:0", "`host:port` to listen on, TCP and UDP; port 0 lets the system choose")
	f.StringVar(&peers, "peers", "", "addresses of some other nodes, `host:port,...`")
	f.StringVar(&voters, "voters", "", "`names` of the nodes that vote, with commas between them")
	f.StringVar(&o.http, "http", "127.0.0.1:0", "`host:port` of the page, which everyone may see who can reach it; port 0 lets the system choose")
	f.DurationVar(&o.config.MaxTTL, "max-ttl", time.Second, "for how long the other nodes see a "+
		"dead node as leader, and a node that starts doesn't vote")
	f.BoolVar(&o.kill, "demo", false, "kill the leader once, and show which node takes over")
	f.DurationVar(&o.runFor, "for", 0, "end after so long, though with -demo not before another has taken over (default: never)")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.three = o.config.Name == ""
	o.config.Peers, o.config.Voters, o.config.Secret = list(peers), list(voters), []byte(env(secretVariable))
	o.config.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := o.check(f); err != nil {
		_, _ = fmt.Fprintf(stderr, "leader: the command line can't be used:\n%v\nTry -h.\n", err)
		return nil, err
	}
	return &o, nil
}

func (o *options) check(f *flag.FlagSet) error {
	var errs []error
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is no flag", f.Arg(0)))
	}
	if o.runFor < 0 {
		errs = append(errs, fmt.Errorf("-for %v is negative; 0 sets no end", o.runFor))
	}
	if !o.three {
		if o.kill {
			errs = append(errs, errors.New("-demo is for three nodes: leave out -name"))
		}
		if _, _, err := net.SplitHostPort(o.http); err != nil {
			errs = append(errs, fmt.Errorf("-http %q is not host:port", o.http))
		}
		return errors.Join(append(errs, o.config.Validate())...)
	}
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "bind", "peers", "voters", "http":
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
