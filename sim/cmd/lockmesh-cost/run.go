package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// part is a section of the output.
type part struct {
	name, about string
	print       func(out io.Writer, full bool) error
}

var parts = []part{
	{"acquire", "how long it takes to acquire a free lock, by voters and nodes", printAcquire},
	{"silent", "how long acquiring takes while a voter doesn't answer", printSilent},
	{"lock", "messages and bytes of a lock and its release, by voters", printLock},
	{"refresh", "the cost of keeping leases alive, by nodes and by leases", printRefresh},
	{"handover", "how a lock goes from node to node while many callers wait", printHandOver},
	{"gossip", "the traffic that gossip adds, by its settings", printGossip},
}

func names() string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}

func run(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("lockmesh-cost", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	which := f.String("part", "", "print only this `part`: "+names()+" (default: all of them)")
	quick := f.Bool("quick", false, "measure less: fewer samples and leases, in a few seconds")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stderr, "lockmesh-cost measures the cost of locks in the simulator, and prints Markdown.\n\nParts:\n")
		for _, p := range parts {
			_, _ = fmt.Fprintf(stderr, "  %-9s %s\n", p.name, p.about)
		}
		_, _ = fmt.Fprint(stderr, "\nFlags:\n")
		f.SetOutput(stderr)
		f.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; -h lists the flags", err)
	case f.NArg() > 0:
		return fmt.Errorf("%q isn't a flag; -h lists the flags", strings.Join(f.Args(), " "))
	}
	printed := 0
	for _, p := range parts {
		if *which != "" && *which != p.name {
			continue
		}
		if printed++; printed > 1 {
			_, _ = fmt.Fprintln(stdout)
		}
		if err := p.print(stdout, !*quick); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if printed == 0 {
		return fmt.Errorf("-part %s: no such part; there are %s", *which, names())
	}
	return nil
}
