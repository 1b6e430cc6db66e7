package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheDockerfile runs the build of the Dockerfile without a container, and the built program.
func TestTheDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if version == nil || !strings.Contains(text, "\nFROM golang:"+version[1]+" AS build\n") {
		t.Errorf("the Dockerfile doesn't build by the Go of go.mod, %q", version)
	}
	build := regexp.MustCompile(`(?m)^RUN GOWORK=off CGO_ENABLED=0 (go build .*) -o /service (\S+)$`).FindStringSubmatch(text)
	if build == nil || !strings.Contains(text, "\nCOPY --from=build /service /service\n") || !strings.Contains(text, "\nENTRYPOINT [\"/service\"]\n") {
		t.Fatalf("the Dockerfile doesn't build, copy and start /service:\n%s", text)
	}
	program := filepath.Join(t.TempDir(), "service.exe")
	args := append(strings.Fields(build[1])[1:], "-o", program, build[2])
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	if out, err := exec.CommandContext(t.Context(), program, "-h").CombinedOutput(); err != nil || !strings.Contains(string(out), "-alive") {
		t.Errorf("%v\n%s", err, out)
	}
}
