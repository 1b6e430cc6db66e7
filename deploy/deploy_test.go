// Package deploy has the public types of the platforms read the manifests of this directory,
// strictly: a field unknown to a platform is an error. And the package compares the manifests with
// examples/service, the program in the manifests.
package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// grace is the time in which examples/service ends by default.
	grace = 25 * time.Second

	// leaveTime is the least time for a voter that is replaced by a process that starts only now:
	// two default MaxTTL and two seconds, twice that after a crash of another voter, and ten
	// seconds for the start of the process.
	leaveTime = 54 * time.Second
)

// graceOf returns the time in which the service ends with an environment.
func graceOf(t *testing.T, env map[string]string) time.Duration {
	t.Helper()
	d := grace
	if value := env["SERVICE_GRACE"]; value != "" {
		var err error
		if d, err = time.ParseDuration(value); err != nil {
			t.Error(err)
		}
	}
	if env["LOCKMESH_EXPECT"] != "" && env["LOCKMESH_NON_VOTING"] != "true" && d < leaveTime {
		t.Errorf("a voter has %v to leave, less than %v", d, leaveTime)
	}
	return d
}

// readyLimit returns the time after which the gate of a rollout opens in any case: the default of
// lockmeshhttp.WithReadyLimit.
func readyLimit(t *testing.T) time.Duration {
	t.Helper()
	const name = "DefaultReadyLimit = 5 * time.Minute"
	if !strings.Contains(read(t, "../lockmeshhttp/probes.go"), name) {
		t.Fatalf("lockmeshhttp doesn't say %q any more", name)
	}
	return 5 * time.Minute
}

// service builds examples/service, and returns the program.
var service = func() func(t *testing.T) string {
	var program string
	return func(t *testing.T) string {
		t.Helper()
		if program == "" {
			dir, err := os.MkdirTemp("", "service")
			if err != nil {
				t.Fatal(err)
			}
			program = filepath.Join(dir, "service.exe")
			cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/service")
			cmd.Dir = ".."
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("building examples/service: %v\n%s", err, out)
			}
		}
		return program
	}
}()

// accepts checks that examples/service accepts an environment, with the values that a platform
// would put in place of variables.
func accepts(t *testing.T, env map[string]string) {
	t.Helper()
	usage, err := exec.CommandContext(t.Context(), service(t), "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, usage)
	}
	// Two applications with a copy of a manifest each must not share a name of the mesh unseen.
	if env["LOCKMESH_MESH"] != "locks" {
		t.Errorf("the manifest names the mesh %q, want locks", env["LOCKMESH_MESH"])
	}
	cmd := exec.CommandContext(t.Context(), service(t), "-check")
	cmd.Env = append(slices.Clip(os.Environ()), "LOCKMESH_SECRET=kq3Zf8vB1xTn6WcR0aYs")
	for name, value := range env {
		ours := strings.HasPrefix(name, "LOCKMESH_") || strings.HasPrefix(name, "SERVICE_")
		if ours && !strings.Contains(string(usage), "\n  "+name+" ") && !strings.Contains(string(usage), " "+name+",") {
			t.Errorf("examples/service knows no variable %s", name)
		}
		switch {
		case name == "LOCKMESH_SECRET":
			continue
		case strings.HasPrefix(value, "configmap:"):
			value = "http://127.0.0.1:1/bucket/register.json" // the service account is mounted in pods only
		case value == "$(POD_IP)":
			value = "10.1.2.3"
		case strings.Contains(value, "${NOMAD_ADDR_mesh}"):
			value = "10.1.2.3:7950"
		case strings.Contains(value, "${NOMAD_PORT_probes}"):
			value = ":20123"
		case strings.HasPrefix(value, "%S/"):
			value = "/var/lib/" + strings.TrimPrefix(value, "%S/")
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each manifest begins with its promises, and with the failures that the manifest survives.
func TestEachManifestSaysWhatItPromises(t *testing.T) {
	var all []string
	for _, pattern := range []string{"kubernetes/*.yaml", "systemd/*.service", "nomad/*.hcl", "compose/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		all = append(all, found...)
	}
	for _, path := range all {
		head, _, _ := strings.Cut(read(t, path), "\n\n")
		var comment []string
		for line := range strings.SplitSeq(head, "\n") {
			if text, ok := strings.CutPrefix(line, "#"); ok {
				comment = append(comment, strings.TrimSpace(text))
			}
		}
		text := strings.Join(comment, " ")
		if !strings.Contains(text, "Promise: ") || !strings.Contains(text, "Survives: ") {
			t.Errorf("%s doesn't begin with what it promises and survives:\n%s", path, text)
		}
	}
}

// If systemd is installed, systemd itself reads the unit.
func TestTheUnitOfSystemd(t *testing.T) {
	unit := read(t, "systemd/locks.service")
	env := map[string]string{"LOCKMESH_NAME": "alpha"}
	for line := range strings.SplitSeq(unit, "\n") {
		if setting, ok := strings.CutPrefix(line, "#\tLOCKMESH_"); ok { // of the file beside, as in the head
			name, value, _ := strings.Cut(setting, "=")
			env["LOCKMESH_"+name] = value
		}
		if setting, ok := strings.CutPrefix(line, "Environment="); ok {
			name, value, _ := strings.Cut(setting, "=")
			env[name] = value
		}
		if limit, ok := strings.CutPrefix(line, "TimeoutStopSec="); ok {
			if d, err := time.ParseDuration(limit + "s"); err != nil || d <= grace {
				t.Errorf("the service needs %v to end, and is killed after %s s", grace, limit)
			}
		}
	}
	// A machine may have several addresses, and one for containers alone is the same on all
	// machines.
	if env["LOCKMESH_ADVERTISE"] == "" || env["LOCKMESH_VOTERS"] == "" {
		t.Errorf("the head doesn't set the address of the machine, or not the voters: %v", env)
	}
	accepts(t, env)
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: there is no systemd-analyze, which would read the unit")
	}
	path := filepath.Join(t.TempDir(), "locks.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/service", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, systemd, "verify", "--man=no", path).CombinedOutput()
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.Contains(line, "locks.service") {
			t.Errorf("systemd says: %s", line)
		}
	}
	t.Logf("systemd-analyze: %v %s", err, out)
}
