package main

import (
	"testing"

	"github.com/alecthomas/kong"
)

// TestVariablesHaveOneMeaning: an environment file may be for all verbs, so a variable stands for
// the same flag in every verb with the variable.
func TestVariablesHaveOneMeaning(t *testing.T) {
	parser, err := newParser(new(cli), new(streams))
	if err != nil {
		t.Fatal(err)
	}
	type meaning struct{ flag, help, value string }
	known := make(map[string]meaning)
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, is := node.(*kong.Flag); is {
			for _, env := range f.Envs {
				m := meaning{f.Name, f.Help, f.Default}
				if before, has := known[env]; has && before != m {
					t.Errorf("%s is both %+v and %+v", env, before, m)
				}
				known[env] = m
			}
		}
		return next(nil)
	})
	if err != nil || len(known) < 20 {
		t.Errorf("%d variables: %v", len(known), err)
	}
}
