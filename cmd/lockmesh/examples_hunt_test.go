//go:build hunt && unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
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

// TestExamplesInOtherLanguages: workers in a shell, Python and Node take turns, with tokens in
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

// TestExamplesLoseTheLock: the work ends when the lock is evicted, and when the agent is gone.
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

// pausedWorkers hold the key that their last argument names, and take a step when the file go is
// there. Each is busy until then, so after a pause the step comes before any news about the lock.
var pausedWorkers = map[string]string{
	"python3": `import os, sys
sys.path.insert(0, sys.argv[1] + "/python")
from lockmesh import hold
with hold(sys.argv[3], sys.argv[2]) as lock:
    print("working", flush=True)
    while not os.path.exists("go"):
        pass
    lock.check()
    print("step", flush=True)
`,
	"node": `import fs from "node:fs";
const [dir, socketPath, key] = process.argv.slice(2);
const { hold } = await import(dir + "/node/lockmesh.mjs");
await hold(key, async ({ check }) => {
  console.log("working");
  await new Promise((resolve) => setTimeout(resolve));
  while (!fs.existsSync("go"));
  check();
  console.log("step");
}, { socketPath });
`,
}

// TestExamplesReadTheClockAfterAPause: the agent and the workers are stopped for longer than the
// lease. The workers continue first, and their next step finds the lock lost.
func TestExamplesReadTheClockAfterAPause(t *testing.T) {
	b := newBench(t, "--expect", "1", "--max-ttl", brief)
	dir, err := filepath.Abs(examplesDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []*process
	for program, text := range pausedWorkers {
		file := filepath.Join(b.dir, program+"-worker.mjs") // Python takes any name
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := b.program(program, file, dir, b.socket, "jobs/"+program)
		p.Env = append(p.Env, "PYTHONDONTWRITEBYTECODE=1")
		p.start()
		p.prints("working")
		p.signal(syscall.SIGSTOP)
		all = append(all, p)
	}
	b.agent.signal(syscall.SIGSTOP)
	length, err := time.ParseDuration(brief)
	if err != nil {
		t.Fatal(err)
	}
	over := time.Now().Add(length)
	testwait.Until(t, "the end of the leases", func() bool { return time.Now().After(over) })
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		p.signal(syscall.SIGCONT)
		code := p.waitInTime()
		if code == 0 || strings.Contains(p.out.String(), "step") || !strings.Contains(p.err.String(), "in time that the lock is held") {
			t.Errorf("%q ends with %d: %s%s", p.Args, code, p.out.String(), p.err.String())
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
