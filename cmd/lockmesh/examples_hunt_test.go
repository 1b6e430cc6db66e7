//go:build hunt && unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// examplesDir is where the examples in other languages are, from this package.
const examplesDir = "../../examples"

// workers are the examples in other languages. Each takes the key jobs/report.
func (b *bench) workers() map[string]*process {
	b.t.Helper()
	dir, err := filepath.Abs(examplesDir)
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]*process{
		"shell":  b.shell(""),
		"python": b.program("python3", dir+"/python/worker.py", b.socket),
		"node":   b.program("node", dir+"/node/worker.mjs", b.socket),
	}
	all["shell"].Args = []string{"bash", dir + "/shell/worker.sh"}
	all["python"].Env = append(all["python"].Env, "PYTHONDONTWRITEBYTECODE=1")
	return all
}

var tokenLine = regexp.MustCompile(`working with token (\d+)\n`)

// TestExamplesInOtherLanguages : workers in a shell, Python and Node take turns, with tokens in
// order; each worker reports a lock held by another worker, and ends its work when the lock is
// lost.
func TestExamplesInOtherLanguages(t *testing.T) {
	b := newBench(t)
	lastToken := ""
	for name, p := range b.workers() {
		if code := p.run(); code != 0 || strings.Count(p.out.String(), "step") != 3 {
			t.Errorf("%s ends with %d: %s%s", name, code, p.out.String(), p.err.String())
		}
		m := tokenLine.FindStringSubmatch(p.out.String())
		if m == nil || len(m[1]) < len(lastToken) || m[1] <= lastToken {
			t.Fatalf("%s prints %s after token %s", name, p.out.String(), lastToken)
		}
		lastToken = m[1]
	}
	// All at once: the key is free in between, and the tokens are the order.
	all := b.workers()
	for _, p := range all {
		p.start()
	}
	tokens := make(map[string]bool)
	for name, p := range all {
		if code := p.waitInTime(); code != 0 {
			t.Errorf("%s ends with %d: %s", name, code, p.err.String())
			continue
		}
		token := tokenLine.FindStringSubmatch(p.out.String())[1]
		if token <= lastToken || tokens[token] {
			t.Errorf("%s has token %s again", name, token)
		}
		tokens[token] = true
	}

	holder, in := b.startPiped("run", "jobs/report", "--", "sh", "-c", "echo runs; read x")
	holder.prints("runs")
	for name, p := range b.workers() {
		if code := p.run(); code != 1 || !strings.Contains(p.err.String(), "another worker is at it") {
			t.Errorf("%s ends with %d: %s", name, code, p.err.String())
		}
	}
	in.Close()
	holder.waitInTime()
}

// TestExamplesLoseTheLock : the work ends when the lock is evicted, and when the agent is gone.
func TestExamplesLoseTheLock(t *testing.T) {
	b := newBench(t, "--expect", "1", "--max-ttl", brief)
	for _, end := range []func(){
		func() { b.wants(0, "evict", "jobs/report", "--node", b.node()) },
		func() { b.agent.signal(sigKill); b.agent.waitInTime() },
	} {
		for name, p := range b.slowWorkers() {
			p.start()
			p.prints("working")
			end()
			code := p.waitInTime()
			if code == 0 || strings.Contains(p.out.String(), "step 2") {
				t.Errorf("%s ends with %d: %s%s", name, code, p.out.String(), p.err.String())
			}
			if _, err := os.Stat(b.socket); err != nil || b.agent.ProcessState != nil {
				b.startAgent("--expect", "1", "--max-ttl", brief)
			}
		}
	}
}

// slowWorkers returns workers with steps of a minute, so that the end comes within a step.
func (b *bench) slowWorkers() map[string]*process {
	b.t.Helper()
	all := b.workers()
	for name, p := range all {
		for i, arg := range p.Args {
			text, err := os.ReadFile(arg)
			if err != nil || !strings.Contains(arg, "worker") {
				continue
			}
			slow := filepath.Join(b.dir, filepath.Base(arg))
			body := strings.NewReplacer("sleep 0.1", "sleep 60", "lock.wait(0.1)", "lock.wait(60)", "sleep(100,", "sleep(60000,").Replace(string(text))
			if body == string(text) {
				b.t.Fatalf("%s has no pause that could be longer", name)
			}
			module, _ := filepath.Glob(filepath.Join(filepath.Dir(arg), "lockmesh.*"))
			for _, m := range module {
				content, err := os.ReadFile(m)
				if err != nil {
					b.t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(b.dir, filepath.Base(m)), content, 0o600); err != nil {
					b.t.Fatal(err)
				}
			}
			if err := os.WriteFile(slow, []byte(body), 0o600); err != nil {
				b.t.Fatal(err)
			}
			p.Args[i] = slow
		}
	}
	return all
}
