package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// process is a writer in a separate process, as seen by the story.
type process struct {
	name   string
	cmd    *exec.Cmd
	orders io.WriteCloser
	lines  chan string // the writer's messages; closed when the process has ended
	log    strings.Builder
	result error // how the process ended; written before lines is closed
}

// launch starts this program again, as a writer.
func launch(name, database string, peers []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, lines: make(chan string, 100)} // a writer prints about ten lines
	p.cmd = exec.Command(self, "-writer", name, "-db", database, "-peers", strings.Join(peers, ","))
	p.cmd.Stderr = &p.log
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process; end waits for it
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		p.result = p.cmd.Wait()
	}()
	return p, nil
}

// sendOrder sends an order to the writer.
func (p *process) sendOrder(order string) error {
	_, err := io.WriteString(p.orders, order+"\n")
	return err
}

// ended waits until the writer has ended by itself.
func (p *process) ended(ctx context.Context) error {
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				return p.result
			}
			return fmt.Errorf("the %s writer still says %q", p.name, line)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end kills the process, even a stopped process, unless it has ended, and waits for its end.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // an error means: already ended
	for range p.lines {
	}
}
