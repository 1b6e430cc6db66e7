package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/register/registerflag"
)

const usage = `Service does work that one instance at a time may do, under a lock of lockmesh.

All settings come from the environment; -check only checks them, and -alive asks the running
service whether it is alive. Of the mesh:
  LOCKMESH_PEERS          where other instances are: host:port, dns:name:port, srv:name, file:path; with commas between them
  LOCKMESH_SECRET         the secret that all instances share; or LOCKMESH_SECRET_FILE, a file with it.
                          During a change of the secret: several, a line each, the one to send first
  LOCKMESH_EXPECT         how many instances with any names, and without disks, found the mesh; or
  LOCKMESH_VOTERS         the names of the instances that vote, with commas between them
  LOCKMESH_STATE_DIR      a directory of this instance alone, with LOCKMESH_VOTERS
  LOCKMESH_BOOTSTRAP      true at the very first start of the voters with directories
  LOCKMESH_REGISTER       with LOCKMESH_EXPECT: configmap:NAME, or the URL of a ConfigMap
                          or of an object with conditional writes
  LOCKMESH_REGISTER_TERM  for how long voters act without the register (default 10m)
  LOCKMESH_NON_VOTING     true for an instance that never votes
  LOCKMESH_NAME           this instance's name (default: the host's)
  LOCKMESH_ADVERTISE      the address at which others reach this instance (default: the address that it listens on)
  LOCKMESH_BIND           the address to listen on, TCP and UDP (default :7950)
  LOCKMESH_MESH           the mesh's name (default "default")
  LOCKMESH_MAX_TTL        for how long a lease may outlive a crash (default 10s)

Of the service:
  SERVICE_HTTP            the address of /livez and /readyz (default :8080)
  SERVICE_KEYS            the locks to take, with commas between them (default work)
  SERVICE_HOLD            how long each is held (default 1s)
  SERVICE_PAUSE           the pause after each (default 100ms)
  SERVICE_GRACE           the time to end in after SIGTERM (default 25s)
`

// settings are the environment's values.
type settings struct {
	lock               lockmesh.Config
	http               string
	keys               []string
	hold, pause, grace time.Duration
}

// reader reads variables, and keeps the errors.
type reader struct {
	env  func(string) string
	errs []error
}

func (r *reader) fail(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
}

func (r *reader) text(name, or string) string {
	if v := strings.TrimSpace(r.env(name)); v != "" {
		return v
	}
	return or
}

func (r *reader) list(name string, or ...string) (all []string) {
	for item := range strings.SplitSeq(r.env(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	if len(all) == 0 {
		return or
	}
	return all
}

func (r *reader) duration(name string, or time.Duration) time.Duration {
	v := r.text(name, "")
	if v == "" {
		return or
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		r.fail(name, "%q is no duration such as 10s", v)
	}
	return d
}

func (r *reader) number(name string) int {
	v := r.text(name, "0")
	n, err := strconv.Atoi(v)
	if err != nil {
		r.fail(name, "%q is no number", v)
		return 3 // any usable number, so that the other settings are still checked
	}
	return n
}

func (r *reader) flag(name string) bool {
	v := r.text(name, "false")
	b, err := strconv.ParseBool(v)
	if err != nil {
		r.fail(name, "%q is neither true nor false", v)
	}
	return b
}

// parse reads the settings.
func parse(env func(string) string) (*settings, error) {
	r := &reader{env: env}
	s := &settings{
		http: r.text("SERVICE_HTTP", ":8080"), keys: r.list("SERVICE_KEYS", "work"),
		hold: r.duration("SERVICE_HOLD", time.Second), pause: r.duration("SERVICE_PAUSE", 100*time.Millisecond), grace: r.duration("SERVICE_GRACE", 25*time.Second),
	}
	s.lock = lockmesh.Config{
		Name: r.text("LOCKMESH_NAME", ""), Mesh: r.text("LOCKMESH_MESH", ""), Bind: r.text("LOCKMESH_BIND", ""), Advertise: r.text("LOCKMESH_ADVERTISE", ""),
		Peers: r.list("LOCKMESH_PEERS"), Voters: r.list("LOCKMESH_VOTERS"), StateDir: r.text("LOCKMESH_STATE_DIR", ""), Bootstrap: r.flag("LOCKMESH_BOOTSTRAP"),
		Expect: r.number("LOCKMESH_EXPECT"), NonVoting: r.flag("LOCKMESH_NON_VOTING"), MaxTTL: r.duration("LOCKMESH_MAX_TTL", 0),
		RegisterTerm: r.duration("LOCKMESH_REGISTER_TERM", 0),
	}
	r.secret(&s.lock)
	r.register(&s.lock)
	if err := s.lock.Validate(); err != nil {
		r.errs = append(r.errs, err)
	}
	return s, errors.Join(r.errs...)
}

// secret reads the secrets, a line each: the first is sent, and all are accepted.
func (r *reader) secret(c *lockmesh.Config) {
	secret := r.env("LOCKMESH_SECRET")
	if file := r.text("LOCKMESH_SECRET_FILE", ""); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			r.fail("LOCKMESH_SECRET_FILE", "%v", err)
		}
		secret = string(data)
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); line != "" {
			c.Secrets = append(c.Secrets, lockmesh.Secret(line))
		}
	}
}

func (r *reader) register(c *lockmesh.Config) {
	const variable = "LOCKMESH_REGISTER"
	text := r.text(variable, "")
	if text == "" {
		return
	}
	at, err := registerflag.Parse(text, nil)
	if err != nil {
		r.fail(variable, "%v", err)
		return
	}
	c.Register = at
}
