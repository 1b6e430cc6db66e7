package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/register/registerflag"
)

// secretVariable names the environment variable with the secret, for use without a secret file.
// There is no flag for the secret, since every user of the machine can read the arguments of a
// process.
const secretVariable = "LOCKMESH_SECRET"

// options are the parsed command line.
type options struct {
	config   lockmesh.Config
	lock     string        // the key for the node to take by itself; empty: none
	hold     time.Duration // for how long each time
	pause    time.Duration // between two times
	count    int           // how often; 0: until stopped
	try      bool          // TryLock rather than Lock
	ledger   string        // a file that records every lease; empty: none
	commands bool          // obey the standard input
	json     bool
	trace    bool // report the deadlines and the voters as they change
}

const usage = `Locknode is one node of a mesh of locks.

Usage: locknode -voters a,b,c [-name a] [-bind host:port] [-peers host:port,...] [-lock key] [flags]
       locknode -expect 3 [-bind host:port] [-peers host:port,...] [-lock key] [flags]

The secret that all nodes share is read from -secret-file or from $` + secretVariable + `. Without one, only loopback
addresses are allowed, or -insecure. -mesh, -voters, -max-ttl and the secret must be the same on all nodes.

With -state-dir, on all nodes, membership is dynamic: -voters names its founders, which are started with -bootstrap the first
time, and only then. The voters are printed whenever they change. A node that is a voter has itself
voted out before it leaves, which takes -max-ttl and a little more.

With -expect, on all nodes, names don't matter and nothing is kept on disk: the first 3 nodes that reach each other are the
first voters, and no more than 4 may run at once, unless all have a -register.

With -commands it obeys its standard input, one command a line, and leaves at the end of it:
  lock KEY      wait for a lock               use KEY   check that the lease is still held, as one does before a write
  trylock KEY   take a lock if it is free     status    print what this node sees of the mesh
  unlock KEY    release the lock              leave     leave the mesh and end
                                              close     end without leaving the mesh
  secrets NEW|OLD   accept these secrets from now on, and send the first
  recover a,b   DANGEROUS: make a and b the voters, where most of the voters are gone for good

Flags:
`

// parse reads the command line. If parse returns an error, it has already written the reason to
// stderr.
func parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var (
		o                  options
		peers, voters      string
		secretFile, logged string
		register           string
	)
	f := flag.NewFlagSet("locknode", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = io.WriteString(stderr, usage); f.PrintDefaults() }
	f.StringVar(&o.config.Name, "name", "", "`name` of this node, unique in the mesh (default: the host's name)")
	f.StringVar(&o.config.Mesh, "mesh", "", "`name` of the mesh (default \"default\")")
	f.StringVar(&o.config.Bind, "bind", "", "`host:port` to listen on, TCP and UDP; port 0 lets the system choose (default \":7950\")")
	f.StringVar(&o.config.Advertise, "advertise", "", "`host:port` at which others reach this node (default: what it listens on)")
	f.StringVar(&peers, "peers", "", "addresses of some other nodes, `host:port,...`")
	f.StringVar(&voters, "voters", "", "`names` of the nodes that vote, with commas between them")
	f.StringVar(&o.config.StateDir, "state-dir", "", "`directory` of this node's own; with it membership is dynamic (default: none, and the voters are fixed)")
	f.BoolVar(&o.config.Bootstrap, "bootstrap", false, "create the electorate with the other founders, if the state directory is empty; for the first start only")
	f.BoolVar(&o.config.FromFixed, "from-fixed", false, "give a mesh with fixed -voters dynamic membership: set it with -state-dir for the first of two rolling restarts")
	f.IntVar(&o.config.Expect, "expect", 0, "`number` of nodes with any names, and without directories, that found the mesh; in place of -voters and -state-dir")
	f.StringVar(&register, "register", "", "`URL` of a ConfigMap at an API server of Kubernetes, or of an object with conditional writes (If-Match), that says which mesh may act, with -expect")
	f.DurationVar(&o.config.RegisterTerm, "register-term", 0, "for how long voters act without the register (default 10m)")
	f.BoolVar(&o.config.NonVoting, "non-voting", false, "never vote: take locks only; with -state-dir this node is never voted in")
	f.IntVar(&o.config.MaxVoters, "max-voters", 0, "`number` of voters to which the electorate grows, with -state-dir (default 7)")
	f.DurationVar(&o.config.MaxTTL, "max-ttl", 0, "for how long a lease may outlive a crash, and a restarted voter is quiet (default 10s)")
	f.DurationVar(&o.config.TTL, "ttl", 0, "for how long this node's leases outlive its crash (default: -max-ttl)")
	f.StringVar(&secretFile, "secret-file", "", "`file` with the shared secret, 16 bytes or more; white space at its ends is ignored")
	f.BoolVar(&o.config.Insecure, "insecure", false, "do without a secret on other addresses than loopback")
	f.StringVar(&o.lock, "lock", "", "`key` of a lock to take over and over")
	f.DurationVar(&o.hold, "hold", time.Second, "how long to hold the lock each time")
	f.DurationVar(&o.pause, "pause", 100*time.Millisecond, "how long to wait after each time")
	f.IntVar(&o.count, "count", 0, "how many times to take the lock before leaving; 0 is without end")
	f.BoolVar(&o.try, "try", false, "don't wait when the lock is held; the attempt counts as one "+
		"time")
	f.StringVar(&o.ledger, "ledger", "", "`file`, shared by all nodes, to which each lease of -lock is written")
	f.BoolVar(&o.commands, "commands", false, "obey commands on the standard input")
	f.BoolVar(&o.json, "json", false, "print events as lines of JSON")
	f.BoolVar(&o.trace, "trace", false, "print how the deadlines of leases move and how voters come and go")
	f.StringVar(&logged, "log", "warn", "least `level` of the log on standard error: debug, info, warn, error")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.config.Peers, o.config.Voters = list(peers), list(voters)
	if err := errors.Join(rejectArguments(f), o.setLogger(logged, stderr), o.setSecret(secretFile, env), o.setRegister(register), o.config.Validate()); err != nil {
		_, _ = fmt.Fprintf(stderr, "locknode: the command line can't be used:\n%v\nTry -h.\n", err)
		return nil, err
	}
	return &o, nil
}

func rejectArguments(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return fmt.Errorf("%q is no flag; write -lock %s to take a lock of that name", f.Arg(0), f.Arg(0))
	}
	return nil
}

func (o *options) setLogger(level string, stderr io.Writer) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("-log: %w", err)
	}
	o.config.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: l}))
	return nil
}

func (o *options) setSecret(file string, env func(string) string) error {
	secret := []byte(env(secretVariable))
	if file != "" {
		var err error
		if secret, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("-secret-file: %w", err)
		}
		if len(bytes.TrimSpace(secret)) == 0 {
			return fmt.Errorf("-secret-file: %s is empty; it should have 16 random bytes or more", file)
		}
	}
	o.config.Secret = bytes.TrimSpace(secret)
	return nil
}

func (o *options) setRegister(text string) error {
	if text == "" {
		return nil
	}
	at, err := registerflag.Parse(text, nil)
	if err != nil {
		return fmt.Errorf("-register: %w", err)
	}
	o.config.Register = at
	return nil
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
