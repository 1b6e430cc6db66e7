package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// ask connects, and calls f with a client, within the time of --timeout.
func (g *globals) ask(ctx context.Context, f func(ctx context.Context, c *admin.Client) error) error {
	return g.act(ctx, g.Timeout, f)
}

// act is ask for a verb with a time limit of its own; zero stands for no end.
func (g *globals) act(ctx context.Context, limit time.Duration, f func(ctx context.Context, c *admin.Client) error) error {
	signals, stop := listen()
	defer stop()
	ctx, end := untilSignal(ctx, signals)
	defer end()
	l, err := g.connect(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer l.close()
	c, err := l.client(nil)
	if err != nil {
		return err
	}
	calling := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		calling, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := f(calling, c); err != nil {
		return causeOf(ctx, err)
	}
	return nil
}

// follow is act for a verb that writes events until its reader has gone.
func (g *globals) follow(ctx context.Context, f func(ctx context.Context, c *admin.Client) error) error {
	return g.act(ctx, 0, func(ctx context.Context, c *admin.Client) error {
		ctx, stop := whileRead(ctx, g.out)
		defer stop()
		if err := f(ctx, c); err != nil {
			return causeOf(ctx, err)
		}
		return nil
	})
}

// print prints a value as JSON, or else the output of text.
func (g *globals) print(v any, text func(w io.Writer)) error {
	if g.Output == "json" {
		return json.NewEncoder(g.out).Encode(v)
	}
	var b strings.Builder
	text(&b)
	_, err := io.WriteString(g.out, b.String())
	return err
}

// table writes columns.
type table struct {
	w   *tabwriter.Writer
	err error // of the first failed write
}

// newTable returns a table with the names of its columns.
func newTable(w io.Writer, columns ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if cells[i] = safe(c); cells[i] == "" {
			cells[i] = "-"
		}
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(cells, "\t")); t.err == nil {
		t.err = err
	}
}

// end writes the table. The error is from the first failed write.
func (t *table) end() error {
	if err := t.w.Flush(); t.err == nil {
		t.err = err
	}
	return t.err
}

// paint is for texts with a meaning on a terminal.
type paint bool

func (g *globals) paint() paint { return paint(g.Output == "text" && colored(g.out)) }

func (p paint) in(color, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (p paint) good(text string) string { return p.in("32", text) }
func (p paint) bad(text string) string  { return p.in("31", text) }
func (p paint) bold(text string) string { return p.in("1", text) }

// shortTime is a duration for a column.
func shortTime(d time.Duration) string { return plain.Time(d) }

func milliseconds(ms int64) time.Duration { return plain.Milliseconds(ms) }
