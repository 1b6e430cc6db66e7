package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// statusVerb shows the node.
type statusVerb struct{}

// Help implements [kong.HelpProvider].
func (*statusVerb) Help() string {
	return `The exit code is 0 if locks can be granted through the node, and 69 if not: also after drain. -o json
prints what GET /v1/status answers.

Example:
  lockmesh status -a /run/app/lockmesh.sock`
}

// Run runs the verb.
func (*statusVerb) Run(ctx context.Context, g *globals) error {
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if err := g.print(s, func(w io.Writer) { writeStatus(w, g.paint(), s) }); err != nil {
			return err
		}
		return readiness(s.Electorate.Ready && !s.Draining && !s.Closed)
	})
}

// readiness is an exit without a text unless locks can be granted: the printed status says why.
func readiness(ready bool) error {
	if ready {
		return nil
	}
	return &exit{code: exitNoQuorum}
}

func writeStatus(w io.Writer, p paint, s *admin.Status) {
	state := ""
	switch {
	case s.Closed:
		state = ", which has ended"
	case s.Draining:
		state = ", which takes no more locks"
	}
	_, _ = fmt.Fprintf(w, "node %s at %s%s\n", p.bold(safe(s.Name)), safe(s.Addr), state)
	to := ""
	if state != "" {
		to = " to other nodes"
	}
	writeElectorate(w, p, &s.Electorate, to)
	alive := 0
	for _, m := range s.Members {
		if m.State == "alive" {
			alive++
		}
	}
	_, _ = fmt.Fprintf(w, "%s known to gossip, %d of them alive\n", count(len(s.Members), "node"), alive)
	for _, r := range s.Refused {
		_, _ = fmt.Fprintf(w, "%s %s at %s: %s\n", p.bad("refused:"), safe(r.Name), safe(r.Addr), safe(r.Reason))
	}
	_, _ = fmt.Fprintf(w, "%s held by this node, %s waiting\n", count(len(s.Held), "lease"), count(len(s.Waiting), "request"))
	for _, q := range s.Waiting {
		_, _ = fmt.Fprintf(w, "  %s for %s: %s\n", safe(q.Key), shortTime(s.At.Sub(q.Since)), safe(q.Text))
	}
}

// count returns a number with its noun.
func count(n int, noun string) string { return plain.Count(n, noun) }

// writeElectorate writes the state of the voters; to says to which nodes locks can be granted, if
// not to all.
func writeElectorate(w io.Writer, p paint, e *admin.Electorate, to string) {
	verdict := p.bad("locks can't be granted")
	if e.Ready {
		verdict = p.good("locks can be granted" + to)
	}
	_, _ = fmt.Fprintf(w, "%s: %s, %d needed\n", verdict, plain.Counting(e.Counting, len(e.Voters)), e.Majority)
	if len(e.Voters) > 0 {
		t := newTable(w, "VOTER", "STATE", "WHY", "CLOCK")
		for _, v := range e.Voters {
			t.row(v.Name, v.State, plain.Voter(&v), v.Drift)
		}
		_ = t.end() // to memory
	}
	if !e.Dynamic {
		return
	}
	_, _ = fmt.Fprintf(w, "electorate: version %d\n", e.Version)
	if e.Joint {
		_, _ = fmt.Fprintf(w, "changing from %s to %s\n", safe(strings.Join(e.Old, ", ")), safe(strings.Join(e.New, ", ")))
	}
	for _, line := range []struct{ what, text string }{
		{"standby", strings.Join(e.Standby, ", ")}, {"change", e.Change}, {"trouble", e.Trouble}, {"lost", e.Lost},
	} {
		if line.text != "" {
			_, _ = fmt.Fprintf(w, "%s: %s\n", line.what, safe(line.text))
		}
	}
}

// electorateVerb shows the voters.
type electorateVerb struct {
	Watch bool `short:"w" help:"Print the electorate again at each change, until Ctrl-C."`
}

// Help implements [kong.HelpProvider].
func (*electorateVerb) Help() string {
	return `The exit code is 0 if locks can be granted to nodes that take locks, and 69 if not. -o json prints
what GET /v1/electorate answers.

Example:
  lockmesh electorate --watch`
}

// Run runs the verb.
func (v *electorateVerb) Run(ctx context.Context, g *globals) error {
	show := func(e *admin.Electorate) error {
		return g.print(e, func(w io.Writer) { writeElectorate(w, g.paint(), e, "") })
	}
	if !v.Watch {
		return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
			e, err := c.Electorate(ctx)
			if err != nil {
				return err
			}
			if err := show(e); err != nil {
				return err
			}
			return readiness(e.Ready)
		})
	}
	return g.follow(ctx, func(ctx context.Context, c *admin.Client) error {
		for e, err := range c.WatchElectorate(ctx) {
			if err != nil {
				return err
			}
			if g.Output == "text" {
				if _, err := fmt.Fprintln(g.out, time.Now().Format("15:04:05")); err != nil {
					return err
				}
			}
			if err := show(&e); err != nil {
				return err
			}
		}
		return nil
	})
}

// membersVerb lists the nodes.
type membersVerb struct{}

// Help implements [kong.HelpProvider].
func (*membersVerb) Help() string {
	return `With -o json a line has a node, as in GET /v1/members.

Example:
  lockmesh members`
}

// Run runs the verb.
func (*membersVerb) Run(ctx context.Context, g *globals) error {
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		all, err := c.Members(ctx)
		if err != nil {
			return err
		}
		t := newTable(g.out, "NODE", "ADDRESS", "STATE", "INCARNATION")
		for _, m := range all {
			if g.Output == "json" {
				if err := g.print(m, nil); err != nil {
					return err
				}
				continue
			}
			t.row(m.Name, m.Addr, m.State, m.Incarnation)
		}
		if g.Output != "json" {
			return t.end()
		}
		return nil
	})
}
