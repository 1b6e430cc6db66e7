//go:build !unix

package load

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) ([]byte, func() error, error) {
	return nil, nil, errors.New("processes can't share memory here: " + errors.ErrUnsupported.Error())
}
