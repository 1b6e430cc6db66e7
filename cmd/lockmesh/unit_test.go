package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// unit returns the settings of the service in docs/command.md.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), "\r\n", "\n")
	block := regexp.MustCompile("(?s)```ini\n(.*?)\n```").FindStringSubmatch(text)
	if block == nil {
		t.Fatal("docs/command.md has no unit")
	}
	settings := make(map[string][]string)
	for line := range strings.Lines(block[1]) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is {
			settings[name] = append(settings[name], value)
		}
	}
	return settings
}

// TestTheUnitKeepsTheSocketsDirectory : an agent alone finds in the directory how the agent before
// has ended, also when systemd starts the agent again.
func TestTheUnitKeepsTheSocketsDirectory(t *testing.T) {
	u := unit(t)
	if len(u["RuntimeDirectory"]) != 1 || len(u["RuntimeDirectoryPreserve"]) != 1 || u["RuntimeDirectoryPreserve"][0] != "yes" {
		t.Errorf("the unit has RuntimeDirectory=%q, RuntimeDirectoryPreserve=%q", u["RuntimeDirectory"], u["RuntimeDirectoryPreserve"])
	}
}

// TestTheUnitReloadsTheSecret : upon SIGHUP the agent reads the operator's own file. A credential
// is a copy that systemd makes when the unit starts, and a reload would find the old secret.
func TestTheUnitReloadsTheSecret(t *testing.T) {
	u := unit(t)
	if len(u["ExecReload"]) != 1 || !strings.Contains(u["ExecReload"][0], "-HUP") {
		t.Errorf("the unit has ExecReload=%q", u["ExecReload"])
	}
	for name := range u {
		if strings.HasPrefix(name, "LoadCredential") || strings.HasPrefix(name, "SetCredential") {
			t.Errorf("the unit has %s=%q", name, u[name])
		}
	}
	if all := strings.Join(u["Environment"], " "); !strings.Contains(all, "LOCKMESH_SECRET_FILE=/etc/lockmesh.key") {
		t.Errorf("the unit has Environment=%s", all)
	}
}
