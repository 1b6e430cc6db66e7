package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// profiled calls do, and meanwhile has all nodes of a service take profiles, if requested. Servers,
// as opposed to nodes, take none.
func (c *benchmark) profiled(ctx context.Context, s *service, what string, do func() error) error {
	if !c.profile || c.out == "" || c.round > 0 {
		return do()
	}
	dir, err := filepath.Abs(c.out)
	if err != nil {
		return err
	}
	for _, p := range s.nodes {
		if err := p.Call(ctx, "profile", filepath.Join(dir, fmt.Sprintf("%s.%s.%s.pprof", s.name, what, p.Name)), nil); err != nil {
			return err
		}
	}
	err = do()
	for _, p := range s.nodes {
		err = errors.Join(err, p.Call(ctx, "unprofile", none{}, nil))
	}
	return err
}
