package proctest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// patience bounds every wait. Only a hang takes so long, even under the race detector on a busy
// machine.
const patience = 2 * time.Minute

// line is an event as printed by locknode, without the fields that no test reads.
type line struct {
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Addr     string    `json:"addr"`
	Op       string    `json:"op"`
	Key      string    `json:"key"`
	Token    uint64    `json:"token"`
	Deadline time.Time `json:"deadline"`
	Is       []string  `json:"is"`
	Text     string    `json:"text"`

	Version uint64   `json:"version"`
	Names   []string `json:"names"`
	Joint   bool     `json:"joint"`
	Voter   bool     `json:"voter"`

	Voters map[string]string `json:"voters"`
	Status struct {
		Members []struct{ Name, Addr, State string }
		Held    []struct{ Key string }

		Handshakes struct{ Silent, Displaced uint64 }
		Refused    []struct{ Name, Reason string }
		Secrets    []secretUse

		Electorate struct {
			DirID  uint64
			Ready  bool
			Voters []voterStatus
		}
	} `json:"status"`
}

// secretUse is the part of a status about a secret.
type secretUse struct {
	ID                 string
	AcceptedBy, SentBy []string
}

// voterStatus is the part of a status about a voter.
type voterStatus struct{ Name, Text string }

// process is a locknode. Its methods are called by the test's goroutine.
type process struct {
	t     *testing.T
	name  string
	start time.Time // before the process existed
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process has ended and all its output is read

	mu     sync.Mutex
	lines  []line
	log    strings.Builder
	recent []shown       // the last lines of events and log, for a failed test
	news   chan struct{} // closed and replaced at each new output
	seen   int           // lines before this index have been taken by await

	logged int // bytes of the log before this index have been taken by said
}

// own makes a secret specific to the test and the process; "" stays no secret. No two meshes of
// tests share a secret: a node may be given the port of a dead node of another mesh, while the
// peers of the dead node still dial this port. With a common secret the two meshes would become a
// single mesh.
func own(t *testing.T, secret string) string {
	if secret == "" {
		return ""
	}
	top, _, _ := strings.Cut(t.Name(), "/") // a subtest's process may belong to the test's mesh
	return fmt.Sprintf("%s, %s in process %d", secret, top, os.Getpid())
}

// launch starts a locknode that obeys commands and has a secret of the test; "" is none. The
// process is killed at the end of the test, at the latest.
func launch(t *testing.T, name, secret string, args ...string) *process {
	t.Helper()
	return launchProgram(t, program, name, secret, args...)
}

// launchProgram is launch with a locknode of another version.
func launchProgram(t *testing.T, program, name, secret string, args ...string) *process {
	t.Helper()
	sampled.Waits(t)
	args = append([]string{"-name", name, "-json", "-trace", "-commands", "-log", "info"}, args...)
	p := &process{t: t, name: name, start: time.Now(), cmd: exec.Command(program, args...), ended: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "LOCKMESH_SECRET="+own(t, secret))
	stdin, err := p.cmd.StdinPipe()
	p.must(err)
	stdout, err := p.cmd.StdoutPipe()
	p.must(err)
	stderr, err := p.cmd.StderrPipe()
	p.must(err)
	p.stdin = stdin
	p.must(p.cmd.Start())
	var readers sync.WaitGroup
	readers.Go(func() { p.read(stdout, p.takeLine) })
	readers.Go(func() { p.read(stderr, p.takeLog) })
	go func() { // ends with the process; cleanup waits for this goroutine
		readers.Wait()
		_ = p.cmd.Wait() // the outcome is read from ProcessState
		close(p.ended)
		p.stir(func() {})
	}()
	t.Cleanup(p.cleanup)
	return p
}

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *process) read(r io.Reader, take func(string)) {
	for s := bufio.NewScanner(r); s.Scan(); {
		take(s.Text())
	}
	// Read on after a line too long for the scanner, so that the process isn't blocked.
	_, _ = io.Copy(io.Discard, r)
}

func (p *process) takeLine(text string) {
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		l = line{Event: "unreadable", Text: fmt.Sprintf("%v in %s", err, text)}
	}
	p.stir(func() {
		p.lines = append(p.lines, l)
		if l.Event != "extended" { // renewals are too frequent
			p.note(shown{text: l.text(), event: true})
		}
	})
}

func (p *process) takeLog(text string) {
	p.stir(func() {
		p.log.WriteString(text + "\n")
		p.note(shown{text: text})
	})
}

// stir changes the known state of the process and wakes the waiting test.
func (p *process) stir(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.news)
	p.news = make(chan struct{})
}

// cleanup ends the process, and logs its last lines if the test has failed.
func (p *process) cleanup() {
	// Kill ends a stopped process, too; an error means that the process has ended.
	_ = p.cmd.Process.Kill()
	<-p.ended
	if !p.t.Failed() {
		return
	}
	p.t.Logf("the last lines of %s (process %d, %v):\n%s",
		p.name, p.cmd.Process.Pid, p.cmd.ProcessState, lastOf(p.recent))
}

// shown is a line of a process's output: an event, or a line of its log.
type shown struct {
	text  string
	event bool
}

func lastOf(lines []shown) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// recentMost is the number of a process's last lines logged after a failure. The awaited condition
// comes first, and the output of some ten processes in a minute would bury the condition.
const recentMost = 40

// note keeps a line of the process's output for a failed test. If there are many lines, half are
// events and half are of the log, so that neither buries the other.
func (p *process) note(l shown) {
	if len(p.recent) == recentMost {
		events := 0
		for _, s := range p.recent {
			if s.event {
				events++
			}
		}
		i := slices.IndexFunc(p.recent, func(s shown) bool { return s.event == (events > recentMost/2) })
		p.recent = slices.Delete(p.recent, i, i+1)
	}
	p.recent = append(p.recent, l)
}

// text formats an event for a failed test.
func (l line) text() string {
	about := l.Text
	if l.Event == "electorate" {
		about = fmt.Sprintf("version %d of %v, joint %t, voter %t; %s",
			l.Version, l.Names, l.Joint, l.Voter, l.Text)
	}
	return fmt.Sprintf("%s %-9s %s %s %d %v %v %s",
		l.At.Format("15:04:05.000"), l.Event, l.Op, l.Key, l.Token, l.Is, l.Voters, about)
}

// said returns the lines logged by the process since the last call.
func (p *process) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(p.log.String()[p.logged:]), "\n")
	p.logged = p.log.Len()
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

// neverLogged fails the test if a line of the process's log has the words.
func (p *process) neverLogged(words string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for text := range strings.Lines(p.log.String()) {
		if strings.Contains(text, words) {
			p.t.Errorf("%s has logged a line that no process should: %s", p.name, text)
		}
	}
}

// kill ends the process as kill -9 does, and returns when all output has been read.
func (p *process) kill() time.Time {
	p.t.Helper()
	p.must(p.cmd.Process.Kill())
	at := time.Now()
	<-p.ended
	return at
}

// exitCode waits for the process to end by itself.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended within %v", p.name, patience)
		return -1
	}
}

// tell gives the process a command, and returns the time.
func (p *process) tell(command string) time.Time {
	p.t.Helper()
	at := time.Now()
	_, err := io.WriteString(p.stdin, command+"\n")
	p.must(err)
	return at
}

// until waits until check returns true. check is called at each new output, with the process
// locked, and must read nothing but the output: nothing else would cause another call. See onDisk.
func (p *process) until(what string, check func() bool) {
	p.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		ok, news := check(), p.news
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.ended:
			// All output is here by now, so a last check decides.
			p.mu.Lock()
			ok = check()
			p.mu.Unlock()
			if !ok {
				p.t.Fatalf("%s has ended (%v); the test waited for: %s", p.name, p.cmd.ProcessState, what)
			}
			return
		case <-news:
		case <-limit.C:
			p.t.Fatalf("%s: waited %v for: %s", p.name, patience, what)
		}
	}
}

// await returns the next line that matches, after the lines awaited before.
func (p *process) await(what string, wanted func(line) bool) (found line) {
	p.t.Helper()
	p.until(what, func() bool {
		i := slices.IndexFunc(p.lines[p.seen:], wanted)
		if i < 0 {
			return false
		}
		found = p.lines[p.seen+i]
		p.seen += i + 1
		return true
	})
	return found
}

// forget skips all output until now: the next await finds later lines only.
func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = len(p.lines)
}

// awaitEvent returns the next event of a kind about a key; "" is any key.
func (p *process) awaitEvent(event, key string) line {
	p.t.Helper()
	return p.await(fmt.Sprintf("event %q, key %q", event, key), func(l line) bool { return l.Event == event && (key == "" || l.Key == key) })
}

// onDisk waits for a file written by the process. A write isn't output of the process, so onDisk
// polls check.
func (p *process) onDisk(what string, check func() bool) {
	p.t.Helper()
	limit, again := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer again.Stop()
	for !check() {
		select {
		case <-again.C:
		case <-p.ended:
			p.t.Fatalf("%s has ended (%v); the test waited for: %s", p.name, p.cmd.ProcessState, what)
		case <-limit.C:
			p.t.Fatalf("%s: waited %v for: %s", p.name, patience, what)
		}
	}
}

// reached waits for an event that an incarnation prints once: "listening", "ready", "settled" or
// "left". Old lines count as well: readiness, and the grant of a lock requested before, come in
// either order.
func (p *process) reached(event string) (found line) {
	p.t.Helper()
	p.until(fmt.Sprintf("event %q", event), func() bool {
		i := slices.IndexFunc(p.lines, func(l line) bool { return l.Event == event })
		if i >= 0 {
			found = p.lines[i]
		}
		return i >= 0
	})
	return found
}

// awaitError returns the next error of an operation; "" is any operation.
func (p *process) awaitError(op, is string) line {
	p.t.Helper()
	return p.await(fmt.Sprintf("error %q of %q", is, op), func(l line) bool {
		return l.Event == "error" && (op == "" || l.Op == op) && slices.Contains(l.Is, is)
	})
}

// awaitLog waits until a line of the log has all the words. Old lines count as well.
func (p *process) awaitLog(words ...string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a line with %q in the log", words), func() bool {
		for text := range strings.Lines(p.log.String()) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				return true
			}
		}
		return false
	})
}

// awaitVoter waits until this process sees a voter in a state. The newest line about voters counts,
// however old.
func (p *process) awaitVoter(name, state string) {
	p.t.Helper()
	p.until(fmt.Sprintf("voter %s %s", name, state), func() bool {
		for _, l := range slices.Backward(p.lines) {
			if l.Event == "voters" {
				return l.Voters[name] == state
			}
		}
		return false
	})
}

// awaitElectorate waits until the newest electorate known to the process has the named voters, and
// isn't joint. The newest line about electorates counts, however old.
func (p *process) awaitElectorate(names ...string) (found line) {
	p.t.Helper()
	p.until(fmt.Sprintf("electorate of %v", names), func() bool {
		for _, l := range slices.Backward(p.lines) {
			if l.Event == "electorate" {
				found = l
				return !l.Joint && slices.Equal(l.Names, names)
			}
		}
		return false
	})
	return found
}

// dirID returns the identity of the process's state directory.
func (p *process) dirID() uint64 {
	p.t.Helper()
	p.forget()
	p.tell("status")
	return p.awaitEvent("status", "").Status.Electorate.DirID
}

// lock takes a key that is about to be free.
func (p *process) lock(key string) line {
	p.t.Helper()
	p.tell("lock " + key)
	return p.awaitEvent("granted", key)
}

// queued requests a key held by another node, and returns when the voters know the request: the
// voters have answered a TryLock sent later over the same ordered streams.
func (p *process) queued(key string) {
	p.t.Helper()
	p.tell("lock " + key)
	p.awaitEvent("waiting", key)
	p.tell("trylock " + key)
	p.awaitError("trylock", "held")
}

// renewed waits until a lease taken after the last awaited line was extended a few times, and
// returns its deadline so far.
func (p *process) renewed(key string, times int) (deadline time.Time) {
	p.t.Helper()
	for range times {
		deadline = p.awaitEvent("extended", key).Deadline
	}
	return deadline
}

// lastDeadline returns the latest deadline of a lease printed by the process: the lease can't have
// ended before.
func (p *process) lastDeadline(token uint64) (latest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.Token == token && l.Deadline.After(latest) {
			latest = l.Deadline
		}
	}
	return latest
}

// none fails the test if the process has ever printed an event of a kind.
func (p *process) none(event string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.Event == event {
			p.t.Errorf("%s printed %q for %s %q: %v %s", p.name, event, l.Op, l.Key, l.Is, l.Text)
		}
	}
}

// onLog waits for a line of the process's log.
func (p *process) onLog(what string, wanted func(text string) bool) {
	p.t.Helper()
	p.until("the log: "+what, func() bool {
		return slices.ContainsFunc(strings.Split(p.log.String(), "\n"), wanted)
	})
}
