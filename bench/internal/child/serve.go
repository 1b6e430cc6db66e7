package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

type request struct {
	Op   string
	Args json.RawMessage
}

type reply struct {
	Error  string          `json:",omitempty"`
	Result json.RawMessage `json:",omitempty"`
}

// Op executes a command.
type Op func(args json.RawMessage) (any, error)

// Handler makes an Op of a function with typed arguments.
func Handler[A, R any](f func(A) (R, error)) Op {
	return func(raw json.RawMessage) (any, error) {
		var a A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, err
			}
		}
		return f(a)
	}
}

// Serve obeys commands, one after the other, until the input ends. Then Serve calls cleanup and
// exits, even if a command is under way.
func Serve(ops map[string]Op, cleanup func()) {
	serve(os.Stdin, os.Stdout, ops)
	cleanup()
	os.Exit(0)
}

// serve returns when the input has ended; a command may still be under way.
func serve(in io.Reader, out io.Writer, ops map[string]Op) {
	var mu sync.Mutex // held while a command is executed
	lines := bufio.NewReader(in)
	enc := json.NewEncoder(out)
	todo := make(chan request, 16)
	defer close(todo)
	go func() {
		for r := range todo {
			mu.Lock()
			_ = enc.Encode(answer(ops, r)) // if the reader is gone, the input ends, too
			mu.Unlock()
		}
	}()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			r = request{Op: fmt.Sprintf("(unreadable: %v)", err)}
		}
		todo <- r
	}
}

func answer(ops map[string]Op, r request) reply {
	op, ok := ops[r.Op]
	if !ok {
		return reply{Error: fmt.Sprintf("no such command: %s", r.Op)}
	}
	result, err := op(r.Args)
	if err != nil {
		return reply{Error: err.Error()}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Result: raw}
}
