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

// story starts the voters and the writers, and says when each goes on.
type story struct {
	out   io.Writer
	pause string
	start time.Time
	dir   string // of the database
	nodes []*lockmesh.Mesh
	procs []*process
	log   strings.Builder // of the voters, and at the end of the writers; for the case that something fails
}

func newStory(out io.Writer, pause string) *story {
	return &story{out: out, pause: pause, start: time.Now()}
}

// tell goes through the story. It returns an error as soon as something isn't as promised.
func (s *story) tell(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	first, err := s.launch("first")
	if err != nil {
		return err
	}
	if err := s.hear(ctx, first, "holds", "checks"); err != nil {
		return err
	}
	if err := s.letWrite(ctx, first); err != nil {
		return err
	}
	if err := s.hear(ctx, first, "checks"); err != nil {
		return err
	}
	second, err := s.takeOver(ctx, first)
	if err != nil {
		return err
	}
	if err := s.wake(ctx, first); err != nil {
		return err
	}
	if err := s.goOn(ctx, first, second); err != nil {
		return err
	}
	return s.show(ctx)
}

// open starts the voters and waits until they count.
func (s *story) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "fenced-writer-"); err != nil {
		return err
	}
	s.say("", "start", "three voters, and a SQLite database with a table of tokens; a voter that starts is quiet for %v", maxTTL)
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

// takeOver pauses the first writer right before its write, until a second one has the lock and has written.
func (s *story) takeOver(ctx context.Context, first *process) (*process, error) {
	var err error
	if s.pause == "stop" {
		s.say("first", "is paused", "its process is stopped (SIGSTOP), between its check and its write")
		err = stop(first.cmd.Process)
	} else {
		s.say("first", "is paused", "between its check and its write, and its node is cut from the mesh")
		err = errors.Join(first.tell("cut"), s.hear(ctx, first, "is cut"))
	}
	if err != nil {
		return nil, err
	}
	second, err := s.launch("second")
	if err != nil {
		return nil, err
	}
	s.say("second", "waits", "for the lock, until the lease of the first has ended")
	if err := s.hear(ctx, second, "holds", "checks"); err != nil {
		return nil, err
	}
	if err := s.letWrite(ctx, second); err != nil {
		return nil, err
	}
	return second, s.hear(ctx, second, "checks")
}

// wake lets the first writer go on where it was.
func (s *story) wake(ctx context.Context, first *process) error {
	s.say("first", "wakes up", "knowing nothing of all that; its next step is the write that its check has allowed")
	if s.pause == "stop" {
		if err := resume(first.cmd.Process); err != nil {
			return err
		}
	}
	if err := first.tell("go"); err != nil {
		return err
	}
	return s.hear(ctx, first, "refused", "notes")
}

// goOn lets the second writer finish, and the first one after it, under a new lease.
func (s *story) goOn(ctx context.Context, first, second *process) error {
	if err := s.letWrite(ctx, second); err != nil {
		return err
	}
	if err := second.ended(ctx); err != nil {
		return err
	}
	s.say("second", "is done", "and has unlocked; the first has asked for the lock again meanwhile")
	if err := s.hear(ctx, first, "holds", "checks"); err != nil {
		return err
	}
	if err := s.letWrite(ctx, first); err != nil {
		return err
	}
	return first.ended(ctx)
}

// letWrite lets a writer make the write that it stands before.
func (s *story) letWrite(ctx context.Context, p *process) error {
	if err := p.tell("go"); err != nil {
		return err
	}
	return s.hear(ctx, p, "wrote")
}

// show prints the ledger, and checks that it has what was accepted, in the order of the tokens.
func (s *story) show(ctx context.Context) error {
	db, err := openDatabase(filepath.Join(s.dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing is left to be written
	rows, err := db.QueryContext(ctx, "SELECT writer, token, text FROM entries ORDER BY id")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells what went wrong
	s.say("", "ledger", "what the database has in the end:")
	var last int64
	var all []string
	for rows.Next() {
		var writer, text string
		var token int64
		if err := rows.Scan(&writer, &token, &text); err != nil {
			return err
		}
		s.say("", "", "token %d   %s by the %s writer", token, text, writer)
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
	s.say("", "done", "the tokens never fall: the late write is in its place, by a new lease")
	return nil
}

// launch starts a writer.
func (s *story) launch(name string) (*process, error) {
	p, err := launch(name, filepath.Join(s.dir, "ledger.db"), s.addresses())
	if err == nil {
		s.procs = append(s.procs, p)
	}
	return p, err
}

// hear waits until a writer has said these things, prints them, and lets it say nothing else.
func (s *story) hear(ctx context.Context, p *process, expected ...string) error {
	for _, want := range expected {
		select {
		case line, more := <-p.lines:
			if !more {
				return errors.Join(fmt.Errorf("the %s writer has ended; next was: %s", p.name, want), p.result)
			}
			what, text, _ := strings.Cut(line, "\t")
			s.say(p.name, what, "%s", text)
			if what != want {
				return fmt.Errorf("the %s writer says %q; next was: %s", p.name, what, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("the %s writer should say %q: %w", p.name, want, context.Cause(ctx))
		}
	}
	return nil
}

func (s *story) addresses() (all []string) {
	for _, n := range s.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// end closes what is still open, and removes the database.
func (s *story) end() error {
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

// say prints a line: the time since the start, who, what and the rest.
func (s *story) say(who, what, format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%6.2fs  %-7s %-10s %s\n", time.Since(s.start).Seconds(), who, what, fmt.Sprintf(format, args...))
}
