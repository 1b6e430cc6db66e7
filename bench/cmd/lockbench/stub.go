package main

import (
	"context"
	"io"
)

func memory(ctx context.Context, o *options, r *results) error { return nil }
func embed(ctx context.Context, o *options, r *results) error  { return nil }
func (c *course) hold(ctx context.Context) error               { return nil }
func tell(r *results, o *options, out io.Writer) error {
	if o.out != "" {
		return r.write(o.out)
	}
	return nil
}
