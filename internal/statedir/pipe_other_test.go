//go:build !unix || solaris || illumos || aix

package statedir

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
