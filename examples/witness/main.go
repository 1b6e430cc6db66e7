// Witness is a voter without an application: it grants locks and takes none. A site with two
// servers runs a witness on a third, small machine, so that locks are granted while one of the
// three is down.
//
//	LOCKMESH_SECRET=... witness -name w -voters a,b,w -peers server-a:7950,server-b:7950
//
// The two servers name the witness among their voters, too. The witness needs little: some tens of
// megabytes of memory, and no disk unless the mesh has state directories: then -state-dir, with
// -bootstrap at the first start of the three founders (docs/deploy-machines.md), or -from-fixed at
// the first restart of a conversion (docs/converting.md).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
)

const usage = `Witness is a voter without an application: it grants locks and takes none.

Usage: LOCKMESH_SECRET=... witness -voters a,b,w [-name w] [-bind host:port] [-peers host:port,...]

The secret, -voters, -mesh and -max-ttl are those of all nodes of the mesh. During a change of the
secret LOCKMESH_SECRET has several, a line each, and the first is sent. An interrupt ends the
witness; start it again soon, since without it no other voter may be down.

Examples, beside servers a and b:
  witness -name w -voters a,b,w -peers server-a:7950,server-b:7950
  witness -name w -voters a,b,w -peers server-a:7950,server-b:7950 -state-dir /var/lib/witness
In a mesh with directories add -bootstrap at the first start of all three, and no longer.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// parse reads the command line. If parse returns an error, it has written the reason to stderr.
func parse(args []string, env func(string) string, stderr io.Writer) (lockmesh.Config, error) {
	cfg := lockmesh.Config{Logger: slog.New(slog.NewTextHandler(stderr, nil))}
	for line := range strings.Lines(env("LOCKMESH_SECRET")) {
		if line = strings.TrimSpace(line); line != "" {
			cfg.Secrets = append(cfg.Secrets, lockmesh.Secret(line))
		}
	}
	f := flag.NewFlagSet("witness", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = io.WriteString(stderr, usage); f.PrintDefaults() }
	f.StringVar(&cfg.Name, "name", "", "`name` of this node, one of the voters (default: the host's name)")
	f.StringVar(&cfg.Mesh, "mesh", "", "`name` of the mesh (default \"default\")")
	f.StringVar(&cfg.Bind, "bind", "", "`host:port` to listen on, TCP and UDP (default \":7950\")")
	f.StringVar(&cfg.StateDir, "state-dir", "", "`directory` of this node alone, in a mesh with dynamic membership")
	f.BoolVar(&cfg.Bootstrap, "bootstrap", false, "found the mesh: at the first start of all founders, with -state-dir")
	f.BoolVar(&cfg.FromFixed, "from-fixed", false, "convert a mesh of fixed voters: at the first restart with -state-dir, as all its nodes")
	f.DurationVar(&cfg.MaxTTL, "max-ttl", 0, "the mesh's maximum TTL (default 10s)")
	peers := f.String("peers", "", "where other nodes are, `host:port,...`; also dns:name:port, srv:name and file:path")
	voters := f.String("voters", "", "`names` of all voters, with commas between them")
	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	cfg.Peers, cfg.Voters = list(*peers), list(*voters)
	err := cfg.Validate()
	if f.NArg() > 0 {
		err = errors.Join(fmt.Errorf("%q is no flag", f.Arg(0)), err)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "witness: the command line can't be used:\n%v\nTry -h.\n", err)
	}
	return cfg, err
}

// list splits at commas and drops empty items.
func list(s string) (all []string) {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

// run is the whole program, and returns the exit code.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	mesh, err := lockmesh.Join(ctx, cfg)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "witness: %v\n", err)
		return 1
	}
	_, _ = fmt.Fprintf(stdout, "%s listens on %s\n", mesh.Name(), mesh.Addr())
	say(ctx, mesh, stdout)
	// The witness will be back, and keeps its seat. The others hear at once that it stops.
	bounded, cancel := context.WithTimeout(context.Background(), stopMost)
	defer cancel()
	if err := mesh.Stop(bounded); err != nil {
		_, _ = fmt.Fprintf(stderr, "witness: %v\n", err)
		return 1
	}
	return 0
}

// stopMost bounds the wait for other nodes at the end.
const stopMost = 5 * time.Second

// sayAfter is how long a state must last to be printed: connections break and come back.
const sayAfter = time.Second

// say prints whether locks can be granted, whenever this changes, until ctx ends.
func say(ctx context.Context, mesh *lockmesh.Mesh, stdout io.Writer) {
	states, err := mesh.WatchElectorate(ctx)
	if err != nil {
		return
	}
	var last string
	var pending <-chan time.Time
	var state lockmesh.ElectorateStatus
	for {
		select {
		case s, ok := <-states:
			if !ok {
				return
			}
			state = s
			if pending == nil {
				pending = time.After(sayAfter)
			}
		case <-pending:
			pending = nil
			if text := state.String(); text != last {
				last = text
				_, _ = fmt.Fprintln(stdout, text)
			}
		}
	}
}
