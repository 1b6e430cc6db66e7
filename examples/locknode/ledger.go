package main

import (
	"fmt"
	"os"
	"time"

	"github.com/lockmesh/lockmesh"
)

// ledger is a file to which several nodes append while they hold the lock. The ledger stands for
// the protected resource, and shows from outside whether two nodes ever held the lock at once,
// without trust in any node's clock or messages.
type ledger struct {
	file *os.File // nil: nothing is written
	name string
}

func openLedger(path, name string) (*ledger, error) {
	if path == "" {
		return &ledger{}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &ledger{f, name}, nil
}

// write appends a line: the time and the deadline in nanoseconds of the Unix epoch, the word, the
// node, the token. Each line is a single write to a file opened for appending, so lines of several
// processes don't mix.
func (b *ledger) write(word string, l *lockmesh.Lease) error {
	if b.file == nil {
		return nil
	}
	_, err := fmt.Fprintf(b.file, "%d %d %s %s %d\n", time.Now().UnixNano(), l.Deadline().UnixNano(), word, b.name, l.Token())
	return err
}

func (b *ledger) close() {
	if b.file != nil {
		_ = b.file.Close() // every line was written when write returned
	}
}
