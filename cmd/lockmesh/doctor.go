package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/lockmesh/lockmesh"
)

// doctorVerb looks for faults.
type doctorVerb struct {
	nodeFlags
}

// Help implements [kong.HelpProvider].
func (*doctorVerb) Help() string {
	return `Give doctor the flags and variables of this machine's agent. In this order it examines the settings,
the machine, the names and addresses of the peers, the way to each, what the other nodes think of
the settings, and the voters. For that it joins the mesh for some seconds as a node that never
votes. Each finding has a verdict (ok, warn, fail; skip if an earlier finding is in the way), a
reason, and what to do. The exit code is 1 if anything fails.

Examples:
  lockmesh doctor --voters a,b,c --peers b:7950,c:7950
  systemd-run -P -p EnvironmentFile=/etc/lockmesh.env lockmesh doctor -o json`
}

// verdict is the result of a check.
type verdict string

const (
	ok   verdict = "ok"
	warn verdict = "warn"
	fail verdict = "fail"
	skip verdict = "skip" // not examined, since an earlier check has failed
)

// finding is the result of a check.
type finding struct {
	// Check is the name of the check, such as "tcp".
	Check string `json:"check"`
	// Verdict is "ok", "warn", "fail" or "skip".
	Verdict verdict `json:"verdict"`
	// Reason describes the result.
	Reason string `json:"reason"`
	// Fix gives advice; empty if all is well.
	Fix string `json:"fix"`
}

// examination is the work of a doctor.
type examination struct {
	g     *globals
	ctx   context.Context //nolint:containedctx // of the only run
	cfg   lockmesh.Config // of the machine's agent
	peers []peer
	found []finding
	tell  func(finding) error

	resolver  *net.Resolver // of names; nil for the system's
	unwritten error         // of the first finding without output
}

// peer is a node's address, as a setting names it.
type peer struct {
	setting string // an entry of Peers
	address string // host:port
	reached bool   // by TCP
}

func (x *examination) add(check string, v verdict, fix, reason string, args ...any) {
	f := finding{Check: check, Verdict: v, Reason: fmt.Sprintf(reason, args...), Fix: fix}
	x.found = append(x.found, f)
	if err := x.tell(f); x.unwritten == nil {
		x.unwritten = err
	}
}

// failed reports whether a check has failed.
func (x *examination) failed(check string) bool {
	for _, f := range x.found {
		if f.Check == check && f.Verdict == fail {
			return true
		}
	}
	return false
}

// Run runs the verb.
func (v *doctorVerb) Run(ctx context.Context, g *globals) error {
	if len(g.Join) > 0 {
		return usage("give doctor --peers, as the agent has them, in place of --join")
	}
	signals, stop := listen()
	defer stop()
	ctx, end := untilSignal(ctx, signals)
	defer end()
	x := &examination{g: g, ctx: ctx, tell: g.tellFinding}
	cfg, err := v.config(g, slog.New(slog.DiscardHandler))
	x.cfg = cfg
	x.settings(err)
	x.files()
	x.secrets()
	x.directory()
	x.register()
	x.names()
	x.tcp()
	x.packets()
	x.visit()
	if err := causeOf(ctx, nil); err != nil {
		return err
	}
	if x.unwritten != nil {
		return x.unwritten
	}
	for _, f := range x.found {
		if f.Verdict == fail {
			return &exit{code: exitFailure}
		}
	}
	return nil
}

// tellFinding prints a finding.
func (g *globals) tellFinding(f finding) error {
	if g.Output == "json" {
		return json.NewEncoder(g.out).Encode(f)
	}
	p, word := g.paint(), fmt.Sprintf("%-4s", f.Verdict)
	switch f.Verdict {
	case ok:
		word = p.good(word)
	case fail:
		word = p.bad(word)
	case warn:
		word = p.bold(word)
	}
	text := fmt.Sprintf("%s  %-9s  %s\n", word, f.Check, safe(f.Reason))
	if f.Fix != "" {
		text += fmt.Sprintf("      %-9s  -> %s\n", "", safe(f.Fix))
	}
	_, err := io.WriteString(g.out, text)
	return err
}

// settings examines the settings without the network.
func (x *examination) settings(err error) {
	if err == nil {
		err = x.cfg.Validate()
	}
	if err != nil {
		x.add("settings", fail, "change the settings as the text says; doctor examines the flags and variables given to it, as this "+
			"machine's agent has them, and asks no running agent for its own (-a)", "%s", describe(err))
		return
	}
	x.add("settings", ok, "", "the settings can be used")
	n := len(x.cfg.Voters)
	if x.cfg.Expect > 0 {
		n = x.cfg.Expect
	}
	switch {
	case n == 1:
		x.add("majority", warn, "name three voters", "one voter tolerates no failure")
	case n%2 == 0:
		x.add("majority", warn, fmt.Sprintf("name %d voters or %d", n-1, n+1),
			"an even number of voters, %d, tolerates no more failures than %d", n, n-1)
	}
}

// dialTime is how long a connection to a peer may take.
const dialTime = 3 * time.Second
