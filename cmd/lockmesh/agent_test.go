//go:build unix

package main

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// TestAgentEnds: upon a signal, or the verb stop, the agent ends in good order.
func TestAgentEnds(t *testing.T) {
	b := newBench(t)
	for name, end := range map[string]func(){
		"SIGTERM": func() { b.agent.signal(syscall.SIGTERM) },
		"SIGINT":  func() { b.agent.signal(syscall.SIGINT) },
		"stop":    func() { b.wants(0, "stop") },
		"leave":   func() { b.command("leave").run() }, // the only voter can't be voted out
	} {
		run := b.start("run", "k", "--", "sh", "-c", "echo ready; exec sleep 1000")
		run.prints("ready")
		end()
		if code := b.agent.waitInTime(); code != 0 {
			t.Errorf("%s: the agent ends with %d: %s", name, code, b.agent.err.String())
		}
		if code := run.waitInTime(); code != 79 {
			t.Errorf("%s: the run ends with %d: %s", name, code, run.err.String())
		}
		if _, err := os.Stat(b.socket); !os.IsNotExist(err) {
			t.Errorf("%s: the socket is left", name)
		}
		b.startAgent()
	}
	b.wants(0, "status")
	holder, in := b.startPiped("lock", "k")
	holder.prints("k")
	text := b.wants(75, "drain", "-w", "1ms").err.String()
	if strings.Contains(text, "-n") || !strings.Contains(text, "wait longer with -w TIME") { // drain has no -n
		t.Errorf("drain of a node with a lock says %s", text)
	}
	in.Close()
	b.wants(0, "drain")
	b.wants(69, "run", "k", "--", "true")
	text = b.wants(69, "status").out.String()
	if !strings.Contains(text, ", which takes no more locks\n") || !strings.Contains(text, "locks can be granted to other nodes:") {
		t.Errorf("the status of a drained node is %s", text)
	}
	b.wants(69, "status", "-o", "json")
	b.wants(0, "electorate") // the voters can grant locks
}

// TestAnAgentWhoseLogIsNotReadEnds: a log that isn't read, as of a stopped pager, stops no lock
// and no end.
func TestAnAgentWhoseLogIsNotReadEnds(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	fd := int(w.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.Write(fd, []byte{'x'})
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	p := b.command("agent", "--socket", b.socket, "--bind", "127.0.0.1:0", "--expect", "1", "--max-ttl", calm)
	p.Stderr = w
	p.start()
	grants(t, b.socket)
	b.wants(0, "run", "k", "--", "true")
	p.signal(syscall.SIGTERM)
	if code := p.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d", code)
	}
}

// TestAgentRestarts: the next agent takes over the socket of a killed agent, and is quiet at
// first.
func TestAgentRestarts(t *testing.T) {
	alone := []string{"--expect", "1", "--max-ttl", "2s"} // the restarted agent is quiet for so long
	b := newBench(t, alone...)
	b.agent.signal(syscall.SIGKILL)
	b.agent.waitInTime()
	b.wants(69, "run", "k", "--", "true")
	b.startAgent(alone...)
	b.wants(0, "run", "k", "--", "true")
	second := b.command("agent", "--socket", b.socket, "--expect", "1")
	if code := second.run(); code != 78 || !strings.Contains(second.err.String(), "--socket") {
		t.Errorf("a second agent ends with %d: %s", code, second.err.String())
	}
	b.wants(0, "run", "k", "--", "true")
}

func TestAgentsSettings(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	long := filepath.Join(b.dir, "token")
	if err := os.WriteFile(long, []byte(strings.Repeat("t", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, args string
		code      int
		text      string
	}{
		{"", "", 78, "Voters: the list is empty"},
		{"", "", 78, "(--voters or LOCKMESH_VOTERS)"},
		{"", "--expect 3 --bind :0", 78, "Secret: it is empty while "},
		{"", "--expect 3 --bind :0", 78, "(LOCKMESH_SECRET or LOCKMESH_SECRET_FILE has the secret, and lockmesh keygen makes one; Insecure is --insecure)"},
		{"LOCKMESH_SECRET=short", "--expect 3", 78, "(LOCKMESH_SECRET or LOCKMESH_SECRET_FILE has the secrets, "},
		{"LOCKMESH_SECRET=0123456789abcdef", "--expect 3", 78, "Secrets: secret 1 of 1: it can be guessed: "},
		{"", "--expect 3 --bind 127.0.0.1:0 --max-ttl 1ms", 78, "(--max-ttl or LOCKMESH_MAX_TTL)"},
		{"", "--voters a --bind 127.0.0.1:0 --name a --bootstrap", 78, "(--bootstrap or LOCKMESH_BOOTSTRAP)"},
		{"LOCKMESH_SECRET=a", "--secret b", 64, "unknown flag --secret"},
		{"LOCKMESH_SECRET_FILE=/nowhere", "--expect 3", 78, "LOCKMESH_SECRET_FILE"},
		{"LOCKMESH_EXPECT=three", "", 64, "expect"},
		{"", "--expect 1 --http 127.0.0.1:0", 78, "LOCKMESH_ADMIN_TOKEN"},
		{"LOCKMESH_ADMIN_TOKEN=short", "--expect 1 --http 127.0.0.1:0", 78, "LOCKMESH_ADMIN_TOKEN"},
		{"LOCKMESH_ADMIN_TOKEN_FILE=" + long, "--expect 1 --http nowhere", 78, "--http"},
		{"", "--expect 1 --socket none", 78, "--socket none needs --http or --resp"},
		{"", "--expect 1 --resp 127.0.0.1:0", 78, "LOCKMESH_RESP_PASSWORD"},
		{"LOCKMESH_RESP_PASSWORD=short", "--expect 1 --resp 127.0.0.1:0", 78, "LOCKMESH_RESP_PASSWORD"},
		{"", "--expect 1 --resp-open --resp nowhere", 78, "--resp"},
		{"", "--expect 1 --metrics nowhere", 78, "--metrics"},
		{"", "--expect 1 --metrics 127.0.0.1:99999", 78, "--metrics"},
		{"", "--expect 1 --socket none --metrics 127.0.0.1:0", 78, "--socket none needs --http or --resp"},
		{"", "--expect 1 --join a:1", 64, "--peers"},
		{"", "--expect 1 --dynamic", 78, "--state-dir"},
		{"", "--expect 1 --grace 0s", 64, "--grace"},
		{"", "--expect 3 --bind 127.0.0.1:0 --register locks", 78, "--register: \"locks\" is no register: name a ConfigMap by configmap:NAME"},
		{"", "--expect 3 --bind 127.0.0.1:0 --register http://a:b@host/x", 78, "use a bearer token"},
		{"KUBERNETES_SERVICE_HOST=", "--expect 3 --bind 127.0.0.1:0 --register configmap:x", 78, "doesn't run in a pod"},
		{"LOCKMESH_REGISTER_TOKEN=x", "--expect 3 --bind 127.0.0.1:0 --register configmap:x", 78, "LOCKMESH_REGISTER_TOKEN is for a register with a URL"},
		{"LOCKMESH_REGISTER_TOKEN_FILE=/nowhere", "--expect 3 --bind 127.0.0.1:0 --register http://host/b/m", 78, "LOCKMESH_REGISTER_TOKEN_FILE"},
		{"", "--name a --voters a --bind 127.0.0.1:0 --register http://host/b/m", 78, "Register"},
		{"", "--expect 1 --register http://host/b/m", 78, "a mesh of one process"},
		{"", "--expect 3 --bind 127.0.0.1:0 --register-term 5m", 78, "RegisterTerm"},
		{"", "--expect 3 --bind 127.0.0.1:0 --register http://host/b/m --register-term 5s", 78, "less than MaxTTL"},
		{"LOCKMESH_REGISTER_TERM=long", "--expect 3", 64, "register-term"},
		{"", "--expect 1 --socket /nowhere/s", 78, "/nowhere/s"},
	} {
		args := strings.Fields(c.args)
		if !strings.Contains(c.args, "--socket") {
			args = append(args, "--socket", filepath.Join(b.dir, "other"))
		}
		p := b.command(append([]string{"agent"}, args...)...)
		if c.env != "" {
			p.Env = append(p.Env, c.env)
		}
		if code := p.run(); code != c.code || !strings.Contains(p.err.String(), c.text) {
			t.Errorf("%s agent %s ends with %d: %s", c.env, c.args, code, p.err.String())
		}
	}
}

// TestAgentForRedisClientsAlone: an agent needs neither a socket nor HTTP.
func TestAgentForRedisClientsAlone(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	b.start("agent", "--expect", "1", "--bind", "127.0.0.1:0", "--socket", "none", "--resp", "127.0.0.1:0", "--resp-open").
		complains("the agent listens for Redis lock clients")
}

// TestAgentOverTCP: the token of the agent is needed, and enough.
func TestAgentOverTCP(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	addr := freeport.Address(t)
	const token = "0123456789abcdefghij"
	p := b.command("agent", "--socket", "none", "--http", addr, "--expect", "1", "--max-ttl", "1s")
	p.Env = append(p.Env, "LOCKMESH_ADMIN_TOKEN="+token)
	p.start()
	p.complains("the agent listens")
	run := func(token string) (int, string) {
		c := b.command("-a", "http://"+addr, "run", "k", "--", "true")
		c.Env = append(c.Env, "LOCKMESH_ADMIN_TOKEN="+token)
		return c.run(), c.err.String()
	}
	if code, text := run(token); code != 0 {
		t.Errorf("with the token: %d %s", code, text)
	}
	for _, wrong := range []string{"", "0123456789abcdefghik"} {
		if code, text := run(wrong); code != 78 || strings.Contains(text, token) {
			t.Errorf("with the token %q: %d %s", wrong, code, text)
		}
	}
	p.signal(sigTerm)
	p.waitInTime()
	if strings.Contains(p.err.String(), token) {
		t.Error("the log has the token")
	}
}

// TestSystemd: the service manager is notified that the agent is up, is alive, and ends.
func TestSystemd(t *testing.T) {
	t.Parallel()
	b := newRoom(t)
	path := filepath.Join(b.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := b.command("agent", "--socket", filepath.Join(b.dir, "other"), "--expect", "1")
	p.Env = append(p.Env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=20000")
	p.start()
	buf, beats := make([]byte, 100), 0
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"} {
		for {
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("%s didn't come: %v", want, err)
			}
			if string(buf[:n]) == want {
				break
			}
			if string(buf[:n]) != "WATCHDOG=1" {
				t.Fatalf("%q came before %s", buf[:n], want)
			}
		}
		if want == "WATCHDOG=1" {
			if beats++; beats == 2 {
				p.signal(sigTerm)
			}
		}
	}
	if code := p.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d: %s", code, p.err.String())
	}
}

// TestJoin: a process that joins for a moment acquires locks, and never votes.
func TestJoin(t *testing.T) {
	b := newBench(t, "--name", "a", "--voters", "a", "--max-ttl", brief, "-v")
	addr := strings.Fields(strings.TrimPrefix(b.wants(0, "status").out.String(), "node a at "))[0]
	join := func(args ...string) *process {
		return b.command(append([]string{"--join", addr, "--voters", "a", "--max-ttl", brief}, args...)...)
	}
	p := join("run", "k", "--", "sh", "-c", "echo $LOCKMESH_NODE; read x")
	in := p.pipe(b)
	p.start()
	p.prints("cli-")
	name := strings.TrimSpace(p.out.String())
	if text := b.wants(0, "inspect", "k").out.String(); !strings.Contains(text, name) {
		t.Errorf("the agent shows %s", text)
	}
	if text := b.wants(0, "electorate").out.String(); strings.Contains(text, name) {
		t.Errorf("the process votes: %s", text)
	}
	in.Close()
	if code := p.waitInTime(); code != 1 {
		t.Errorf("the run ends with %d: %s", code, p.err.String())
	}
	b.wants(0, "run", "-n", "k", "--", "true")
	// by a leave message, or by gossip on a busy machine
	testwait.Until(t, "gossip knows the end", func() bool {
		for line := range strings.Lines(b.wants(0, "members").out.String()) {
			if strings.HasPrefix(line, name) {
				return !strings.Contains(line, "alive")
			}
		}
		return true
	})
	if p = join("status"); p.run() != 0 {
		t.Errorf("status: %s", p.err.String())
	}
	if p = join("--voters", "b", "--timeout", "1s", "run", "k", "--", "true"); p.run() == 0 {
		t.Error("another list of voters is accepted")
	}
	if p = join("stop"); p.run() != 64 {
		t.Errorf("stop: %s", p.err.String())
	}
	if p = b.command("--join", addr, "run", "k", "--", "true"); p.run() != 78 || !strings.Contains(p.err.String(), "Voters") {
		t.Errorf("without voters: %s", p.err.String())
	}
}

// TestRedisClients: a lock taken by a Redis client and a lock of a shell exclude each other.
func TestRedisClients(t *testing.T) {
	const password = "kQ7vXw2-first-hB9zLm4TgY8s"
	t.Parallel()
	b := newRoom(t)
	addr, socket := freeport.Address(t), b.socket
	b.endWell()
	p := b.command("agent", "--socket", socket, "--expect", "1", "--max-ttl", calm, "--resp", addr)
	p.Env = append(p.Env, "LOCKMESH_RESP_PASSWORD="+password)
	p.start()
	p.complains("listens for Redis lock clients")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	wants := func(command, answer string) {
		t.Helper()
		if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, answer) {
			t.Fatalf("%s is answered with %q, %v", command, line, err)
		}
	}
	wants("SET k mine NX PX 20000", "-NOAUTH")
	wants("AUTH "+password, "+OK")
	wants("SET k mine NX PX 20000", "+OK")
	run := func(code int) {
		t.Helper()
		if c := b.command("-a", socket, "run", "-n", "k", "--", "true"); c.run() != code {
			t.Fatalf("the run doesn't end with %d: %s", code, c.err.String())
		}
	}
	run(75)
	wants("DEL k", ":1")
	run(0)
	p.signal(sigTerm)
	if code := p.waitInTime(); code != 0 || strings.Contains(p.err.String(), password) {
		t.Errorf("the agent ends with %d: %s", code, p.err.String())
	}
}
