package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// lockVerb holds a lock until the standard input ends.
type lockVerb struct {
	lockFlags
	Keys []string `arg:"" name:"key" help:"The keys to lock: all of them, in the order of their names."`
}

// Help implements [kong.HelpProvider].
func (*lockVerb) Help() string {
	return `When the lock is held, a line for each key is printed: the fencing token and the key, or with -o json
an object. The lock is released when the standard input ends, and the exit code is then 0; it is 79
when the lock is lost before, and the standard output is closed at once in that case.

Example, in bash:
  coproc lockmesh lock backup
  read -r token key <&"${COPROC[0]}" || exit    # the lock is held from here
  rsync -a /data backup:/data
  eval "exec ${COPROC[1]}>&-"; wait             # and is released here`
}

// Run runs the verb.
func (v *lockVerb) Run(ctx context.Context, g *globals) error {
	if err := v.check(); err != nil {
		return err
	}
	signals, stop := listen()
	defer stop()
	l, err := g.connectUntilSignal(ctx, signals)
	if err != nil {
		return err
	}
	defer l.close()
	h := &holder{lockFlags: &v.lockFlags, link: l}
	waiting, end := untilSignal(ctx, signals)
	defer end()
	if err := h.take(waiting, v.Keys); err != nil {
		return causeOf(waiting, err)
	}
	lost := h.lost()
	if err := v.tell(g, h); err != nil {
		return errors.Join(err, h.release())
	}
	input := make(chan struct{})
	go func() { // ends with the process, if the standard input doesn't
		_, _ = io.Copy(io.Discard, g.in)
		close(input)
	}()
	select {
	case <-input:
		if err := h.release(); err != nil {
			if errors.Is(err, lockmesh.ErrLost) {
				return &exit{code: exitLost, err: fmt.Errorf("the lock was lost: %w", err)}
			}
			return err
		}
		return nil
	case err := <-lost:
		_ = g.out.Close() // a reader learns of the loss
		_ = h.release()
		return &exit{code: exitLost, err: fmt.Errorf("the lock was lost: %w", err)}
	case <-waiting.Done():
		return errors.Join(causeOf(waiting, context.Cause(waiting)), h.release())
	}
}

// tell prints a line for each lock.
func (v *lockVerb) tell(g *globals, h *holder) error {
	if g.Output != "json" {
		for line := range strings.Lines(h.tokens() + "\n") {
			if isTerminal(g.out) {
				line = safe(strings.TrimSuffix(line, "\n")) + "\n"
			}
			if _, err := io.WriteString(g.out, line); err != nil {
				return err
			}
		}
		return nil
	}
	out := json.NewEncoder(g.out)
	for _, hold := range h.holds {
		if err := out.Encode(heldLock(hold.Last())); err != nil {
			return err
		}
	}
	return nil
}

// held is a taken lock.
type held struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
	Node  string `json:"node"`
	Mode  string `json:"mode"`
	Slot  int    `json:"slot"`
	// Deadline is when the lease ends without a renewal; the node renews the lease.
	Deadline time.Time `json:"deadline"`
}

func heldLock(l admin.HoldLine) held {
	return held{Key: l.Key, Token: l.Token, Node: l.Node, Mode: l.Mode, Slot: l.Slot, Deadline: l.Deadline}
}
