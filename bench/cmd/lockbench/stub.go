package main

import (
	"context"

	"github.com/lockmesh/lockmesh/bench/internal/table"
)

func memory(ctx context.Context, o *options, r *results) error { return nil }
func embed(ctx context.Context, o *options, r *results) error  { return nil }
func (c *course) hold(ctx context.Context) error               { return nil }
func plots(r *results, dir string) error                       { return nil }

func extraSections(r *results, o *options, section func(title, text string, t *table.Table)) {}
