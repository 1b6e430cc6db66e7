package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
)

// demo starts the voters and the writers, and decides when each writer goes on.
type demo struct {
	out   io.Writer
	pause string
	start time.Time
	dir   string // of the database
	nodes []*lockmesh.Mesh
	procs []*process
	// log is the log of the voters, and at the end of the writers; it is printed if something
	// fails.
	log strings.Builder
}

func newDemo(out io.Writer, pause string) *demo {
	return &demo{out: out, pause: pause, start: time.Now()}
}

// run runs the story. It returns an error as soon as a promise is broken.
func (s *demo) run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	first, err := s.launch("first")
	if err != nil {
		return err
	}
	if err := s.expectLines(ctx, first, "holds", "checks"); err != nil {
		return err
	}
	if err := s.orderWrite(ctx, first); err != nil {
		return err
	}
	if err := s.expectLines(ctx, first, "checks"); err != nil {
		return err
	}
	second, err := s.takeOver(ctx, first)
	if err != nil {
		return err
	}
	if err := s.resumeFirst(ctx, first); err != nil {
		return err
	}
	if err := s.continueSecond(ctx, first, second); err != nil {
		return err
	}
	return s.show(ctx)
}

// open starts the voters and waits until their votes count.
func (s *demo) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "fenced-writer-"); err != nil {
		return err
	}
	s.printf("", "start", "three voters, and a SQLite database with a table of tokens; a voter that starts is quiet for %v", maxTTL)
	logger := slog.New(slog.NewTextHandler(&s.log, nil))
	for _, name := range voters {
		mesh, err := lockmesh.Join(ctx, lockmesh.Config{
			Name: name, Bind: "127.0.0.1:0", Peers: s.addresses(), Voters: voters, MaxTTL: maxTTL, Logger: logger,
		})
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, mesh)
	}
	return s.nodes[0].Ready(ctx)
}

// takeOver pauses the first writer right before its write, until a second writer has the lock and
// has written.
func (s *demo) takeOver(ctx context.Context, first *process) (*process, error) {
	var err error
	if s.pause == "stop" {
		s.printf("first", "is paused", "its process is stopped (SIGSTOP), between its check and its write")
		err = stop(first.cmd.Process)
	} else {
		s.printf("first", "is paused", "between its check and its write, and its node is cut from the mesh")
		err = errors.Join(first.sendOrder("cut"), s.expectLines(ctx, first, "is cut"))
	}
	if err != nil {
		return nil, err
	}
	second, err := s.launch("second")
	if err != nil {
		return nil, err
	}
	s.printf("second", "waits", "for the lock, until the lease of the first has ended")
	if err := s.expectLines(ctx, second, "holds", "checks"); err != nil {
		return nil, err
	}
	if err := s.orderWrite(ctx, second); err != nil {
		return nil, err
	}
	return second, s.expectLines(ctx, second, "checks")
}

// resumeFirst lets the first writer resume where it was paused.
func (s *demo) resumeFirst(ctx context.Context, first *process) error {
	s.printf("first", "wakes up", "knowing nothing of all that; its next step is the write that its check has allowed")
	if s.pause == "stop" {
		if err := resume(first.cmd.Process); err != nil {
			return err
		}
	}
	if err := first.sendOrder("go"); err != nil {
		return err
	}
	return s.expectLines(ctx, first, "refused", "notes")
}

// continueSecond lets the second writer finish, and afterwards the first, under a new lease.
func (s *demo) continueSecond(ctx context.Context, first, second *process) error {
	if err := s.orderWrite(ctx, second); err != nil {
		return err
	}
	if err := second.ended(ctx); err != nil {
		return err
	}
	s.printf("second", "is done", "and has unlocked; the first has asked for the lock again meanwhile")
	if err := s.expectLines(ctx, first, "holds", "checks"); err != nil {
		return err
	}
	if err := s.orderWrite(ctx, first); err != nil {
		return err
	}
	return first.ended(ctx)
}

// orderWrite lets a writer make its next write.
func (s *demo) orderWrite(ctx context.Context, p *process) error {
	if err := p.sendOrder("go"); err != nil {
		return err
	}
	return s.expectLines(ctx, p, "wrote")
}

// show prints the ledger, and checks that it has the accepted entries, in the order of the tokens.
func (s *demo) show(ctx context.Context) error {
	db, err := openDatabase(filepath.Join(s.dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // all entries are committed
	rows, err := db.QueryContext(ctx, "SELECT writer, token, text FROM entries ORDER BY id")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns any error
	s.printf("", "ledger", "what the database has in the end:")
	var last int64
	var all []string
	for rows.Next() {
		var writer, text string
		var token int64
		if err := rows.Scan(&writer, &token, &text); err != nil {
			return err
		}
		s.printf("", "", "token %d   %s by the %s writer", token, text, writer)
		if token < last {
			return fmt.Errorf("an entry by token %d stands after one by %d", token, last)
		}
		last = token
		all = append(all, writer+" "+text)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if got, want := strings.Join(all, ", "), "first 1 of 2, second 1 of 2, second 2 of 2, first 2 of 2"; got != want {
		return fmt.Errorf("the ledger has %s, not %s", got, want)
	}
	s.printf("", "done", "the tokens never fall: the late write is in its place, by a new lease")
	return nil
}

// launch starts a writer.
func (s *demo) launch(name string) (*process, error) {
	p, err := launch(name, filepath.Join(s.dir, "ledger.db"), s.addresses())
	if err == nil {
		s.procs = append(s.procs, p)
	}
	return p, err
}

// expectLines waits until a writer has sent exactly these messages, and prints each message.
func (s *demo) expectLines(ctx context.Context, p *process, expected ...string) error {
	for _, want := range expected {
		select {
		case line, more := <-p.lines:
			if !more {
				return errors.Join(fmt.Errorf("the %s writer has ended; next was: %s", p.name, want), p.result)
			}
			what, text, _ := strings.Cut(line, "\t")
			s.printf(p.name, what, "%s", text)
			if what != want {
				return fmt.Errorf("the %s writer says %q; next was: %s", p.name, what, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("the %s writer should say %q: %w", p.name, want, context.Cause(ctx))
		}
	}
	return nil
}

func (s *demo) addresses() (all []string) {
	for _, n := range s.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// end closes everything still open, and removes the database.
func (s *demo) end() error {
	var errs []error
	for _, p := range s.procs {
		p.end()
	}
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	for _, p := range s.procs { // after the voters, which write to the same log
		_, _ = fmt.Fprintf(&s.log, "the %s writer:\n%s", p.name, p.log.String())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// printf prints a line: the time since the start, the speaker, the event and the text.
func (s *demo) printf(who, what, format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%6.2fs  %-7s %-10s %s\n", time.Since(s.start).Seconds(), who, what, fmt.Sprintf(format, args...))
}
