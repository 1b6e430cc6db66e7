//go:build hunt

package proctest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/registerserver"
)

// rollouts is how often all pods are replaced, and defaultTTL the maximum TTL of most pods.
const (
	rollouts   = 10
	defaultTTL = 2 * time.Second
)

// Pods of examples/service are replaced as a Deployment replaces them. With a single pod more than
// the replicas at a time and none unavailable, more pods run than the promise without a register
// allows for, since terminating pods aren't counted. Without a surge no more run than that promise
// allows for, and there is no register. Under load no process waits for a lock for over a second,
// no lease of a live pod is lost, and no key has two holders.
func TestRolloutsOfADeployment(t *testing.T) {
	service := buildService(t)
	for _, s := range []strategy{{3, 1, 0}, {5, 1, 0}, {3, 0, 1}} {
		t.Run(fmt.Sprintf("%d replicas and surge %d and unavailable %d", s.replicas, s.maxSurge, s.maxUnavailable), func(t *testing.T) {
			d := newDeployment(t, service, s)
			d.roll("the start")
			d.startClient("client")
			d.measure = time.Now()
			for n := range rollouts {
				d.replaceAll(fmt.Sprintf("rollout %d", n+1))
			}
			d.judge()
			if d.register == "" && d.most > s.replicas+1 {
				t.Errorf("%d processes ran at once", d.most)
			}
		})
	}
}

// The secret is changed by the three steps of docs/changing-the-secret.md, each a rollout, under
// load: no lease of a live pod is lost, and no process waits for a lock for over a second. Then a
// process with the old secret isn't ready.
func TestTheSecretIsChangedByRollouts(t *testing.T) {
	service := buildService(t)
	older, newer := own(t, secret), own(t, another)
	for _, s := range []strategy{{3, 1, 0}, {3, 0, 1}} {
		t.Run(fmt.Sprintf("%d replicas and surge %d and unavailable %d", s.replicas, s.maxSurge, s.maxUnavailable), func(t *testing.T) {
			d := newDeployment(t, service, s)
			d.roll("the start")
			client := d.startClient("client-0")
			d.measure = time.Now()
			for n, secrets := range []string{older + "\n" + newer, newer + "\n" + older, newer} {
				d.secrets = secrets
				d.replaceAll(fmt.Sprintf("step %d", n+1))
				d.end(client) // a client belongs to the step, as a Deployment of its own
				client = d.startClient(fmt.Sprintf("client-%d", n+1))
			}
			d.secrets = older
			stranger := d.start("stranger", "LOCKMESH_NON_VOTING=true", "SERVICE_KEYS=stranger")
			d.until("the stranger is refused", func() bool { return stranger.logs("secret") })
			if stranger.ready() {
				t.Error("a process with the old secret is ready")
			}
			d.end(stranger)
			d.judge()
		})
	}
}

// The maximum TTL is raised and lowered by rollouts, under load: no lease of a live pod is lost,
// and no process waits for a lock for over a second. The register shows the longest value, so more
// pods may run than the promise without a register allows for.
func TestMaxTTLIsChangedByRolloutsOfProcesses(t *testing.T) {
	d := newDeployment(t, buildService(t), strategy{3, 1, 0})
	d.roll("the start")
	d.startClient("client")
	d.measure = time.Now()
	for _, maxTTL := range []time.Duration{3 * defaultTTL, defaultTTL} {
		d.maxTTL = maxTTL
		d.replaceAll("MaxTTL " + maxTTL.String())
		for _, p := range d.pods {
			d.until(p.name+" applies "+maxTTL.String(), func() bool {
				return p.logs("the electorate has changed", fmt.Sprintf(`"max_ttl":%d`, maxTTL))
			})
		}
	}
	d.judge()
}

// buildService builds examples/service.
func buildService(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "service.exe")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/lockmesh/lockmesh/examples/service").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// deployment plays the controller of a Deployment over real processes.
type deployment struct {
	t       *testing.T
	program string
	strategy
	peers    string        // a file with the addresses of all pods, as of a headless service
	register string        // its address; empty for none
	secrets  string        // of the pods started from now on, a line each
	maxTTL   time.Duration // of the pods started from now on
	env      []string      // more variables of all pods
	machine  *machine
	pods     []*pod
	every    []*pod // the client and dead pods included
	started  int
	measure  time.Time // waits from this time on are judged
	most     int       // the largest number of processes at a time
	// meanwhile is called in each turn of a rollout, once the states of the pods are known; may be
	// nil.
	meanwhile func()
}

func newDeployment(t *testing.T, program string, s strategy) *deployment {
	d := &deployment{t: t, program: program, strategy: s, peers: filepath.Join(t.TempDir(), "peers"), secrets: own(t, secret), maxTTL: defaultTTL, machine: watchMachine(t)}
	if s.maxSurge > 0 {
		server := httptest.NewServer(new(registerserver.Object))
		t.Cleanup(server.Close)
		d.register = server.URL + "/bucket/mesh.json"
	}
	d.publish()
	return d
}

// pod is a process of examples/service.
type pod struct {
	t     *testing.T
	name  string
	view  podView
	cmd   *exec.Cmd
	ended chan struct{}
	// killed is when the test killed the process; zero if it didn't.
	killed time.Time

	mu     sync.Mutex
	events []serviceEvent
	log    []string
}

// serviceEvent is a line printed by the service.
type serviceEvent struct {
	At                           time.Time
	Event, Addr, HTTP, Key, Text string
	Token                        uint64
	Waited                       float64 `json:"waited_s"`
}

// start starts a process, and returns once the process listens.
func (d *deployment) start(name string, env ...string) *pod {
	d.t.Helper()
	p := &pod{t: d.t, name: name, view: podView{isNew: true}, cmd: exec.Command(d.program), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(),
		"LOCKMESH_NAME="+name, "LOCKMESH_BIND=127.0.0.1:0", "LOCKMESH_PEERS=file:"+d.peers, "LOCKMESH_SECRET="+d.secrets, "LOCKMESH_EXPECT="+fmt.Sprint(d.replicas),
		"LOCKMESH_MAX_TTL="+d.maxTTL.String(), "SERVICE_HTTP=127.0.0.1:0", "SERVICE_KEYS=shared,own-"+name, "SERVICE_HOLD=20ms", "SERVICE_PAUSE=20ms")
	if d.register != "" {
		env = append(env, "LOCKMESH_REGISTER="+d.register)
	}
	p.cmd.Env = append(append(p.cmd.Env, d.env...), env...)
	stdout, err := p.cmd.StdoutPipe()
	p.must(err)
	stderr, err := p.cmd.StderrPipe()
	p.must(err)
	p.must(p.cmd.Start())
	var readers sync.WaitGroup
	readers.Go(func() { p.read(stdout) })
	readers.Go(func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.mu.Lock()
			p.log = append(p.log, s.Text())
			p.mu.Unlock()
		}
	})
	go func() {
		readers.Wait()
		_ = p.cmd.Wait() // the outcome is read from ProcessState
		close(p.ended)
	}()
	d.t.Cleanup(p.cleanup)
	d.every = append(d.every, p)
	d.until(name+" listens", func() bool { return p.first("listening").Addr != "" })
	return p
}

// startClient starts a process that never votes, and returns once the process is ready.
func (d *deployment) startClient(name string) *pod {
	d.t.Helper()
	client := d.start(name, "LOCKMESH_NON_VOTING=true", "SERVICE_KEYS=probe,shared,own-"+name)
	d.until(name+" works", client.ready)
	return client
}

// end tells a process to end, and waits for the end.
func (d *deployment) end(p *pod) {
	d.t.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
	d.until(p.name+" ends", p.hasEnded)
}

// logs reports whether the pod has logged a line with all these texts.
func (p *pod) logs(texts ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.log, func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

func (p *pod) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *pod) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		var e serviceEvent
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			e = serviceEvent{Event: "unreadable", Text: s.Text()}
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		p.mu.Unlock()
	}
}

func (p *pod) cleanup() {
	_ = p.cmd.Process.Kill() // an error means that the process has ended
	<-p.ended
	if p.t.Failed() {
		p.t.Logf("the last lines of %s (%v):\n%s", p.name, p.cmd.ProcessState, strings.Join(p.log[max(0, len(p.log)-recentMost):], "\n"))
	}
}

// first returns the first event of a kind; the zero event if there is none.
func (p *pod) first(event string) serviceEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Event == event {
			return e
		}
	}
	return serviceEvent{}
}

// ready queries the pod's probe.
func (p *pod) ready() bool {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + p.first("listening").HTTP + "/readyz?settled=1")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// hasEnded reports whether the process has ended.
func (p *pod) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// until waits for a condition.
func (d *deployment) until(what string, check func() bool) {
	d.t.Helper()
	for limit := time.Now().Add(patience); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			d.t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// publish writes the addresses of all pods that aren't terminating.
func (d *deployment) publish() {
	var all strings.Builder
	for _, p := range d.pods {
		if p.view.state < podTerminating {
			fmt.Fprintln(&all, p.first("listening").Addr)
		}
	}
	temporary := d.peers + ".new"
	if err := os.WriteFile(temporary, []byte(all.String()), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(temporary, d.peers); err != nil {
		d.t.Fatal(err)
	}
}

// replaceAll replaces all pods by pods of a new template.
func (d *deployment) replaceAll(what string) {
	d.t.Helper()
	for _, p := range d.pods {
		p.view.isNew = false
	}
	d.roll(what)
}

// roll replaces all old pods, and returns when all terminating pods have ended.
func (d *deployment) roll(what string) {
	d.t.Helper()
	began := time.Now()
	d.until(what, func() bool {
		running := 0
		for _, p := range d.pods {
			switch {
			case p.hasEnded():
				if p.view.state != podTerminating && p.view.state != podEnded {
					d.t.Fatalf("%s has ended by itself: %v", p.name, p.cmd.ProcessState)
				}
				p.view.state = podEnded
			case p.view.state == podStarting && p.ready():
				p.view.state = podReady
			}
			if p.view.state != podEnded {
				running++
			}
		}
		d.most = max(d.most, running)
		if d.meanwhile != nil {
			d.meanwhile()
		}
		var views []podView
		for _, p := range d.pods {
			views = append(views, p.view)
		}
		start, end := d.next(views)
		for _, i := range end {
			d.pods[i].view.state = podTerminating
			d.pods[i].must(d.pods[i].cmd.Process.Signal(syscall.SIGTERM))
		}
		for range start {
			d.started++
			p := d.start(fmt.Sprintf("pod-%d", d.started))
			d.pods = append(d.pods, p)
		}
		if start+len(end) > 0 {
			d.publish()
		}
		over := start+len(end) == 0
		for _, p := range d.pods {
			over = over && (p.view.state == podEnded || p.view.isNew && p.view.state == podReady)
		}
		return over
	})
	d.pods = slices.DeleteFunc(d.pods, func(p *pod) bool { return p.view.state == podEnded })
	d.t.Logf("%s took %v", what, time.Since(began).Round(100*time.Millisecond))
}

// span is a lease as seen by its holder.
type span struct {
	who, key string
	token    uint64
	from, to time.Time
}

// judge ends all processes, and checks all their output.
func (d *deployment) judge() {
	t := d.t
	for _, p := range d.every {
		if !p.hasEnded() {
			p.must(p.cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	var spans []span
	longest, count := time.Duration(0), 0
	for _, p := range d.every {
		d.until(p.name+" ends", p.hasEnded)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && p.killed.IsZero() {
			t.Errorf("%s ends with code %d", p.name, code)
		}
		held := make(map[string]span)
		for _, e := range p.events {
			switch e.Event {
			case "granted":
				held[e.Key] = span{p.name, e.Key, e.Token, e.At, e.At}
				if e.Key == "shared" || e.At.Before(d.measure) {
					break // waits for the shared key are waits in a queue
				}
				waited := time.Duration(e.Waited * float64(time.Second))
				asked := e.At.Add(-waited)
				if !strings.HasPrefix(p.name, "client") && asked.Sub(p.first("listening").At) < time.Second {
					break // the pod's first lock waits until the pod has joined
				}
				count++
				longest = max(longest, waited)
				if stood := d.machine.stood(asked, e.At); waited > unservedMost+stood {
					t.Errorf("%s waited %v for %s at %s; for %v the machine stood still", p.name, waited, e.Key, asked.Format("15:04:05.000"), stood)
				}
			case "done":
				s := held[e.Key]
				s.to = e.At
				spans = append(spans, s)
				delete(held, e.Key)
			case "lost", "error", "unreadable":
				if p.killed.IsZero() || e.Event != "unreadable" { // the last line may be cut short
					t.Errorf("%s prints %+v", p.name, e)
				}
			}
		}
		if !p.killed.IsZero() {
			for _, s := range held {
				s.to = p.killed
				spans = append(spans, s)
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.key, b.key), a.from.Compare(b.from)) })
	unserved := time.Duration(0)
	for i := range spans[1:] {
		a, b := spans[i], spans[i+1]
		if a.key == b.key && (b.from.Before(a.to) || b.token <= a.token) {
			t.Errorf("two holders: %+v and %+v", a, b)
		}
		if a.key == "shared" && b.key == a.key && a.to.After(d.measure) {
			took, most := b.from.Sub(a.to), d.free(a.to, b.from)
			if unserved = max(unserved, took); took > most {
				t.Errorf("a key that is always wanted was free for %v, more than %v, between %+v and %+v", took, most, a, b)
			}
		}
	}
	t.Logf("%d leases, %d waits of which the longest is %v, the shared key free for %v, at most %d pods at once",
		len(spans), count, longest.Round(time.Millisecond), unserved.Round(time.Millisecond), d.most)
	if count < 1000 {
		t.Error("it has shown little")
	}
}
