package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// lsVerb lists keys.
type lsVerb struct {
	Prefix string `arg:"" optional:"" help:"Only keys that begin so."`
	Limit  int    `placeholder:"N" help:"At most N keys."`
}

// Help implements [kong.HelpProvider].
func (*lsVerb) Help() string {
	return `A line for each holder of each key in use: since when the key is held, for how long at most the voters
would wait if they heard nothing more, and the holder's value. On a terminal long names are cut, and lines end at its width.
With -o json a line has a key, as GET /v1/locks/{key} answers.

Examples:
  lockmesh ls jobs/
  lockmesh ls -o json | jq -r 'select(.holders == []) | .key'`
}

// Run runs the verb.
func (v *lsVerb) Run(ctx context.Context, g *globals) error {
	if v.Limit < 0 {
		return usage("--limit %d is negative", v.Limit)
	}
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		t, out := newTable(cutToTerminal(g.out), "KEY", "HOLDER", "MODE", "TOKEN", "SINCE", "LEFT", "WAITING", "VALUE"), json.NewEncoder(g.out)
		n := 0
		for l, err := range c.Locks(ctx, v.Prefix) {
			if err != nil {
				return err
			}
			if n++; v.Limit > 0 && n > v.Limit {
				break
			}
			if g.Output == "json" {
				if err := out.Encode(l); err != nil {
					return err
				}
				continue
			}
			lockRows(t, &l, widthOf(g.out))
		}
		if g.Output != "json" {
			return t.end()
		}
		return nil
	})
}

// lockRows writes a row for each holder of a key, or a row without a holder. On a terminal of a
// width a long name leaves room for the other columns of all rows.
func lockRows(t *table, l *admin.Lock, width int) {
	waiting := strconv.Itoa(len(l.Waiters))
	key := l.Key
	if width > 0 {
		key = cut(safe(key), width/3)
	}
	for _, h := range l.Holders {
		node := h.Node
		if width > 0 {
			node = cut(safe(node), width/5)
		}
		t.row(key, node, plain.Mode(h.Mode, h.Slot, l.Permits), strconv.FormatUint(h.Token, 10),
			shortTime(time.Since(h.Since)), shortTime(milliseconds(h.LeftMS)), waiting, string(h.Value))
	}
	if len(l.Holders) == 0 {
		t.row(key, "", "", "", "", shortTime(milliseconds(l.DelayedMS)), waiting, "")
	}
}

// inspectVerb shows a key.
type inspectVerb struct {
	Key string `arg:"" help:"The key."`
}

// Help implements [kong.HelpProvider].
func (*inspectVerb) Help() string {
	return `Who holds the key, since when and for how long, and who waits, about in the order in which the
waiting will get the key. A holder is unsure if its node ended, or was cut off, before any other
voter heard whether the key was granted; the key is kept for as long as if it was.

Example:
  lockmesh inspect jobs/1`
}

// Run runs the verb.
func (v *inspectVerb) Run(ctx context.Context, g *globals) error {
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		l, err := c.Inspect(ctx, v.Key)
		if err != nil {
			return err
		}
		return g.print(l, func(w io.Writer) { writeLock(w, g.paint(), l) })
	})
}

func writeLock(w io.Writer, p paint, l *admin.Lock) {
	state := p.good("free")
	switch {
	case len(l.Holders) > 0:
		state = p.bold("held")
	case l.DelayedMS > 0:
		state = "kept from all for " + shortTime(milliseconds(l.DelayedMS)) + " after its last holder"
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n", safe(l.Key), state)
	if len(l.Holders) > 0 {
		t := newTable(w, "HOLDER", "MODE", "TOKEN", "SINCE", "LEFT", "VALUE")
		for _, h := range l.Holders {
			node := h.Node
			if h.Unsure {
				node += " (unsure)"
			}
			t.row(node, plain.Mode(h.Mode, h.Slot, l.Permits), strconv.FormatUint(h.Token, 10),
				shortTime(time.Since(h.Since)), shortTime(milliseconds(h.LeftMS)), string(h.Value))
		}
		_ = t.end() // to memory
	}
	if len(l.Waiters) > 0 {
		t := newTable(w, "WAITER", "MODE", "FOR", "VALUE")
		for _, q := range l.Waiters {
			t.row(q.Node, q.Mode, shortTime(time.Since(q.Since)), string(q.Value))
		}
		_ = t.end() // to memory
	}
}

// watchVerb prints events.
type watchVerb struct {
	Prefix string `arg:"" optional:"" help:"Only keys that begin so."`
	Key    bool   `short:"k" help:"PREFIX is a whole key."`
}

// Help implements [kong.HelpProvider].
func (*watchVerb) Help() string {
	return `A line for each event: granted, released, lost, waiting, changed (the value). The present state comes
first, and a line synced after it. A line gap says that events may be missing; the present state
follows. With -o json a line has an event as GET /v1/watch sends it. Ends with Ctrl-C.

Examples:
  lockmesh watch jobs/
  lockmesh watch -k jobs/1 -o json | jq --unbuffered -r .kind`
}

// Run runs the verb.
func (v *watchVerb) Run(ctx context.Context, g *globals) error {
	return g.follow(ctx, func(ctx context.Context, c *admin.Client) error {
		events := c.WatchPrefix(ctx, v.Prefix)
		if v.Key {
			events = c.Watch(ctx, v.Prefix)
		}
		p, out := g.paint(), json.NewEncoder(g.out)
		for e, err := range events {
			switch {
			case err != nil:
				return err
			case g.Output == "json":
				err = out.Encode(e)
			default:
				_, err = fmt.Fprintln(g.out, eventLine(p, &e))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// eventLine describes an event.
func eventLine(p paint, e *admin.Event) string {
	at, kind := e.At.Local().Format("15:04:05.000"), fmt.Sprintf("%-8s", e.Kind)
	switch e.Kind {
	case "granted":
		kind = p.good(kind)
	case "lost", "gap":
		kind = p.bad(kind)
	case "synced":
		return at + "  " + kind
	}
	if e.Kind == "gap" {
		return at + "  " + kind + "  events may be missing; the present state follows"
	}
	line := fmt.Sprintf("%s  %s  %s  by %s", at, kind, safe(e.Key), safe(e.Node))
	if e.Token != 0 {
		line += fmt.Sprintf("  token %d", e.Token)
	}
	if e.Mode != "exclusive" {
		line += "  " + e.Mode
	}
	if len(e.Value) > 0 {
		line += "  " + safe(string(e.Value))
	}
	if e.Current {
		line += "  (from before)"
	}
	return line
}
