//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// diagnosis runs doctor, and returns the findings and the exit code.
func (b *bench) diagnosis(secret string, args ...string) ([]finding, int) {
	b.t.Helper()
	p := b.command(append([]string{"doctor", "-o", "json"}, args...)...)
	if secret != "" {
		p.Env = append(p.Env, "LOCKMESH_SECRET="+secret)
	}
	code := p.run()
	all := objects[finding](b.t, p.out.String())
	if strings.Contains(p.out.String()+p.err.String(), secret) && secret != "" {
		b.t.Errorf("a secret is shown: %s%s", p.out.String(), p.err.String())
	}
	return all, code
}

// wantFinding fails unless a finding has the check, the verdict and the text, with advice if the
// verdict is bad.
func wantFinding(t *testing.T, all []finding, check string, v verdict, text string) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && f.Verdict == v && strings.Contains(f.Reason+" "+f.Fix, text) {
			if (f.Fix == "") != (v == ok || v == skip) {
				t.Errorf("the advice of %+v", f)
			}
			return
		}
	}
	t.Errorf("no finding %s %s with %q in %+v", v, check, text, all)
}

// TestDoctor: each check finds the fault for which the check was made.
func TestDoctor(t *testing.T) {
	const secret, other = "kQ7vXw2-first-hB9zLm4TgY8s", "pR3nDc6-second-jF5aVu1WeK0x"
	t.Parallel()
	b := newRoom(t)
	addr := freeport.Address(t)
	p := b.command("agent", "--socket", filepath.Join(b.dir, "a"), "--bind", addr, "--name", "a", "--voters", "a", "--max-ttl", "2s")
	p.Env = append(p.Env, "LOCKMESH_SECRET="+secret)
	p.start()
	grants(t, filepath.Join(b.dir, "a"))
	right := []string{"--voters", "a", "--peers", addr, "--max-ttl", "2s", "--name", "b"}
	with := func(args ...string) []string { return append(append([]string{}, right...), args...) }

	all, code := b.diagnosis(secret, right...)
	if code != 0 {
		t.Errorf("doctor ends with %d where all is well", code)
	}
	for check, text := range map[string]string{
		"settings": "can be used", "names": addr, "tcp": "accepts", "secret": "accept the secret", "agreement": "no node has another",
		"join": "1 node", "udp": "a at " + addr + " answers by UDP in", "ready": "locks can be granted", "files": "files open",
	} {
		wantFinding(t, all, check, ok, text)
	}
	wantFinding(t, all, "majority", warn, "tolerates no failure")

	all, code = b.diagnosis(other, right...)
	if code != 1 {
		t.Errorf("doctor ends with %d where the secret differs", code)
	}
	wantFinding(t, all, "secret", fail, "LOCKMESH_SECRET")
	if slices.ContainsFunc(all, func(f finding) bool { return f.Check == "agreement" }) {
		t.Errorf("a secret that differs isn't another disagreement: %+v", all)
	}
	wantFinding(t, all, "join", fail, "no other node")

	all, _ = b.diagnosis(secret, with("--max-ttl", "20s")...)
	wantFinding(t, all, "agreement", fail, "20s")
	all, _ = b.diagnosis(secret, with("--mesh", "second")...)
	wantFinding(t, all, "agreement", fail, "second")
	all, _ = b.diagnosis(secret, "--voters", "a,c,d", "--peers", addr, "--max-ttl", "2s", "--name", "b")
	wantFinding(t, all, "agreement", fail, "list of voters")

	closed := freeport.Address(t)
	all, code = b.diagnosis(secret, "--voters", "a", "--peers", closed, "--name", "b")
	if code != 1 {
		t.Errorf("doctor ends with %d where no peer is up", code)
	}
	wantFinding(t, all, "tcp", fail, "refuses connections")
	wantFinding(t, all, "join", skip, "no peer can be reached")
	list := filepath.Join(b.dir, "peers")
	if err := os.WriteFile(list, []byte("# none yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, _ = b.diagnosis(secret, "--voters", "a", "--peers", "file:"+list, "--peers", "file:/nowhere/x", "--name", "b")
	wantFinding(t, all, "names", fail, "has no address")
	wantFinding(t, all, "names", fail, "no such file")
	all, _ = b.diagnosis(secret, "--voters", "a", "--name", "b")
	wantFinding(t, all, "names", warn, "waits to be found")
	all, _ = b.diagnosis("short", right...)
	wantFinding(t, all, "settings", fail, "Secret")
	wantFinding(t, all, "join", skip, "settings")
	all, _ = b.diagnosis(secret, "--voters", "a,b,c,d", "--name", "x")
	wantFinding(t, all, "majority", warn, "name 3 voters or 5")
	if text := b.wants(1, "doctor", "--voters", "a", "--peers", closed).out.String(); !strings.Contains(text, "fail  tcp") || !strings.Contains(text, "-> ") {
		t.Errorf("the text is %s", text)
	}
}

// TestDoctorOnDirectories: doctor reports the faults of a state directory.
func TestDoctorOnDirectories(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	dir := filepath.Join(b.dir, "state")
	diagnose := func(args ...string) []finding {
		all, _ := b.diagnosis("kQ7vXw2-first-hB9zLm4TgY8s", append([]string{"--voters", "b", "--name", "b", "--state-dir", dir}, args...)...)
		return all
	}
	wantFinding(t, diagnose(), "directory", ok, "will be made")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, diagnose("--bootstrap"), "directory", ok, "can be written")
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range diagnose("--bootstrap") {
		if f.Check == "bootstrap" {
			t.Errorf("a node that was never started: %+v", f)
		}
	}
	founds(t, dir)
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, diagnose("--bootstrap"), "bootstrap", warn, "LOCKMESH_BOOTSTRAP")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, diagnose(), "directory", warn, "chmod 700")
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("doctor leaves %v of %v: %v", after, before, err)
	}
	dir = filepath.Join(dir, stateFile)
	wantFinding(t, diagnose(), "directory", fail, "isn't a directory")
	dir = "/proc/lockmesh"
	wantFinding(t, diagnose(), "directory", fail, "can't be made")
}

// founds starts and ends a node that founds a mesh with a state directory.
func founds(t *testing.T, dir string) {
	t.Helper()
	m, err := lockmesh.Join(t.Context(), lockmesh.Config{
		Name: "b", Voters: []string{"b"}, StateDir: dir, Bootstrap: true, Bind: "127.0.0.1:0", MaxTTL: 2 * time.Second,
		Secret: lockmesh.NewSecret(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(m.Ready(ctx), m.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorOnNamesWithSeveralAddresses: a host name is one node, and an address of the node is
// enough; of dns: each address is a node.
func TestDoctorOnNamesWithSeveralAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open, closed := l.Addr().String(), freeport.Address(t)
	for _, row := range []struct {
		setting   string
		addresses []string
		closed    verdict
	}{
		{"b.example:7950", []string{closed, open}, warn},
		{"b.example:7950", []string{open, closed}, warn},
		{"b.example:7950", []string{closed, closed}, fail},
		{"dns:b.example:7950", []string{closed, open}, fail},
		{"srv:_mesh._tcp.example", []string{open, closed}, fail},
		{"file:/etc/peers", []string{open, closed}, fail},
	} {
		x := &examination{ctx: t.Context(), tell: func(finding) error { return nil }}
		x.peers = []peer{{setting: "127.0.0.1:1", address: open}}
		for _, a := range row.addresses {
			x.peers = append(x.peers, peer{setting: row.setting, address: a})
		}
		x.tcp()
		wantFinding(t, x.found, "tcp", row.closed, closed)
		for _, f := range x.found {
			if f.Verdict == fail && row.closed != fail {
				t.Errorf("%s: %+v", row.setting, f)
			}
		}
		for _, p := range x.peers {
			if p.reached != (p.address == open) {
				t.Errorf("%s: %+v", row.setting, p)
			}
		}
	}
}

// TestDoctorOnAMeshThatStarts: of three voters two have just started, and one is missing. The
// voters are quiet for a minute, so however slow the machine is, doctor finds them quiet.
func TestDoctorOnAMeshThatStarts(t *testing.T) {
	const secret = "kQ7vXw2-first-hB9zLm4TgY8s"
	t.Parallel()
	b := newRoom(t)
	addrs := []string{freeport.Address(t), freeport.Address(t)}
	for i, name := range []string{"a", "b"} {
		p := b.command("agent", "--socket", filepath.Join(b.dir, name), "--bind", addrs[i], "--name", name,
			"--peers", strings.Join(addrs, ","), "--voters", "a,b,c", "--max-ttl", "1m")
		p.Env = append(p.Env, "LOCKMESH_SECRET="+secret)
		p.start()
	}
	args := []string{"--voters", "a,b,c", "--peers", strings.Join(addrs, ","), "--max-ttl", "1m", "--name", "d"}
	testwait.Until(t, "both agents are in the mesh", func() bool {
		all, code := b.diagnosis(secret, args...)
		if code != 1 {
			t.Fatalf("doctor ends with %d: %+v", code, all)
		}
		return slices.ContainsFunc(all, func(f finding) bool { return f.Check == "join" && strings.Contains(f.Reason, "2 nodes") })
	})
	all, _ := b.diagnosis(secret, args...)
	wantFinding(t, all, "voters", warn, "a has started recently, and its votes don't count yet")
	wantFinding(t, all, "voters", warn, "b has started recently, and its votes don't count yet")
	wantFinding(t, all, "voters", warn, "c is ")
	wantFinding(t, all, "ready", fail, "no lock can be granted: 0 of 3 voters count, and 2 are needed")
}

// TestDoctorOnAFewFiles: doctor runs under a low limit of open files.
func TestDoctorOnAFewFiles(t *testing.T) {
	b := newRoom(t)
	p := b.command("doctor", "-o", "json", "--voters", "a", "--name", "a", "--insecure")
	p.Args = append([]string{"sh", "-c", `ulimit -n 256; exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	p.Path = sh
	p.run()
	wantFinding(t, objects[finding](t, p.out.String()), "files", warn, "a process may have 256 files open")
}

// TestDoctorOnVoters: doctor's findings about the voters of a status: of clocks, which no test can
// set apart on one machine, and of votes that don't come.
func TestDoctorOnVoters(t *testing.T) {
	var s lockmesh.Status
	s.Electorate = lockmesh.ElectorateStatus{
		Dynamic: true, Majority: 3, Counting: 2, Spare: 0,
		Voters: []lockmesh.VoterStatus{
			{Name: "a", State: lockmesh.VoterReachable, ClockOffset: -3 * time.Second},
			{Name: "b", State: lockmesh.VoterQuiet, Quiet: 7 * time.Second, Text: "quiet for 7s"},
			{Name: "c", State: lockmesh.VoterUnreachable, Text: "unreachable since noon"},
			{Name: "d", State: lockmesh.VoterReachable, Drift: "its clock gains 2 s an hour"},
		},
	}
	x := &examination{ctx: context.Background(), tell: func(finding) error { return nil }}
	x.voters(&s)
	wantFinding(t, x.found, "clocks", warn, "run NTP")
	wantFinding(t, x.found, "clocks", fail, "its clock gains 2 s an hour")
	wantFinding(t, x.found, "voters", warn, "wait for 7s")
	wantFinding(t, x.found, "voters", warn, "unreachable since noon")
	wantFinding(t, x.found, "ready", fail, "2 of 4 voters count, and 3 are needed")
	wantFinding(t, x.found, "majority", warn, "no more failures than 3")
	x.found = nil
	s.Electorate.Ready, s.Electorate.Counting = true, 3
	x.voters(&s)
	wantFinding(t, x.found, "ready", warn, "not if one more voter fails")
	x.found = nil
	x.voters(new(lockmesh.Status))
	wantFinding(t, x.found, "ready", fail, "no voters are known yet")
	x.found = nil
	s.Electorate.Lost = "a majority is gone"
	x.voters(&s)
	wantFinding(t, x.found, "ready", fail, "recover")
}

// TestDoctorFindsOpenSecrets: a file with a secret that each user of the machine can read.
func TestDoctorFindsOpenSecrets(t *testing.T) {
	for _, name := range secretFiles {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte("kQ7vXw2-first-hB9zLm4TgY8s\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, path)
		x := &examination{tell: func(finding) error { return nil }}
		x.secrets()
		if len(x.found) != 0 {
			t.Errorf("%s: the file is its user's alone, and doctor finds %+v", name, x.found)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		x.secrets()
		wantFinding(t, x.found, "secrets", warn, name+": each user of this machine can read "+path)
		t.Setenv(name, "")
	}
}
