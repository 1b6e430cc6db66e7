//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestNextStep(t *testing.T) {
	use := func(id string, accepted, sent int) admin.SecretUse {
		return admin.SecretUse{ID: id, AcceptedBy: make([]string, accepted), SentBy: make([]string, sent)}
	}
	for _, c := range []struct {
		all  []admin.SecretUse
		want string
	}{
		{nil, "no secret"},
		{[]admin.SecretUse{use("a", 3, 3)}, "to begin"},
		{[]admin.SecretUse{use("a", 3, 3), use("b", 2, 0)}, "step 1, or step 3"},
		{[]admin.SecretUse{use("a", 3, 3), use("b", 3, 0)}, "go on with step 2"},
		{[]admin.SecretUse{use("a", 3, 1), use("b", 3, 2)}, "complete step 2"},
		{[]admin.SecretUse{use("a", 3, 2), use("b", 2, 1)}, "doesn't accept"},
		{[]admin.SecretUse{use("a", 3, 1), use("b", 3, 1), use("c", 3, 1)}, "three secrets"},
	} {
		if got := nextStep(c.all, 3); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.all, got)
		}
	}
}

// TestMissingNodes: a node that comes back needs the file of the step, unless the mesh has no
// secret. The node of a killed command doesn't come back.
func TestMissingNodes(t *testing.T) {
	s := &admin.Status{Members: []admin.Member{{Name: "a", State: "alive"}}, Secrets: []admin.SecretUse{{ID: "x"}}}
	want := []string{"b", "cli-7", "doctor-who"}
	for _, name := range append([]string{passingName(joined, joinedLen), passingName(visitor, visitorLen)}, want...) {
		s.Members = append(s.Members, admin.Member{Name: name, State: "failed"})
	}
	if r := newRotation(s); !slices.Equal(r.Missing, want) {
		t.Errorf("missing are %q", r.Missing)
	}
	s.Secrets = nil
	if r := newRotation(s); r.Missing == nil || len(r.Missing) > 0 || !strings.Contains(r.Next, "no secret") {
		t.Errorf("without a secret: %+v", r)
	}
}

// TestRotate: an agent reads its file again upon SIGHUP, and no secret is shown.
func TestRotate(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	const first, second = "kQ7vXw2-first-hB9zLm4TgY8s", "pR3nDc6-second-jF5aVu1WeK0x"
	path := filepath.Join(b.dir, "key")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first + "\n")
	socket := filepath.Join(b.dir, "other")
	p := b.command("agent", "--socket", socket, "--bind", "127.0.0.1:0", "--expect", "1")
	p.Env = append(p.Env, "LOCKMESH_SECRET_FILE="+path)
	p.start()
	shown := func(text string) func() bool {
		return func() bool {
			c := b.command("-a", socket, "rotate")
			c.run()
			all := c.out.String() + p.err.String()
			if strings.Contains(all, "hB9zLm4") || strings.Contains(all, "jF5aVu1") {
				t.Fatalf("a secret is shown: %s", all)
			}
			return strings.Contains(c.out.String(), text)
		}
	}
	testwait.Until(t, "one secret", shown("to begin"))
	for _, step := range []struct{ file, want string }{
		{first + "\n" + second + "\n", "go on with step 2"},
		{second + "\n" + first + "\n", "go on with step 2, or with step 3"},
		{second + "\n", "to begin"},
	} {
		write(step.file)
		p.signal(syscall.SIGHUP)
		testwait.Until(t, step.want, shown(step.want))
	}
	write("short\n")
	p.signal(syscall.SIGHUP)
	p.complains("the secrets stay as they are")
	testwait.Until(t, "one secret", shown("to begin"))
	p.signal(sigTerm)
	if code := p.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d: %s", code, p.err.String())
	}
}

// TestHangupWhileTheAgentStarts: by default SIGHUP ends a process.
func TestHangupWhileTheAgentStarts(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	socket := filepath.Join(b.dir, "other")
	p := b.start("agent", "--socket", socket, "--expect", "1")
	testwait.Until(t, "a socket", func() bool { _, err := os.Stat(socket); return err == nil })
	testwait.Until(t, "an answer", func() bool {
		for range 10 {
			p.signal(syscall.SIGHUP)
		}
		return b.command("-a", socket, "--timeout", "10ms", "status").run() == 0
	})
	p.signal(sigTerm)
	if code := p.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d: %s", code, p.err.String())
	}
}
