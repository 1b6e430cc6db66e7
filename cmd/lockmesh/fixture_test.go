//go:build unix

package main

import (
	"encoding/json"
	"io"

	"github.com/lockmesh/lockmesh/admin"
)

// pipe gives a process a standard input, to be closed by the test. The process must not have
// started.
func (p *process) pipe(b *bench) io.WriteCloser {
	b.t.Helper()
	in, err := p.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { in.Close() })
	return in
}

// startPiped is start for a process with a standard input, to be closed by the test.
func (b *bench) startPiped(args ...string) (*process, io.WriteCloser) {
	b.t.Helper()
	p := b.command(args...)
	in := p.pipe(b)
	p.start()
	return p, in
}

// node returns the name of the agent's node.
func (b *bench) node() string {
	b.t.Helper()
	var s admin.Status
	if err := json.Unmarshal([]byte(b.wants(0, "status", "-o", "json").out.String()), &s); err != nil {
		b.t.Fatal(err)
	}
	return s.Name
}
