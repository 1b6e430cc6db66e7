package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// keptOf is the sampling rate of the generated mutants: one in keptOf is tested, chosen by a hash
// of its id. A verdict on each survivor is manual work, and limits the number of mutants.
const keptOf = 50

// errSurvivors means that too many mutants survived.
var errSurvivors = errors.New("too many mutants survive that have no verdict")

type options struct {
	tenth   int
	keep    uint
	most    int
	only    string
	list    bool
	workers int
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("lockmesh-mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.tenth, "tenth", -1, "look at every tenth mutant only, from this `number` (0 to 9) on")
	flags.UintVar(&o.keep, "keep", keptOf, "look at one generated mutant in `n`; 1 is all of them, for hours")
	flags.IntVar(&o.most, "most", 0, "how many survivors without a verdict are borne")
	flags.StringVar(&o.only, "only", "", "only mutants with ids that match this `pattern`")
	flags.BoolVar(&o.list, "list", false, "list the mutants, and try none")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "how many mutants are tried at a time")
	flags.Usage = func() {
		printf(stderr, "%s", `Breaks the source of the core, a line at a time, and tells which broken lines no test notices.

  go run ./sim/cmd/lockmesh-mutants                      all that verdicts.txt is about
  go run ./sim/cmd/lockmesh-mutants -tenth 3             a tenth of them, as the hunt does
  go run ./sim/cmd/lockmesh-mutants -only 'lease/quiet'  what is in one file
  go run ./sim/cmd/lockmesh-mutants -keep 1 -list        every line that could be broken

It exits with 1 when more mutants survive without a verdict than -most says.

`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() != 0:
		return o, fmt.Errorf("unexpected argument %q: there are flags only; -h lists them", flags.Arg(0))
	case o.tenth < -1 || o.tenth > 9:
		return o, fmt.Errorf("-tenth %d: it must be from 0 to 9", o.tenth)
	case o.keep == 0 || o.keep > 1<<20:
		return o, fmt.Errorf("-keep %d: it must be at least 1, and at most a million", o.keep)
	case o.workers < 1:
		return o, fmt.Errorf("-workers %d: it must be at least 1", o.workers)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	verdicts, err := known()
	if err != nil {
		return err
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	sites, err := choice(root, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range sites {
			printf(stdout, "%s\n    %s:%d: %s\n    becomes: %s\n",
				s.id, s.file, s.line, oneLine(s.old), oneLine(s.now))
		}
		printf(stdout, "%d mutants\n", len(sites))
		return nil
	}
	dir, err := os.MkdirTemp("", "lockmesh-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := &plant{
		root: root, dir: dir, overlay: filepath.Join(dir, "overlay.json"),
		sites: sites, dead: make([]bool, len(sites)),
	}
	began := time.Now()
	printf(stderr, "%d mutants; compiling\n", len(sites))
	if err := p.compile(ctx); err != nil {
		return err
	}
	found, err := p.judge(ctx, o.workers, stderr)
	if err != nil {
		if found != nil {
			printf(stdout, "It was stopped. So far:\n")
			p.report(stdout, found, verdicts)
		}
		return err
	}
	unknown := p.report(stdout, found, verdicts)
	printf(stdout, "It took %v.\n", time.Since(began).Round(time.Second))
	if unknown > o.most {
		return fmt.Errorf("%w: %d; write a test, or a verdict in verdicts.txt", errSurvivors, unknown)
	}
	return nil
}

// repository returns the root of the module. The command runs anywhere inside the module.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	name := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(name) != "go.mod" {
		return "", fmt.Errorf("this isn't a checkout of lockmesh: no go.mod here")
	}
	return filepath.Dir(name), nil
}

// choice returns the mutants selected by the flags.
func choice(root string, o options) ([]site, error) {
	var pattern *regexp.Regexp
	if o.only != "" {
		var err error
		if pattern, err = regexp.Compile(o.only); err != nil {
			return nil, fmt.Errorf("-only: %w", err)
		}
	}
	byHand, err := aimed(root)
	if err != nil {
		return nil, err
	}
	all := byHand
	for _, pkg := range packages {
		found, err := sitesOf(root, pkg)
		if err != nil {
			return nil, err
		}
		for _, s := range sample(found, uint32(o.keep)) {
			if !slices.ContainsFunc(byHand, s.crosses) {
				all = append(all, s)
			}
		}
	}
	var chosen []site
	for i, s := range all {
		if (o.tenth < 0 || i%10 == o.tenth) && (pattern == nil || pattern.MatchString(s.id)) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// report prints the results for the mutants, and returns how many survive without a verdict.
func (p *plant) report(w io.Writer, found []verdict, verdicts map[string]string) (unknown int) {
	killers := make(map[string]int)
	survivors, explained, unbuilt := 0, 0, 0
	for n, s := range p.sites {
		v := found[n]
		switch {
		case p.dead[n]:
			unbuilt++
			continue
		case v.killer != "":
			killers[v.killer]++
			if why := verdicts[s.id]; why != "" {
				printf(w, "noticed by %s, though verdicts.txt says otherwise: %s (%s)\n",
					v.killer, s.id, why)
			}
			continue
		}
		survivors++
		if verdicts[s.id] != "" {
			explained++
			continue
		}
		unknown++
		how := "run, and not noticed"
		if !v.ran {
			how = "never run"
		}
		printf(w, "SURVIVES %s (%s)\n    %s:%d: %s\n    becomes: %s\n",
			s.id, how, s.file, s.line, oneLine(s.old), oneLine(s.now))
	}
	printf(w, "%d mutants", len(p.sites))
	if unbuilt != 0 {
		printf(w, " (%d of them don't compile)", unbuilt)
	}
	printf(w, ": %d survive, %d of them with a verdict.\nNoticed by:", survivors, explained)
	seen := make(map[string]bool)
	for _, s := range suites() {
		if killers[s.name] != 0 && !seen[s.name] {
			seen[s.name] = true
			printf(w, " %s %d;", s.name, killers[s.name])
		}
	}
	printf(w, "\n")
	return unknown
}

// printf writes to a terminal or a file of the caller, and ignores errors.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
