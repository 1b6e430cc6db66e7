package resp

import (
	"container/list"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"slices"
	"strings"
	"sync"
)

// scripts are compiled scripts by their digests, the last used in front.
type scripts struct {
	mu    sync.Mutex
	known map[string]*list.Element // of *script
	used  list.List
}

// digestOf returns the name of a script.
func digestOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// get returns a known script, or nil.
func (s *scripts) get(digest string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.known[digest]
	if at == nil {
		return nil
	}
	s.used.MoveToFront(at)
	return at.Value.(*script)
}

// add compiles an unknown script. A script with a mistake isn't kept.
func (s *scripts) add(text string) (*script, error) {
	digest := digestOf(text)
	if known := s.get(digest); known != nil {
		return known, nil
	}
	compiled, err := compile(digest, text)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[digest] != nil {
		return compiled, nil
	}
	if s.known == nil {
		s.known = make(map[string]*list.Element)
	}
	s.known[digest] = s.used.PushFront(compiled)
	if s.used.Len() > MaxScripts {
		delete(s.known, s.used.Remove(s.used.Back()).(*script).digest)
	}
	return compiled, nil
}

func (s *scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = nil
	s.used.Init()
}

func doEval(x *call) reply {
	sc, err := x.s.scripts.add(x.args[0])
	if err != nil {
		return failf("ERR Error compiling script (new function): %v", err)
	}
	return x.eval(sc)
}

func doEvalSHA(x *call) reply {
	sc := x.s.scripts.get(strings.ToLower(x.args[0]))
	if sc == nil {
		return errNoScript
	}
	return x.eval(sc)
}

func doScript(x *call) reply {
	switch what := strings.ToUpper(x.args[0]); {
	case what == "LOAD" && len(x.args) == 2:
		sc, err := x.s.scripts.add(x.args[1])
		if err != nil {
			return failf("ERR Error compiling script (new function): %v", err)
		}
		return bulk(sc.digest)
	case what == "EXISTS" && len(x.args) > 1:
		found := make(array, 0, len(x.args)-1)
		for _, digest := range x.args[1:] {
			n := integer(0)
			if x.s.scripts.get(strings.ToLower(digest)) != nil {
				n = 1
			}
			found = append(found, n)
		}
		return found
	case what == "FLUSH" && len(x.args) <= 2:
		if len(x.args) == 2 && !slices.Contains([]string{"SYNC", "ASYNC"}, strings.ToUpper(x.args[1])) {
			return failure("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		}
		x.s.scripts.flush()
		return ok
	case what == "KILL":
		return failure("NOTBUSY No scripts in execution right now.")
	}
	return failf("ERR unknown subcommand or wrong number of arguments for 'script|%s': LOAD, EXISTS and FLUSH are offered",
		clip(strings.ToLower(x.args[0])))
}

// run is a single run of a script. Its goroutine owns all fields.
type run struct {
	x    *call
	ctx  context.Context
	keys map[string]bool // declared by the caller, and locked

	free    map[string]bool // keys seen free by the script
	values  map[string]bool // keys with a value seen by the script
	grants  []*held         // keys taken by the script
	changed bool            // a change was made for good
	late    bool            // another node took a key seen free by the script

	memory int // bytes of strings left to the script
}

func newRun(ctx context.Context, x *call, declared map[string]bool) *run {
	return &run{x: x, ctx: ctx, keys: declared, free: make(map[string]bool), values: make(map[string]bool), memory: MaxScriptMemory}
}

func (r *run) sawFree(key string)           { r.free[key] = true }
func (r *run) sawValue(key string)          { r.values[key] = true }
func (r *run) hasSeenValue(key string) bool { return r.values[key] }
func (r *run) granted(h *held)              { r.grants = append(r.grants, h); r.values[h.key] = true }
func (r *run) isOvertaken(key string) bool  { return r.free[key] }
func (r *run) overtaken(key string) failure {
	r.late = true
	return failf("%s the key %q was taken by another node while the script ran", codeHeld, clip(key))
}

// takeBack releases the keys taken by the script, so that a script that fails or runs anew
// holds none: Redis would have run it at another moment.
func (r *run) takeBack() {
	for _, h := range r.grants {
		if r.x.s.leases.get(h.key) == h {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.x.ctx), releaseTime)
			_ = r.x.s.release(ctx, h)
			cancel()
		}
	}
	r.grants = nil
}

// eval runs a script with the keys and arguments of the call.
func (x *call) eval(sc *script) reply {
	n, is := parseInteger(x.args[1])
	switch {
	case !is:
		return errInteger
	case n < 0:
		return failure("ERR Number of keys can't be negative")
	case n > int64(len(x.args)-2):
		return failure("ERR Number of keys can't be greater than number of args")
	}
	keys, argv := x.args[2:2+n], x.args[2+n:]
	declared := make(map[string]bool, n)
	for _, key := range keys {
		if wrong := checkKey(key); wrong != nil {
			return wrong
		}
		declared[key] = true
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.s.patience())
	defer cancel()
	unlock, err := x.s.locks.lock(ctx, keys...)
	if err != nil {
		return x.given(err)
	}
	defer unlock()
	for tries := 0; ; tries++ {
		r := newRun(ctx, x, declared)
		answer := sc.run(r, keys, argv)
		_, isFailure := answer.(failure)
		if r.late && !r.changed && tries < maxReruns {
			r.takeBack()
			continue
		}
		if isFailure || r.late {
			r.takeBack()
		}
		if r.late && !isFailure {
			answer = failf("%s another node took a key while the script ran", codeHeld)
		}
		return answer
	}
}
