package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/child"
	"github.com/lockmesh/lockmesh/bench/internal/peer"
	"github.com/lockmesh/lockmesh/bench/internal/table"
)

// The metrics of the cost of embedding lockmesh in a program.
const (
	mSize       = "bytes of the program"
	mGoroutines = "goroutines"
	mResident   = "resident, bytes"
	mIdleCPU    = "processor while idle, % of a core"
	mFirstLock  = "from Join to the first lock, ms"
)

// minimal is the import path of the folder of minimal programs.
const minimal = "github.com/lockmesh/lockmesh/bench/internal/minimal/"

const programNone, programWeb, programLockmesh = "none", "web", "lockmesh"

// meshSizes are the sizes of the meshes for counting goroutines.
var meshSizes = []int{1, 3, 5}

// watched is the size of the mesh for the measurement of idle nodes.
const watched = 3

// joins is how often the time to join and to lock is measured.
const joins = 10

// embed measures the cost of embedding lockmesh in a program.
func embed(ctx context.Context, o *options, r *results) error {
	dir, err := sharedDir("")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	logf("embed: building small programs")
	for _, name := range []string{programNone, programWeb, programLockmesh} {
		path := filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, minimal+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("can't build %s (is this the folder of the module bench?): %w\n%s", name, err, out)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		r.add(wEmbed, name, mSize, float64(info.Size()))
		logf("  %-21s %d bytes", name, info.Size())
	}
	f := &fleet{}
	defer f.close()
	meshes := make(map[int]*smallMesh)
	for _, n := range meshSizes {
		if meshes[n], err = startSmall(ctx, f, filepath.Join(dir, programLockmesh), n); err != nil {
			return err
		}
	}
	for _, n := range meshSizes {
		m := meshes[n]
		for _, p := range m.nodes {
			if err := p.Call(ctx, "ready", none{}, &m.info); err != nil {
				return err
			}
			r.add(wEmbed, peers(n), mGoroutines, float64(m.info.Goroutines))
		}
		logf("  %d peers: %d goroutines", n-1, m.info.Goroutines)
		if n != watched {
			for _, p := range m.nodes {
				if err := p.Close(); err != nil {
					return err
				}
			}
		}
	}
	if err := joinAndLock(ctx, f, r, meshes[watched]); err != nil {
		return err
	}
	return idleMesh(ctx, o, r, meshes[watched])
}

func peers(size int) string { return fmt.Sprintf("%d peers", size-1) }

// smallMesh is a mesh of minimal programs, all of them voters.
type smallMesh struct {
	nodes []*child.Process
	names []string
	first string
	info  struct {
		Addr       string
		Goroutines int
	}
}

func startSmall(ctx context.Context, f *fleet, path string, n int) (*smallMesh, error) {
	m := &smallMesh{}
	for i := range n {
		m.names = append(m.names, string(rune('a'+i)))
	}
	for _, name := range m.names {
		args := []string{name, strings.Join(m.names, ",")}
		if m.first != "" {
			args = append(args, m.first)
		}
		p, err := child.StartProgram(fmt.Sprintf("mesh%d-%s", n, name), path, args...)
		if err != nil {
			return nil, err
		}
		f.track(p)
		m.nodes = append(m.nodes, p)
		if err := p.Call(ctx, "addr", none{}, &m.info); err != nil {
			return nil, err
		}
		if m.first == "" {
			m.first = m.info.Addr
		}
	}
	return m, nil
}

// joinAndLock has a node that is no voter join the mesh repeatedly, each time under a new name.
func joinAndLock(ctx context.Context, f *fleet, r *results, m *smallMesh) error {
	p, err := f.start("newcomer")
	if err != nil {
		return err
	}
	for i := range joins {
		var took time.Duration
		s := peer.Spec{Service: peer.Lockmesh, Name: fmt.Sprintf("newcomer%d", i), Voters: m.names, Peers: []string{m.first}}
		if err := p.Call(ctx, "first", s, &took); err != nil {
			return err
		}
		r.add(wEmbed, nameEmbedded, mFirstLock, float64(took)/float64(time.Millisecond))
	}
	logf("  from Join to the first lock: %.2f ms", r.median(wEmbed, nameEmbedded, mFirstLock))
	return p.Close()
}

// idleMesh measures an idle mesh.
func idleMesh(ctx context.Context, o *options, r *results, m *smallMesh) error {
	var pids []int
	for _, p := range m.nodes {
		pids = append(pids, p.Pid())
	}
	read := func() (cpu []time.Duration, bytes, writes float64, known bool) {
		for _, pid := range pids {
			t, ok := cpuTime([]int{pid})
			if !ok {
				return nil, 0, 0, false
			}
			cpu = append(cpu, t)
		}
		bytes, writes, known = written(pids)
		return cpu, bytes, writes, known
	}
	cpu, bytes, writes, known := read()
	start := time.Now()
	if err := sleep(ctx, o.idle); err != nil {
		return err
	}
	cpuAfter, bytesAfter, writesAfter, stillKnown := read()
	took := time.Since(start)
	if !known || !stillKnown {
		return nil
	}
	links := float64(watched * (watched - 1)) // counted in each direction
	r.add(wEmbed, peers(watched), mBytes, (bytesAfter-bytes)/took.Seconds()/links)
	r.add(wEmbed, peers(watched), mWrites, (writesAfter-writes)/took.Seconds()/links)
	for i, pid := range pids {
		r.add(wEmbed, peers(watched), mIdleCPU, 100*float64(cpuAfter[i]-cpu[i])/float64(took))
		if bytes, ok := resident(pid); ok {
			r.add(wEmbed, peers(watched), mResident, bytes)
		}
	}
	logf("  idle with %d peers: %.4f %% of a core, %.1f MB resident", watched-1, r.median(wEmbed, peers(watched), mIdleCPU), r.median(wEmbed, peers(watched), mResident)/1e6)
	return nil
}

// resident returns the resident memory of a process in bytes. It is known on Linux only.
func resident(pid int) (bytes float64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			var kb float64
			_, err := fmt.Sscan(rest, &kb)
			return kb * 1024, err == nil
		}
	}
	return 0, false
}

func embedTable(r *results) *table.Table {
	t := table.New("", "")
	row := func(what, service, metric string, scale float64) {
		values := r.values(wEmbed, service, metric)
		if len(values) == 0 {
			return
		}
		for i := range values {
			values[i] *= scale
		}
		t.Row(what, table.Spread(values))
	}
	const mega = 1e-6
	row("size of a program that does nothing, MB", programNone, mSize, mega)
	row("size of a program that serves HTTPS, MB", programWeb, mSize, mega)
	row("size of a program that joins a mesh, MB", programLockmesh, mSize, mega)
	for _, n := range meshSizes {
		row(fmt.Sprintf("goroutines of a node, %d peers", n-1), peers(n), mGoroutines, 1)
	}
	row("resident memory of the program that joins a mesh of three, MB", peers(watched), mResident, mega)
	row("processor time of this program while idle, % of a core", peers(watched), mIdleCPU, 1)
	row("bytes written from one node to another in an idle mesh of three, without gossip's packets, a second", peers(watched), mBytes, 1)
	row("writes from one node to another, likewise, a second", peers(watched), mWrites, 1)
	row("from Join to the first lock, for a node without a vote that joins a running mesh, ms", nameEmbedded, mFirstLock, 1)
	return t
}

// extraSections adds the sections of workloads measured once.
func extraSections(r *results, o *options, section func(title, text string, t *table.Table)) {
	section("Leases that are held", fmt.Sprintf(`Leases that no caller uses, for %v. The holder is one process; redsync's holder renews each lock
three times per TTL (%v). Bytes and writes are of all processes of the service, without gossip's
packets, but with the lists of members that gossip compares over a stream every ten seconds or so.`, o.idle, peer.TTL), holdTable(r, o))
	section("Memory", `Live bytes in lockmesh's processes for each key of 32 bytes, with the caller's handle: at a node
without a vote that holds the keys, and at a voter.`, memoryTable(r, o))
	section("Embedding", fmt.Sprintf("The cost of lockmesh in a program, without TLS. The idle measurement lasts %v.", o.idle), embedTable(r))
}
