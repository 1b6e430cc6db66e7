package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/systemd"
	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
	"github.com/lockmesh/lockmesh/contrib/resp"
	"github.com/lockmesh/lockmesh/internal/logqueue"
)

// nodeFlags describe a node of this machine.
type nodeFlags struct {
	Name      string        `env:"LOCKMESH_NAME" placeholder:"NAME" help:"The node's name. (the host's; with --expect a random suffix is added)"`
	Peers     []string      `env:"LOCKMESH_PEERS" placeholder:"PEER" help:"Addresses of some other nodes: host:port, dns:name:port, srv:_mesh._tcp.name or file:path."`
	StateDir  string        `env:"LOCKMESH_STATE_DIR" placeholder:"DIR" help:"A directory of this node alone, for dynamic membership with --voters."`
	Bootstrap bool          `env:"LOCKMESH_BOOTSTRAP" help:"Found the electorate, at the very first start of the --voters with directories."`
	FromFixed bool          `env:"LOCKMESH_FROM_FIXED" help:"For the first of two rolling restarts that give fixed --voters dynamic membership; with --state-dir."`
	MinVoters int           `env:"LOCKMESH_MIN_VOTERS" placeholder:"N" help:"With --expect, the least number of voters."`
	MaxVoters int           `env:"LOCKMESH_MAX_VOTERS" placeholder:"N" help:"With dynamic membership, the largest number of voters."`
	NonVoting bool          `env:"LOCKMESH_NON_VOTING" help:"Never vote."`
	TTL       time.Duration `name:"ttl" env:"LOCKMESH_TTL" placeholder:"TIME" help:"How long this node's leases outlive its last message. (--max-ttl)"`
}

// agentVerb runs a node for other programs.
type agentVerb struct {
	nodeFlags

	Socket    string        `env:"LOCKMESH_SOCKET" placeholder:"PATH" help:"The unix socket for the node's own user; none for no socket. (lockmesh.sock in $XDG_RUNTIME_DIR, else ${machineSocket})"`
	HTTP      []string      `name:"http" env:"LOCKMESH_HTTP" placeholder:"HOST:PORT" help:"Serve HTTP over TCP, too, for requests with the token of LOCKMESH_ADMIN_TOKEN or LOCKMESH_ADMIN_TOKEN_FILE. Without TLS: on loopback, or behind a proxy with TLS."`
	HTTPHosts []string      `name:"http-host" env:"LOCKMESH_HTTP_HOST" placeholder:"NAME" help:"A name by which clients reach the node over TCP without a token, besides addresses and localhost."`
	OpenReads bool          `name:"open-reads" env:"LOCKMESH_OPEN_READS" help:"Answer reading requests over TCP without the token."`
	ReadOnly  bool          `name:"read-only" env:"LOCKMESH_READ_ONLY" help:"Take locks for clients, and refuse all other actions."`
	RESP      []string      `name:"resp" env:"LOCKMESH_RESP" placeholder:"HOST:PORT" help:"Serve Redis lock clients, with the password of LOCKMESH_RESP_PASSWORD or LOCKMESH_RESP_PASSWORD_FILE. Without TLS: on loopback, or behind a proxy with TLS."`
	RESPOpen  bool          `name:"resp-open" env:"LOCKMESH_RESP_OPEN" help:"Serve Redis lock clients without a password."`
	RESPLong  bool          `name:"resp-long-ttl" env:"LOCKMESH_RESP_LONG_TTL" help:"Let Redis lock clients set keys for longer than --max-ttl, and cut their connections when the lease is lost."`
	Metrics   []string      `env:"LOCKMESH_METRICS" placeholder:"HOST:PORT" help:"Serve the node's metrics to Prometheus at /metrics, without a token: keep strangers from the port."`
	LogJSON   bool          `name:"log-json" env:"LOCKMESH_LOG_JSON" help:"Log lines of JSON."`
	Grace     time.Duration `env:"LOCKMESH_AGENT_GRACE" default:"25s" placeholder:"TIME" help:"How long the end may take upon SIGTERM. (${default})"`
}

// Help implements [kong.HelpProvider].
func (*agentVerb) Help() string {
	return `A node of a mesh, like any application that embeds lockmesh. It answers HTTP on its socket, which only
its own user can open: the other verbs, curl and programs in any language take locks there
(docs/admin.md). It logs to standard error, tells systemd when it is ready, and ends in good order
upon SIGTERM or SIGINT: locks that clients hold end, those set for a time are waited for, with
--expect the node leaves the mesh, and otherwise it keeps its seat. Upon SIGHUP the file of
LOCKMESH_SECRET_FILE is read again: see lockmesh rotate -h. Of the files that the agent may have open (ulimit -n), 1024, or half of fewer,
are kept for the mesh; clients' connections share the rest, and those without a place are refused.

Examples:
  lockmesh agent --expect 1                         alone, to try things out
  LOCKMESH_SECRET_FILE=/etc/lockmesh.key lockmesh agent --expect 3 --peers dns:locks.internal:7950
  lockmesh agent --expect 3 --peers dns:locks:7950 --register configmap:locks-register
  lockmesh agent --name a --voters a,b,c --peers b:7950,c:7950`
}

// Run runs the verb.
func (v *agentVerb) Run(ctx context.Context, g *globals) error {
	if len(g.Join) > 0 {
		return usage("--join is for the other verbs; an agent finds its mesh by --peers")
	}
	if err := positive("--grace", v.Grace); err != nil {
		return err
	}
	log, endLog := v.logger(g)
	defer endLog()
	cfg, err := v.config(g, log)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return err
	}
	// Before the socket exists: SIGHUP, which ends a process by default, may come as soon as the
	// socket is seen.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	signals, stop := listen(syscall.SIGHUP)
	defer stop()
	doors, err := v.open()
	if err != nil {
		return err
	}
	defer doors.close()
	ctx, end := untilSignal(ctx, signals)
	defer end()
	alone, follows := cfg.Expect == 1, doors.mayFollow()
	if alone && follows {
		log.Info("no lock is granted for max-ttl: the previous agent may have been killed, or has left keys that rest, " +
			"and an agent that is a mesh by itself remembers no lease")
		cfg = quietAlone(cfg)
	}
	metrics := promlock.New()
	if len(doors.metrics) > 0 {
		cfg.Observer = metrics.Observer() // costs something for each lock
	}
	mesh, err := lockmesh.Join(ctx, cfg)
	if err != nil {
		return causeOf(ctx, err)
	}
	metrics.Watch(mesh)
	a := &agent{mesh: mesh, log: log, grace: v.Grace, leaves: cfg.Expect > 0, alone: alone, follows: follows, socket: v.socket(), hangups: hangups, signals: signals}
	a.tells = alone && doors.outlived()
	conns := placesPerDoor(len(doors.http) + len(doors.resp) + len(doors.metrics))
	handler := admin.New(mesh, append(v.options(doors.token, cfg, log),
		admin.WithMaxConns(min(conns, admin.MaxConns)), admin.WithBeforeEnd(a.drain))...)
	clients := resp.New(mesh, append(v.respOptions(doors.password, cfg, log), resp.WithMaxConns(min(conns, resp.DefaultMaxConns)))...)
	doors.served = true
	return a.serve(ctx, doors, handler, clients, newScrapes(metrics, conns, log))
}

// logger returns the agent's log, and a function to end the log. A log that isn't read, such as a
// pipe to a process that hangs, must delay neither locks nor the agent's end: lines are dropped.
func (v *agentVerb) logger(g *globals) (log *slog.Logger, end func()) {
	o := &slog.HandlerOptions{}
	if g.Verbose {
		o.Level = slog.LevelDebug
	}
	var to slog.Handler = slog.NewTextHandler(g.err, o)
	if v.LogJSON {
		to = slog.NewJSONHandler(g.err, o)
	}
	q := logqueue.New()
	return slog.New(q.Handler(to)), q.Close
}

// config returns the node's configuration. The caller checks it.
func (f *nodeFlags) config(g *globals, log *slog.Logger) (lockmesh.Config, error) {
	cfg, err := g.Mesh.config()
	if err != nil {
		return cfg, err
	}
	if g.Mesh.Dynamic {
		return cfg, misconfigured("--dynamic is for --join; an agent has dynamic membership with --state-dir or --expect")
	}
	if cfg.Register, err = g.Mesh.register(); err != nil {
		return cfg, err
	}
	cfg.RegisterTerm = g.Mesh.RegisterTerm
	cfg.Name, cfg.Peers, cfg.StateDir, cfg.Bootstrap = f.Name, f.Peers, f.StateDir, f.Bootstrap
	cfg.FromFixed = f.FromFixed
	cfg.MinVoters, cfg.MaxVoters, cfg.NonVoting, cfg.TTL, cfg.Logger = f.MinVoters, f.MaxVoters, f.NonVoting, f.TTL, log
	if cfg.Bind == "" && cfg.Expect == 1 && len(cfg.Secrets) == 0 && !cfg.Insecure {
		cfg.Bind = "127.0.0.1:0" // a mesh of a single process admits no other process
	}
	return cfg, nil
}

// doors are the ways in.
type doors struct {
	http, resp, metrics []net.Listener
	token, password     string
	socket              string // the path, or none
	served              bool   // the agent has begun to serve
}

// close closes all listeners. Where the agent didn't come to serve, the file of the previous agent
// stays for the next start: see mayFollow.
func (d *doors) close() {
	for _, l := range slices.Concat(d.http, d.resp, d.metrics) {
		if s, is := l.(*admin.Socket); is && s.Replaced() && !d.served {
			_ = s.Abandon()
			continue
		}
		_ = l.Close() // again, after Serve
	}
}

// open opens the socket and the ports.
func (v *agentVerb) open() (_ *doors, err error) {
	d := new(doors)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.token, err = checked("LOCKMESH_ADMIN_TOKEN", admin.CheckToken); err != nil {
		return nil, err
	}
	if d.password, err = checked("LOCKMESH_RESP_PASSWORD", resp.CheckPassword); err != nil {
		return nil, err
	}
	if d.password == "" && len(v.RESP) > 0 && !v.RESPOpen {
		return nil, misconfigured("--resp needs LOCKMESH_RESP_PASSWORD or LOCKMESH_RESP_PASSWORD_FILE, at least %d random "+
			"characters; or --resp-open, if each process that reaches the address may take locks", resp.MinPasswordLen)
	}
	if d.token == "" && len(v.HTTP) > 0 && !v.OpenReads {
		return nil, misconfigured("--http needs LOCKMESH_ADMIN_TOKEN or LOCKMESH_ADMIN_TOKEN_FILE, at least %d random "+
			"characters, such as those of lockmesh keygen; or --open-reads, if every client may read and none may act", admin.MinTokenLen)
	}
	d.socket = v.socket()
	if path := d.socket; path != noSocket {
		if path == machineSocket || path == userSocket() {
			_ = os.MkdirAll(filepath.Dir(path), 0o755) // Listen reports the error
		}
		socket, err := admin.Listen(path)
		if err != nil {
			return nil, &exit{code: exitConfig, err: fmt.Errorf("%w; choose another path by --socket", err)}
		}
		d.http = append(d.http, socket)
	} else if len(v.HTTP) == 0 && len(v.RESP) == 0 {
		return nil, misconfigured("--socket none needs --http or --resp: no client could reach the agent")
	}
	if d.http, err = listenAll(d.http, "--http", v.HTTP); err != nil {
		return nil, err
	}
	if d.resp, err = listenAll(nil, "--resp", v.RESP); err != nil {
		return nil, err
	}
	d.metrics, err = listenAll(nil, "--metrics", v.Metrics)
	return d, err
}

// checked returns a secret of the environment, if check allows the secret.
func checked(name string, check func(string) error) (string, error) {
	value, err := fromEnvironment(name)
	if err == nil && value != "" {
		if err = check(value); err != nil {
			err = misconfigured("%s: %w", name, err)
		}
	}
	return value, err
}

// listenAll appends listeners of TCP addresses. The caller closes the listeners, also after an
// error.
func listenAll(to []net.Listener, flag string, addresses []string) ([]net.Listener, error) {
	for _, addr := range addresses {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return to, misconfigured("%s: %w", flag, err)
		}
		to = append(to, l)
	}
	return to, nil
}

// socket returns the path of the agent's socket, or none.
func (v *agentVerb) socket() string {
	switch path := userSocket(); {
	case v.Socket != "":
		return v.Socket
	case path != "" && os.Getuid() != 0:
		return path
	}
	return machineSocket
}

// options returns the options of the agent's handler.
func (v *agentVerb) options(token string, cfg lockmesh.Config, log *slog.Logger) []admin.Option {
	longest := cfg.MaxTTL
	if longest == 0 {
		longest = lockmesh.DefaultMaxTTL
	}
	opts := []admin.Option{admin.AllowLocks(longest), admin.AllowHosts(v.HTTPHosts...), admin.WithLogger(log)}
	if token != "" {
		opts = append(opts, admin.WithToken(token))
	}
	if v.OpenReads {
		opts = append(opts, admin.AllowReads())
	}
	if v.ReadOnly {
		opts = append(opts, admin.ReadOnly())
	}
	return opts
}

// respOptions returns the options of the server for Redis lock clients.
func (v *agentVerb) respOptions(password string, cfg lockmesh.Config, log *slog.Logger) []resp.Option {
	opts := []resp.Option{resp.WithLogger(log)}
	if cfg.MaxTTL > 0 {
		opts = append(opts, resp.WithMaxTTL(cfg.MaxTTL))
	}
	if password != "" {
		opts = append(opts, resp.WithPassword(password))
	}
	if v.RESPOpen {
		opts = append(opts, resp.WithoutPassword())
	}
	if v.RESPLong {
		opts = append(opts, resp.AllowLongTTL())
	}
	return opts
}

// agent is a node with its servers.
type agent struct {
	mesh    *lockmesh.Mesh
	log     *slog.Logger
	grace   time.Duration
	leaves  bool // the node won't come back with its identity
	alone   bool // the mesh has no other node: no voter remembers leases after the end
	follows bool // clients of an agent before may count on keys at the start
	tells   bool // an end in good order leaves a file
	socket  string
	granted atomic.Bool // locks could be granted: the keys of an agent before are over
	left    atomic.Bool // a request has ended the node while clients had keys

	hangups <-chan os.Signal // SIGHUP: read the secrets again
	signals <-chan os.Signal
}

// serve serves until ctx ends, the node ends (lockmesh stop, say), or a listener fails. Then serve
// ends the node.
func (a *agent) serve(ctx context.Context, d *doors, h *admin.Handler, clients *resp.Server, s *scrapes) error {
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	left := len(d.http) + len(d.resp) + len(d.metrics)
	failed := make(chan error, left)
	for _, l := range d.http {
		go func() { failed <- admin.Serve(serving, l, h) }()
		a.log.Info("the agent listens", "at", l.Addr().String())
	}
	for _, l := range d.resp {
		go func() { failed <- clients.Serve(serving, l) }()
		a.log.Info("the agent listens for Redis lock clients", "at", l.Addr().String())
	}
	for _, l := range d.metrics {
		go func() { failed <- s.serve(serving, l) }()
		a.log.Info("the agent listens for Prometheus", "at", l.Addr().String())
	}
	notifier := systemd.Open(a.log)
	ready := make(chan struct{})
	go func() { // ends with serving at the latest
		defer close(ready)
		if a.mesh.Ready(serving) == nil {
			a.granted.Store(true)
			a.log.Info("locks can be granted")
		}
		// Before the first majority the others need this process: systemd must not wait for the
		// others.
	}()
	notifier.Ready()
	beats := notifier.Watchdog(serving, a.mesh)
	reloads := a.reloadUponHangup(serving)
	ended := a.ended(serving)
	var err error
	select {
	case <-ctx.Done():
		var i interrupted
		if errors.As(context.Cause(ctx), &i) {
			a.log.Info("the agent ends", "signal", i.signal.String())
		}
	case <-ended:
		a.log.Info("the node has ended, and the agent ends")
	case err = <-failed:
		left--
		a.log.Error("a listener has failed, and the agent ends", "error", err)
	}
	notifier.Stopping()
	inTime, cancel := context.WithTimeout(context.Background(), a.grace)
	defer cancel()
	stop()
	for range left {
		err = errors.Join(err, <-failed)
	}
	<-ready
	<-beats
	<-ended
	<-reloads
	return errors.Join(err, a.end(inTime))
}

// reloadUponHangup reads the secrets again upon each SIGHUP, until ctx ends. The channel is closed
// at the end.
func (a *agent) reloadUponHangup(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.hangups:
				if err := a.reload(); err != nil {
					a.log.Error("the secrets stay as they are", "error", err)
				}
			}
		}
	}()
	return done
}

// reload reads the secrets again.
func (a *agent) reload() error {
	if os.Getenv("LOCKMESH_SECRET_FILE") == "" {
		return errors.New("there is no LOCKMESH_SECRET_FILE to read again")
	}
	all, err := secrets()
	if err != nil {
		return err
	}
	return a.mesh.SetSecrets(all...) // logs the change
}

// ended returns a channel; the channel is closed at the end of the node or of ctx.
func (a *agent) ended(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	changes, err := a.mesh.WatchElectorate(ctx)
	if err != nil { // the node has ended already
		close(done)
		return done
	}
	go func() {
		defer close(done)
		for range changes { // the channel is closed at the end of the node
			continue
		}
	}()
	return done
}
