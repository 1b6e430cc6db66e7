package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/sim/explore/birth"
)

// checkBirths rejects flags without meaning for births.
func (s *settings) checkBirths() error {
	for name := range s.given {
		if s.births && !slices.Contains([]string{"birth", "for", "states"}, name) {
			return fmt.Errorf("-%s means nothing with -birth", name)
		}
	}
	return nil
}

// runBirths explores births by count in each scope, for as long as there is time.
func (r *session) runBirths(ctx context.Context) error {
	small, wide := birth.Scopes()
	for _, o := range append(small, wide...) {
		if ctx.Err() != nil {
			break
		}
		name := fmt.Sprintf("%d of %d processes, %d at a time, %d changes, %d pledges undone, %d pairs apart", o.Expect, o.Processes, o.Most, o.Changes, o.Rebirths, len(o.Apart))
		began := time.Now()
		r.ended = ""
		o.MostSeen = r.states
		o.Stop = func(worlds, depth, waiting int) bool { return r.look(ctx, name, began, worlds, depth, waiting) }
		rep, err := birth.Run(o)
		if err != nil {
			return err
		}
		err = r.tell(name, began, rep.Worlds, rep.Steps, rep.Depth, !rep.Gave && rep.Violation == nil, rep.Violation != nil)
		if err != nil {
			return err
		}
		if rep.Violation != nil {
			if _, err := fmt.Fprintf(r.stdout, "\nVIOLATION: %v\n", rep.Violation); err != nil {
				return err
			}
			return errViolated
		}
		if _, err := fmt.Fprintf(r.stdout, "    a mesh is born in %d states; in %d two meshes are known, at most one of which has a majority; %d have a pledge that was undone\n",
			rep.Births, rep.Two, rep.Undone); err != nil {
			return err
		}
	}
	if r.visited == 0 {
		return errors.New("the time was over before anything was explored; -for sets it")
	}
	return r.report(ctx)
}
