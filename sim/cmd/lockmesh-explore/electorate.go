package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim/explore/elect"
	"github.com/lockmesh/lockmesh/sim/explore/span"
)

// changes are the flags of -electorate, for exploring changes of the electorate instead of locks.
type changes struct {
	on      bool
	propose string
	idles   int

	build elect.Builder // for tests: a machine with a broken rule
}

// check rejects flags without meaning for changes of the electorate, and flags without meaning for
// locks.
func (c *changes) check(given flags) error {
	for name := range given {
		if c.on && !slices.Contains([]string{"electorate", "propose", "crashes", "breaks", "idles", "for", "states"}, name) {
			return fmt.Errorf("-%s means nothing with -electorate", name)
		}
		if !c.on && slices.Contains([]string{"propose", "idles"}, name) {
			return fmt.Errorf("-%s needs -electorate", name)
		}
		if c.on && c.propose == "" && slices.Contains([]string{"crashes", "breaks", "idles"}, name) {
			return fmt.Errorf("-%s needs -propose: without it the scopes are given", name)
		}
	}
	return nil
}

// changeScopes returns the scopes to explore: the scope given by flags, or small scopes of each
// kind and then wider ones.
func (s *settings) changeScopes() []elect.Scope {
	if s.changes.propose != "" {
		return []elect.Scope{{Name: s.changes.propose, Options: elect.Options{
			Propose: strings.Split(s.changes.propose, ","), Crashes: s.scope.crashes, Cuts: s.scope.breaks, Idles: s.changes.idles,
		}}}
	}
	small, wide := elect.Scopes()
	return append(small, wide...)
}

// runChanges explores a change of the electorate in each scope, for as long as there is time.
func (r *session) runChanges(ctx context.Context) error {
	if err := r.runLocks(); err != nil {
		return err
	}
	for _, c := range r.changeScopes() {
		if ctx.Err() != nil {
			break
		}
		o := c.Options
		o.Build, o.MaxStates = r.changes.build, r.states
		began := time.Now()
		r.ended = ""
		o.Stop = func(p elect.Progress) bool { return r.look(ctx, c.Name, began, p.States, p.Depth, p.Waiting) }
		rep, err := elect.Run(o)
		if err != nil {
			return err
		}
		err = r.tell(c.Name, began, rep.States, rep.Transitions, rep.Depth, rep.Exhausted, rep.Violation != nil)
		if err != nil {
			return err
		}
		if rep.Violation != nil {
			if _, err := fmt.Fprintf(r.stdout, "\nVIOLATION: %v\n", rep.Violation); err != nil {
				return err
			}
			return errViolated
		}
		_, err = fmt.Fprintf(r.stdout, "    the joint electorate is decided in %d states, the final one in %d, of which back to the old voters in %d; %d states weren't followed, since there were too many ballots\n",
			rep.Joint, rep.Final, rep.Back, rep.Cut)
		if err != nil {
			return err
		}
	}
	if r.visited == 0 {
		return errors.New("the time was over before anything was explored; -for sets it")
	}
	return r.report(ctx)
}

// runLocks explores a lock across a change, in a model.
func (r *session) runLocks() error {
	if r.changes.propose != "" {
		return nil
	}
	for _, o := range span.Spaces() {
		o.MaxStates = r.states
		began := time.Now()
		rep, err := span.Run(o)
		if err != nil {
			return err
		}
		back := ""
		if o.Back {
			back = " and go back"
		}
		name := fmt.Sprintf("one lock while %s become %s%s, %d crashes", o.From, o.To, back, o.Crashes)
		if err := r.tell(name, began, rep.States, rep.Transitions, rep.Depth, rep.Exhausted, rep.Violation != nil); err != nil {
			return err
		}
		if rep.Violation != nil {
			if _, err := fmt.Fprintf(r.stdout, "\nVIOLATION: %v\n", rep.Violation); err != nil {
				return err
			}
			return errViolated
		}
	}
	return nil
}
