//go:build !unix

package admin

import (
	"errors"
	"time"
)

const dialTime = time.Second

func checkDir(string) error {
	return errors.New("this system's sockets have no owners; serve on 127.0.0.1 with a token (WithToken) instead")
}

func isRefused(error) bool { return false }
