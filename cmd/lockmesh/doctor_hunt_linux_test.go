//go:build hunt

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machines are two network namespaces with a cable between: an agent runs on the first, and doctor
// on the second.
type machines struct {
	t    *testing.T
	b    *bench
	a, d string // the names of the namespaces
}

// newMachines needs root, ip and iptables.
func newMachines(t *testing.T, b *bench) *machines {
	t.Helper()
	m := &machines{t: t, b: b, a: fmt.Sprintf("lm%da", os.Getpid()), d: fmt.Sprintf("lm%dd", os.Getpid())}
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
			t.Skipf("!!!! SKIPPED: doctor on a faulty network is NOT checked, since this needs root and the program %s", tool)
		}
	}
	for i, ns := range []string{m.a, m.d} {
		m.do("ip", "netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		if i == 0 {
			continue
		}
		m.do("ip", "link", "add", "va", "netns", m.a, "type", "veth", "peer", "name", "vd", "netns", m.d)
	}
	for _, c := range [][]string{{m.a, "va", "10.78.0.1/24"}, {m.d, "vd", "10.78.0.2/24"}} {
		m.do("ip", "-n", c[0], "addr", "add", c[2], "dev", c[1])
		m.do("ip", "-n", c[0], "link", "set", c[1], "up")
		m.do("ip", "-n", c[0], "link", "set", "lo", "up")
	}
	return m
}

func (m *machines) do(args ...string) {
	m.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		m.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// in returns a command line of lockmesh in a namespace.
func (m *machines) in(ns string, args ...string) *process {
	p := m.b.command(args...)
	self := p.Path
	p.Args = append([]string{"ip", "netns", "exec", ns, self}, args...)
	p.Path, _ = exec.LookPath("ip")
	p.Env = append(p.Env, "LOCKMESH_SECRET=kQ7vXw2-first-hB9zLm4TgY8s")
	return p
}

// TestDoctorOnAFaultyNetwork: packets that a firewall drops, and a way for short packets only.
func TestDoctorOnAFaultyNetwork(t *testing.T) {
	b := newBench(t)
	m := newMachines(t, b)
	socket := filepath.Join(b.dir, "a")
	agent := m.in(m.a, "agent", "--socket", socket, "--bind", "10.78.0.1:7950", "--name", "a", "--voters", "a", "--max-ttl", "2s")
	agent.start()
	grants(t, socket)
	diagnose := func() ([]finding, int) {
		p := m.in(m.d, "doctor", "-o", "json", "--name", "d", "--voters", "a", "--peers", "10.78.0.1:7950", "--max-ttl", "2s")
		code := p.run()
		return objects[finding](t, p.out.String()), code
	}
	if all, code := diagnose(); code != 0 {
		t.Fatalf("doctor ends with %d where all is well: %+v", code, all)
	}
	for _, fault := range []struct {
		rule, check, text string
	}{
		{"INPUT -p udp -j DROP", "udp", "let UDP through"},
		{"OUTPUT -p udp -j DROP", "udp", "let UDP through"},
		{"INPUT -p tcp --dport 7950 -j DROP", "tcp", "can't be reached"},
		{"INPUT -p tcp --dport 7950 -j REJECT --reject-with tcp-reset", "tcp", "refuses connections"},
	} {
		table := append([]string{"ip", "netns", "exec", m.a, "iptables"}, "-A")
		m.do(append(table, strings.Fields(fault.rule)...)...)
		all, code := diagnose()
		if code != 1 {
			t.Errorf("%s: doctor ends with %d", fault.rule, code)
		}
		wantFinding(t, all, fault.check, fail, fault.text)
		m.do("ip", "netns", "exec", m.a, "iptables", "-F")
	}
	m.do("ip", "-n", m.d, "link", "set", "vd", "mtu", "1000")
	all, code := diagnose()
	if code != 1 {
		t.Errorf("short packets: doctor ends with %d", code)
	}
	wantFinding(t, all, "packets", fail, "raise the MTU")
}

// TestDoctorOnAFileSystemOfAProgram: which may be on a network.
func TestDoctorOnAFileSystemOfAProgram(t *testing.T) {
	_, noFUSE := os.Stat("/dev/fuse")
	if _, err := exec.LookPath("bindfs"); err != nil || noFUSE != nil || os.Getuid() != 0 {
		t.Skip("!!!! SKIPPED: doctor on a file system of a program is NOT checked, since this needs root, FUSE and the program bindfs")
	}
	b := newRoom(t)
	disk, mounted := filepath.Join(b.dir, "disk"), filepath.Join(b.dir, "mounted")
	for _, dir := range []string{disk, mounted} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("bindfs", disk, mounted).CombinedOutput(); err != nil {
		t.Fatalf("bindfs: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mounted).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	for _, c := range []struct {
		dir  string
		want verdict
		text string
	}{
		{disk, ok, "on a disk of this machine"},
		{mounted, warn, "a file system of a program (FUSE)"},
		{filepath.Join(mounted, "new"), warn, "a file system of a program (FUSE)"},
	} {
		all, _ := b.diagnosis("kQ7vXw2-first-hB9zLm4TgY8s", "--voters", "b", "--name", "b", "--state-dir", c.dir)
		wantFinding(t, all, "directory", c.want, c.text)
	}
}
