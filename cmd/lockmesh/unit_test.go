package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/admin"
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

// TestTheUnitKeepsTheSocketsDirectory: an agent alone finds in the directory how the agent before
// has ended, also when systemd starts the agent again.
func TestTheUnitKeepsTheSocketsDirectory(t *testing.T) {
	u := unit(t)
	if len(u["RuntimeDirectory"]) != 1 || len(u["RuntimeDirectoryPreserve"]) != 1 || u["RuntimeDirectoryPreserve"][0] != "yes" {
		t.Errorf("the unit has RuntimeDirectory=%q, RuntimeDirectoryPreserve=%q", u["RuntimeDirectory"], u["RuntimeDirectoryPreserve"])
	}
}

// TestTheUnitReloadsTheSecret: upon SIGHUP the agent reads the operator's own file. A credential
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

// TestALongKeyLeavesRoomForTheOtherColumns: any client may take a key of any length, and ls shows
// the holders of all keys.
func TestALongKeyLeavesRoomForTheOtherColumns(t *testing.T) {
	for _, width := range []int{80, 200} {
		var b bytes.Buffer
		table := newTable(&cutLines{to: &b, width: width}, "KEY", "HOLDER", "MODE", "TOKEN")
		for _, key := range []string{strings.Repeat("k", 300), strings.Repeat("\x1b[31m", 60), strings.Repeat("鍵", 200)} {
			lockRows(table, &admin.Lock{Key: key, Holders: []admin.Holder{{Node: strings.Repeat("n", 128), Mode: "exclusive", Token: 123456789}}}, width)
		}
		if err := table.end(); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
			if i > 0 && (!strings.Contains(line, "123456789") || strings.ContainsRune(line, '\x1b')) {
				t.Errorf("a terminal of %d cells shows %q", width, line)
			}
		}
	}
}

// TestAJoinedNodeNeverVotes: a node that lives for a single call takes no seat, in whatever kind
// of mesh.
func TestAJoinedNodeNeverVotes(t *testing.T) {
	for _, flags := range []meshFlags{{Voters: []string{"a"}}, {Voters: []string{"a"}, Dynamic: true}, {Expect: 3}, {Expect: 3, Register: "any"}} {
		g := globals{Join: []string{"127.0.0.1:1"}, Mesh: flags}
		cfg, err := g.joinConfig()
		if err != nil || !cfg.NonVoting || cfg.Bootstrap || !strings.HasPrefix(cfg.Name, joined) || len(cfg.Peers) != 1 {
			t.Errorf("%+v: NonVoting %v, Bootstrap %v, name %s, %d peers, %v", flags, cfg.NonVoting, cfg.Bootstrap, cfg.Name, len(cfg.Peers), err)
		}
		if (cfg.Register != nil) != (flags.Register != "") {
			t.Errorf("%+v: the register is %v", flags, cfg.Register)
		}
	}
}
