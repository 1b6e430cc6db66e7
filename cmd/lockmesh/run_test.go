//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestExitCodes(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.dir, "text"), []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for code, command := range map[int][]string{
		0:   {"true"},
		3:   {"sh", "-c", "exit 3"},
		79:  {"sh", "-c", "exit 79"},
		143: {"sh", "-c", "kill -TERM $$"},
		137: {"sh", "-c", "kill -KILL $$"},
		130: {"sh", "-c", "kill -INT $$"},
		126: {"./text"},
		127: {"no-such-command"},
	} {
		b.wants(code, append([]string{"run", "k", "--"}, command...)...)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "script"), []byte("exit $(($1+1))\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.wants(4, "run", "k", "--", "./script", "3") // without a line #!, by sh as execvp does
	b.wants(126, "run", "k", "--", "./directory")
	b.wants(126, "run", "k", "--", "text") // found by PATH, and no other file
	b.wants(127, "run", "k", "--", "directory")
	for _, flag := range []string{"-c", "--command", "--shell"} {
		b.wants(5, "run", "--close", "k", flag, "exit 5")
	}
	for _, args := range [][]string{
		{"run", "k"}, {"run", "--", "true"}, {"run", "k", "--no-such-flag", "--", "true"},
		{"run", "k", "-c", "true", "--", "true"}, {"run", "-w", "soon", "k", "--", "true"},
		{"run", "-n", "-w", "1s", "k", "--", "true"}, {"run", "-s", "--permits", "2", "k", "--", "true"},
		{"run", "-s", "-x", "k", "--", "true"}, {"run", "-w", "1e1", "k", "--", "true"},
		{"run", "-E", "256", "k", "--", "true"}, {"run", "--grace", "8s", "k", "--", "true"},
		{"run", strings.Repeat("k", 2000), "--", "true"}, {"no-such-verb"}, {"ls", "--", "x", "y", "z"},
		{"evict", "k"}, {"recover", "a"}, {"lead", "k"},
	} {
		if p := b.wants(64, args...); !strings.HasPrefix(p.err.String(), "lockmesh: ") {
			t.Errorf("%q: the complaint is %q", args, p.err.String())
		}
	}
	for text, args := range map[string][]string{
		"--permits 0: a semaphore has at least one permit":  {"run", "--permits", "0", "k", "--", "true"},
		"--permits -2: a semaphore has at least one permit": {"lock", "--permits", "-2", "k"},
		"-w -1s: a wait is not negative":                    {"run", "-w", "-1", "k", "--", "true"},
		"-w -500ms: a wait is not negative":                 {"run", "--wait", "-.5s", "k", "--", "true"},
		"--limit -1 is negative":                            {"ls", "--limit", "-1"},
		"--ttl -3s: a lease has a positive length":          {"lock", "k", "--ttl", "-3s"},
	} {
		if p := b.wants(64, args...); p.err.String() != "lockmesh: "+text+"\n" {
			t.Errorf("%q: the complaint is %q", args, p.err.String())
		}
	}
	for _, row := range []struct {
		code int
		text string
		args []string
	}{
		{64, "--ttl 1ms is less than 200ms", []string{"run", "--ttl", "1ms", "k", "--", "true"}},
		{64, "the voters keep a key for the mesh's MaxTTL at most", []string{"lock", "k", "--ttl", "10h"}},
		{78, "write ./NAME for a socket in the present directory", []string{"-a", "a.sock", "ls"}},
		{1, "doesn't hold the key (lockmesh inspect shows the holders with their tokens)", []string{"evict", "k", "--node", "zz"}},
	} {
		if p := b.wants(row.code, row.args...); !strings.Contains(p.err.String(), row.text) {
			t.Errorf("%q: the complaint is %q", row.args, p.err.String())
		}
	}
	b.wants(64, "lock", "--value=x", "-1", "k") // no negative number of a flag
	b.wants(69, "-a", "/nowhere/s", "run", "k", "--", "true")
	b.wants(69, "-a", "http://127.0.0.1:1", "status")
	b.wants(78, "-a", "ftp://x", "status")
	b.wants(0, "ls") // all keys are free
	if p := b.wants(0, "ls", "-o", "json"); p.out.String() != "" {
		t.Errorf("keys are left: %s", p.out.String())
	}
}

// TestOptionsOfFlockAreExplained: docs/command.md names the replacement of each option.
func TestOptionsOfFlockAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "### Compared with flock(1)")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, option := range strings.Fields("-s --shared -x -e --exclusive -u --unlock -n --nb --nonblock -w --wait --timeout " +
		"-E --conflict-exit-code -o --close -c --command -F --no-fork --fcntl --verbose -h --help -V --version") {
		if !strings.Contains(table, "`"+option+"`") {
			t.Errorf("nothing is said of %s", option)
		}
	}
}

func TestEnvironmentAndPipes(t *testing.T) {
	b := newBench(t)
	p := b.shell(`set -eo pipefail
printf 'one\ntwo\n' | lockmesh run b a -- sh -c 'cat; env' | sort
if lockmesh run k -- false; then echo wrong; fi
lockmesh run k -- sh -c 'echo to stderr >&2; exit 4' || echo "code $?"
lockmesh run k -- false
echo not reached`)
	if code := p.run(); code != 1 {
		t.Errorf("the script ends with %d: %s", code, p.err.String())
	}
	out := p.out.String()
	for _, line := range []string{"one", "two", "LOCKMESH_KEY=a", "LOCKMESH_NODE=", "LOCKMESH_TOKEN=", "LOCKMESH_TOKENS=", "code 4"} {
		if !strings.Contains("\n"+out, "\n"+line) {
			t.Errorf("no line %q in %s", line, out)
		}
	}
	if strings.Contains(out, "not reached") || strings.Contains(out, "wrong") || p.err.String() != "to stderr\n" {
		t.Errorf("the script prints %s and complains %s", out, p.err.String())
	}
}

func TestLocksOfARun(t *testing.T) {
	b := newBench(t)
	first, in := b.startPiped("run", "b", "a", "--", "sh", "-c", "echo runs; read x")
	first.prints("runs")
	b.wants(75, "run", "-n", "a", "--", "true")
	b.wants(75, "run", "-w", "0.05", "b", "--", "true")
	b.wants(9, "run", "-E", "9", "-n", "c", "b", "--", "true")
	b.wants(0, "run", "-n", "c", "--", "true") // c was released, as b was held
	p := b.wants(75, "run", "-n", "a", "--", "true")
	if text := p.err.String(); !strings.Contains(text, "held by") || !strings.Contains(text, " sh)") || strings.Contains(text, "GET") {
		t.Errorf("the complaint is %s", text)
	}
	waiting := b.start("run", "a", "--", "echo", "had")
	testwait.Until(t, "the second waits", func() bool { return b.waiters("a") > 0 })
	in.Close()
	if first.waitInTime() != 1 || waiting.waitInTime() != 0 || waiting.out.String() != "had\n" {
		t.Errorf("the waiting run prints %q", waiting.out.String())
	}

	shared, sharedIn := b.startPiped("run", "-s", "s", "--", "sh", "-c", "echo runs; read x")
	shared.prints("runs")
	b.wants(0, "run", "-ns", "s", "--", "true")
	b.wants(75, "run", "-n", "s", "--", "true")
	sharedIn.Close()

	for range 2 {
		permit, _ := b.startPiped("run", "--permits", "2", "p", "--", "sh", "-c", "echo runs; read x")
		permit.prints("runs")
	}
	b.wants(75, "run", "-n", "--permits", "2", "p", "--", "true")
	b.wants(64, "run", "-n", "--permits", "3", "p", "--", "true")
}

// TestALostKeyEndsTheWaitForTheNext: another process may have the first key while the second is
// waited for. No command is started then, and no token is printed.
func TestALostKeyEndsTheWaitForTheNext(t *testing.T) {
	b := newBench(t)
	second, _ := b.startPiped("lock", "b")
	second.prints(" b\n")
	for _, args := range [][]string{
		{"run", "a", "b", "--", "touch", "started"},
		{"run", "-w", "1h", "a", "b", "--", "touch", "started"},
		{"lock", "a", "b"},
		{"lock", "-o", "json", "b", "a"},
	} {
		p, _ := b.startPiped(args...)
		testwait.Until(t, "a wait for the second key", func() bool { return b.waiters("b") > 0 })
		b.wants(0, "evict", "a", "--node", b.node(), "--reason", "stuck since noon")
		code := p.waitInTime()
		if text := p.err.String(); code != 79 || p.out.String() != "" || !strings.Contains(text, `"a"`) || !strings.Contains(text, "stuck since noon") {
			t.Errorf("%q ends with %d, prints %q and complains %s", args, code, p.out.String(), text)
		}
		testwait.Until(t, "no request is left", func() bool { return b.waiters("b") == 0 })
		b.wants(0, "run", "-n", "a", "--", "true")
	}
	if _, err := os.Stat(filepath.Join(b.dir, "started")); err == nil {
		t.Error("a command was started without its first lock")
	}
}

// TestASilentAgentEndsTheWait: a node that doesn't answer, as on a hung machine, keeps no process
// that was told how long to wait.
func TestASilentAgentEndsTheWait(t *testing.T) {
	b := newBench(t)
	b.agent.signal(syscall.SIGSTOP)
	for _, args := range [][]string{
		{"run", "-n", "--timeout", "100ms", "k", "--", "touch", "started"},
		{"run", "-w", "0.1", "--timeout", "100ms", "k", "--", "touch", "started"},
		{"lock", "-n", "--timeout", "100ms", "k"},
		{"lock", "-w", "100ms", "--timeout", "100ms", "k"},
	} {
		if text := b.wants(69, args...).err.String(); !strings.Contains(text, "no node answers: the node sent no answer within 100ms") {
			t.Errorf("%q complains %s", args, text)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "started")); err == nil {
		t.Error("a command was started without a lock")
	}
	b.agent.signal(syscall.SIGCONT)
	b.wants(0, "run", "k", "--", "true")
}

// TestAGraceTooLong: is refused before the wait for the lock, which may take hours.
func TestAGraceTooLong(t *testing.T) {
	b := newBench(t)
	holder, in := b.startPiped("lock", "k")
	holder.prints(" k\n")
	for _, c := range []struct{ flags, longest string }{
		{"--grace 6001ms", "6s"}, // a fifth of the agent's TTL
		{"--grace 2001ms --ttl 10s", "2s"},
	} {
		for verb, args := range map[string]string{"run": "run k", "lead": "lead k"} {
			p := b.wants(64, append(strings.Fields(args+" "+c.flags), "--", "true")...)
			if text := p.err.String(); !strings.Contains(text, "at most a fifth of the lease, "+c.longest+";") {
				t.Errorf("%s %s complains %s", verb, c.flags, text)
			}
		}
	}
	in.Close()
	b.wants(0, "run", "--grace", "6s", "k", "--", "true")
	b.wants(0, "run", "--grace", "2s", "--ttl", "10s", "k", "--", "true")
}

func TestLock(t *testing.T) {
	b := newBench(t)
	p := b.command("lock", "k", "j")
	in := p.pipe(b)
	p.start()
	p.prints(" k\n")
	b.wants(75, "run", "-n", "j", "--", "true")
	in.Close()
	if code := p.waitInTime(); code != 0 {
		t.Errorf("lock ends with %d: %s", code, p.err.String())
	}
	b.wants(0, "run", "-n", "k", "j", "--", "true")

	p = b.command("lock", "-o", "json", "k")
	p.pipe(b)
	p.start()
	p.prints(`"key":"k"`)
	b.wants(0, "evict", "k", "--node", b.node())
	if code := p.waitInTime(); code != 79 {
		t.Errorf("an evicted lock ends with %d: %s", code, p.err.String())
	}

	s := b.shell(`coproc lockmesh lock backup
read -r token key <&"${COPROC[0]}" || exit
echo "$key"; lockmesh run -n backup -- true; echo "$?"
eval "exec ${COPROC[1]}>&-"; wait "$COPROC_PID"; echo "$?"
lockmesh run -n backup -- echo again`)
	if code := s.run(); code != 0 || s.out.String() != "backup\n75\n0\nagain\n" {
		t.Errorf("the script ends with %d: %s%s", code, s.out.String(), s.err.String())
	}
}

func TestLead(t *testing.T) {
	b := newBench(t)
	first := b.start("lead", "boss", "--pause", "10ms", "--", "sh", "-c", "echo first leads; sleep 1000")
	first.prints("leads")
	second := b.start("lead", "boss", "--", "sh", "-c", "echo second leads; sleep 1000")
	testwait.Until(t, "the second waits", func() bool { return b.waiters("boss") > 0 })
	b.wants(0, "evict", "boss", "--node", b.node())
	second.prints("second leads")
	testwait.Until(t, "the first campaigns again", func() bool { return b.waiters("boss") > 0 })
	second.signal(sigTerm)
	if code := second.waitInTime(); code != 143 {
		t.Errorf("the second ends with %d: %s", code, second.err.String())
	}
	testwait.Until(t, "the first leads again", func() bool { return strings.Count(first.out.String(), "leads") == 2 })
	first.signal(sigTerm)
	if code := first.waitInTime(); code != 143 {
		t.Errorf("the first ends with %d: %s", code, first.err.String())
	}
	// A command that has ended is started again at its next turn, whatever its code.
	for _, last := range []string{"exit 1", "exit 64", "exit 78", "exit 126", "no-such-command"} {
		again := b.start("lead", "boss", "--pause", "1ms", "--", "sh", "-c", "echo leads; "+last)
		testwait.Until(t, "several turns", func() bool { return strings.Count(again.out.String(), "leads") >= 3 })
		again.signal(sigTerm)
		again.waitInTime()
	}
	b.wants(1, "lead", "boss", "--once", "--", "false")
	b.wants(78, "lead", "boss", "--once", "--", "sh", "-c", "exit 78")
	b.wants(127, "lead", "boss", "--", "no-such-command")
}

// TestLeadKeepsNoConnections: campaigns leave nothing behind, in this process and in the agent.
func TestLeadKeepsNoConnections(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	lead := b.start("lead", "boss", "--pause", "0s", "--", "echo", "leads")
	turns := func(n int) {
		t.Helper()
		testwait.Until(t, "several turns", func() bool { return strings.Count(lead.out.String(), "leads") >= n })
	}
	turns(5)
	leads, agents := lead.openFiles(), b.agent.openFiles()
	turns(100)
	// A busy machine may close the connections of several turns late.
	const few = 20 // of a turn under way
	testwait.Until(t, "lead and the agent have few files open after 100 turns", func() bool {
		n, m := lead.openFiles(), b.agent.openFiles()
		return n > 0 && n <= leads+few && m > 0 && m <= agents+few
	})
	lead.signal(sigTerm)
	lead.waitInTime()
}

// TestLeadAfterAReload: a signal that the command handles, as many do with HUP, doesn't end lead
// at the next loss. The command's end by the signal does, and so does a TERM.
func TestLeadAfterAReload(t *testing.T) {
	b := newBench(t)
	const script = `trap "echo reloaded" HUP; trap "exit 0" TERM; echo leads; while :; do sleep 0.01; done`
	reloads := b.start("lead", "boss", "--pause", "1ms", "--", "sh", "-c", script)
	reloads.prints("leads")
	reloads.signal(syscall.SIGHUP)
	reloads.prints("reloaded")
	b.wants(0, "evict", "boss", "--node", b.node())
	testwait.Until(t, "a further turn", func() bool { return strings.Count(reloads.out.String(), "leads") == 2 })
	reloads.signal(sigTerm)
	if code := reloads.waitInTime(); code != 0 {
		t.Errorf("after a TERM, lead ends with %d: %s", code, reloads.err.String())
	}
	for trap, want := range map[string]int{"": 129, "trap 'exit 3' HUP; ": 3} {
		p := b.start("lead", "boss", "--pause", "1ms", "--grace", "5s", "--", "sh", "-c", trap+"echo leads; while :; do sleep 0.01; done")
		p.prints("leads")
		p.signal(syscall.SIGHUP)
		if code := p.waitInTime(); code != want || strings.Count(p.out.String(), "leads") != 1 {
			t.Errorf("%q: lead ends with %d: %s", trap, code, p.out.String())
		}
	}
}
