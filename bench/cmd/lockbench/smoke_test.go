//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/load"
)

// patience bounds the waits of the tests. Only a hang takes so long.
const patience = 2 * time.Minute

// TestSmoke runs the whole harness with lockmesh alone, in real processes, for the shortest time.
func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "out")
	o, err := parse(strings.Fields("-only latency,throughput,handover,local,hold,memory -services limit,lockmesh,lockmesh-tls,lockmesh-client "+
		"-rounds 2 -for 20ms -idle 50ms -ttl 500ms -held 10 -kept 100 -out "+dir), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	callerCounts = []int{1, 4}
	var out bytes.Buffer
	if err := run(ctx, o, &out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil || string(page) != out.String() {
		t.Errorf("results.md isn't what was printed (%v)", err)
	}
	for _, want := range []string{"### Machine", "### Compared with the limit", "### Latency", "### Throughput", "### Hand-over", "### Within a node", "### Leases that are held", "### Memory"} {
		if !strings.Contains(string(page), want+"\n") {
			t.Errorf("results.md has no %s", want)
		}
	}
	for _, name := range []string{"latency.svg", "throughput.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{nameLimit, nameEmbedded, nameClient, nameEmbeddedTLS} {
		if got := r.values(newKey, s, mAcquire50); len(got) != o.rounds || got[0] <= 0 {
			t.Errorf("%s: the latencies are %v", s, got)
		}
		if got := r.values(throughputOf(4), s, mPerSecond); len(got) != o.rounds || got[0] <= 0 {
			t.Errorf("%s: the throughputs are %v", s, got)
		}
	}
	if got := r.values(wLocal, nameEmbedded, mPerSecond); len(got) != o.rounds || got[0] <= 0 {
		t.Errorf("within a node there were %v", got)
	}
	for _, s := range []string{nameEmbedded, nameClient} {
		if got := r.values(wHandover, s, mBetween); len(got) != o.rounds {
			t.Errorf("%s: between nodes there were %v", s, got)
		}
	}
}

// Processes end when their starter closes their standard input.
func TestProcessesEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := &fleet{}
	p, err := f.start("one")
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	var u load.Usage
	if err := p.Call(ctx, "measure", none{}, &u); err != nil || u.Goroutines == 0 {
		t.Fatalf("it says %v of itself, %v", u, err)
	}
	if err := p.Call(ctx, "dance", none{}, nil); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("the error of what it doesn't know is %v", err)
	}
	pid := p.Pid()
	f.close()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the process hasn't ended")
	}
	if err := p.Call(ctx, "measure", none{}, &u); err == nil {
		t.Error("a process that has ended answers")
	}
}
