//go:build hunt

package promlock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
)

// Two of three voters die, one after the other, in real processes scraped by a real Prometheus:
// LockmeshNoSpareVoter fires after the first death, and LockmeshNoQuorum only after the second.
// Before the deaths, each expression of the dashboard has a value.
func TestAlertsFireAsVotersDie(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("this test needs Prometheus (Debian's package prometheus): %v", err)
	}
	nodes := startNodes(t, "a", "b", "c")
	p := startPrometheus(t, program, nodes)

	p.await("no alert, and all three are ready", func() bool { return len(p.firing()) == 0 && p.value("sum(lockmesh_ready)") == "3" })
	for _, expression := range p.dashboard() {
		p.await(expression, func() bool { return p.series(expression) > 0 })
	}
	nodes["c"].kill()
	p.await("LockmeshNoSpareVoter at a and b", func() bool {
		f := p.firing()
		for alert := range f {
			if strings.HasPrefix(alert, "LockmeshNoQuorum") {
				t.Fatalf("with two of three voters there is a majority, but firing are %v", f)
			}
		}
		return f["LockmeshNoSpareVoter at a"] && f["LockmeshNoSpareVoter at b"]
	})
	nodes["b"].kill()
	p.await("LockmeshNoQuorum at a", func() bool {
		f := p.firing()
		return f["LockmeshNoQuorum at a"] && !f["LockmeshNoSpareVoter at a"]
	})
}

type nodeProcess struct {
	cmd     *exec.Cmd
	metrics string // the address
	stdin   io.Closer
}

// kill kills the process, and waits for its end.
func (n *nodeProcess) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// startNodes starts a process for each of three names, all voters of one mesh.
func startNodes(t *testing.T, names ...string) map[string]*nodeProcess {
	t.Helper()
	addrs := make(map[string]string)
	for _, name := range names {
		addrs[name] = freeport.Address(t)
	}
	all := make(map[string]*nodeProcess)
	for _, name := range names {
		var peers []string
		for _, other := range names {
			if other != name {
				peers = append(peers, addrs[other])
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PROMLOCK_NODE="+name, "PROMLOCK_BIND="+addrs[name],
			"PROMLOCK_PEERS="+strings.Join(peers, ","))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n := &nodeProcess{cmd: cmd, stdin: in}
		t.Cleanup(n.kill)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("node %s has ended before it listened: %v", name, err)
		}
		n.metrics = strings.TrimSpace(line)
		all[name] = n
	}
	return all
}

// server is a running Prometheus.
type server struct {
	t    *testing.T
	base string
}

// startPrometheus starts a Prometheus that scrapes the nodes twice a second, with the alerts of
// deploy.
func startPrometheus(t *testing.T, program string, nodes map[string]*nodeProcess) *server {
	t.Helper()
	rules, err := filepath.Abs("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 500ms, evaluation_interval: 1s}\nrule_files: [%q]\n", rules)
	fmt.Fprint(&config, "scrape_configs:\n  - job_name: lockmesh\n    static_configs:\n")
	for name, n := range nodes {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %s}}\n", n.metrics, name)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeport.Address(t)
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &server{t, "http://" + addr}
}

// await waits until a condition holds, for up to five minutes: alerts have waiting times of their
// own.
func (p *server) await(what string, holds func() bool) {
	p.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > 5*time.Minute {
			p.t.Fatalf("still not after five minutes: %s; firing are %v", what, p.firing())
		}
		time.Sleep(250 * time.Millisecond)
	}
	if took := time.Since(start); took > time.Second {
		p.t.Logf("%s: after %v", what, took.Round(time.Second))
	}
}

// get reads an answer of Prometheus's API; false while Prometheus doesn't answer.
func (p *server) get(path string, into any) bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(into) == nil
}

// firing returns the firing alerts, each as "name at instance".
func (p *server) firing() map[string]bool {
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	all := make(map[string]bool)
	p.get("/api/v1/alerts", &answer)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]+" at "+a.Labels["instance"]] = true
		}
	}
	return all
}

// value returns the value of an expression with a single series; else an empty string.
func (p *server) value(expression string) string {
	if r := p.query(expression); len(r) == 1 {
		return fmt.Sprint(r[0].Value[1])
	}
	return ""
}

// series returns how many series an expression has.
func (p *server) series(expression string) int { return len(p.query(expression)) }

type result struct{ Value [2]any }

func (p *server) query(expression string) []result {
	var answer struct {
		Data struct{ Result []result }
	}
	p.get("/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result
}

// dashboard returns the expressions of the dashboard of deploy, as Grafana sends them.
func (p *server) dashboard() (all []string) {
	text, err := os.ReadFile("../../deploy/grafana/dashboard.json")
	if err != nil {
		p.t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		p.t.Fatal(err)
	}
	for _, panel := range d.Panels {
		for _, t := range panel.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*").Replace(t.Expr))
		}
	}
	if len(all) < 20 {
		p.t.Fatalf("the dashboard has only %d expressions", len(all))
	}
	return all
}
