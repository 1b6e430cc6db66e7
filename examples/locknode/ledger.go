package main

import (
	"fmt"
	"os"
	"time"

	"github.com/lockmesh/lockmesh"
)

// ledger is a file that several nodes append to while they hold the lock. It stands for the resource that the lock protects, and it shows
// from outside whether two ever held the lock at once: who reads it needs to trust no node's clock or word.
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

// write appends one line: the time and the deadline in nanoseconds of the Unix epoch, the word, the node, the token. A line is one write to a
// file opened for appending, so lines of several processes don't mix.
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
