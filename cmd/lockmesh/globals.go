package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lockmesh/lockmesh"
)

// globals are the flags of all verbs.
type globals struct {
	Addr    string        `short:"a" env:"LOCKMESH_ADDR" default:"${defaultAddr}" placeholder:"ADDR" help:"The node to talk to: the path of its socket, or a URL such as http://127.0.0.1:7951. With a URL, LOCKMESH_ADMIN_TOKEN or LOCKMESH_ADMIN_TOKEN_FILE has the token. (${default})"`
	Join    []string      `short:"j" env:"LOCKMESH_JOIN" placeholder:"PEER" help:"Be a node for as long as this process runs, which never votes, instead of talking to another: addresses of some nodes, as in the peers of an agent. Needs --voters or --expect, and LOCKMESH_SECRET or LOCKMESH_SECRET_FILE."`
	Output  string        `short:"o" enum:"text,json" default:"text" help:"text, or json: one object, or one a line where there are many."`
	Timeout time.Duration `env:"LOCKMESH_TIMEOUT" default:"10s" placeholder:"TIME" help:"How long to wait for the node and for a majority of the voters. (${default})"`
	Verbose bool          `short:"v" help:"Tell on standard error what is done; with --join, the node's log too."`

	// ShowVersion prints the version and nothing else, before a verb is looked for.
	ShowVersion kong.VersionFlag `name:"version" short:"V" help:"Print the version."`

	Mesh     meshFlags `embed:"" group:"The mesh, for --join and agent"`
	*streams `kong:"-"`
	unready  bool // with --join, the verb itself waits for a majority
}

// meshFlags describe a mesh, as all of its nodes do.
type meshFlags struct {
	Mesh         string        `env:"LOCKMESH_MESH" placeholder:"NAME" help:"The mesh's name. (default)"`
	Voters       []string      `env:"LOCKMESH_VOTERS" placeholder:"NAME" help:"The names of the nodes that vote: usually 3 or 5."`
	Expect       int           `env:"LOCKMESH_EXPECT" placeholder:"N" help:"How many nodes with any names found the mesh, in place of --voters."`
	Dynamic      bool          `env:"LOCKMESH_DYNAMIC" help:"With --join and --voters: the voters have state directories, and may change."`
	Register     string        `env:"LOCKMESH_REGISTER" placeholder:"REGISTER" help:"With --expect, on every node: a record outside of the mesh that says which mesh may act. configmap:NAME in the namespace of the pod, the URL of a ConfigMap at an API server, or the URL of an object with conditional writes; LOCKMESH_REGISTER_TOKEN or LOCKMESH_REGISTER_TOKEN_FILE has the bearer token for a URL. With --join any word will do, since such a node never calls it. A row of a database is for programs that embed lockmesh."`
	RegisterTerm time.Duration `env:"LOCKMESH_REGISTER_TERM" placeholder:"TIME" help:"For how long voters act without the register. (10m)"`
	MaxTTL       time.Duration `name:"max-ttl" env:"LOCKMESH_MAX_TTL" placeholder:"TIME" help:"How long a lease may outlive the last message of its node. (10s)"`
	Bind         string        `env:"LOCKMESH_BIND" placeholder:"HOST:PORT" help:"The address on which the node listens, TCP and UDP. (:7950; for --join any free port; for an agent with --expect 1 and no secret any free port of 127.0.0.1)"`
	Advertise    string        `env:"LOCKMESH_ADVERTISE" placeholder:"HOST[:PORT]" help:"The address at which other nodes reach the node."`
	Insecure     bool          `env:"LOCKMESH_INSECURE" help:"Allow a mesh without a secret on addresses other than loopback."`
}

// config returns the part of a node's configuration determined by the flags and the secret.
func (f *meshFlags) config() (lockmesh.Config, error) {
	secrets, err := secrets()
	if err != nil {
		return lockmesh.Config{}, err
	}
	return lockmesh.Config{
		Mesh: f.Mesh, Voters: f.Voters, Expect: f.Expect, MaxTTL: f.MaxTTL, Bind: f.Bind, Advertise: f.Advertise,
		Insecure: f.Insecure, Secrets: secrets,
	}, nil
}

// secrets returns the secrets of the mesh, first the secret to send: each line has a secret,
// without the blanks around. During a change of the secret there are several.
func secrets() (all []lockmesh.Secret, err error) {
	text, err := fromEnvironment("LOCKMESH_SECRET")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, lockmesh.Secret(line))
		}
	}
	if text != "" && len(all) == 0 {
		return nil, misconfigured("LOCKMESH_SECRET has blanks alone; give it the secret of the mesh")
	}
	return all, nil
}

// maxSecretFile is the length of the longest file with a secret or token in bytes: longer ones are
// other files.
const maxSecretFile = 64 << 10

// fromEnvironment returns the value of a variable, or the content of the file that the variable
// with _FILE names, without the end of the line.
func fromEnvironment(name string) (string, error) {
	value, path := os.Getenv(name), os.Getenv(name+"_FILE")
	if path == "" {
		return value, nil
	}
	if value != "" {
		return "", misconfigured("%s and %s_FILE are both set; leave one of them out", name, name)
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxSecretFile {
		err = fmt.Errorf("the file has %d bytes, more than %d", info.Size(), maxSecretFile)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return "", misconfigured("%s_FILE: %w", name, err)
	}
	if value = strings.TrimRight(string(content), "\r\n"); value == "" {
		return "", misconfigured("%s_FILE: the file %s is empty", name, path)
	}
	return value, nil
}

// defaultAddr is the socket of this user's agent, if there is such an agent, else the machine's.
func defaultAddr() string {
	if path := userSocket(); path != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return machineSocket
}

// machineSocket is the socket of the agent run by systemd (RuntimeDirectory=lockmesh).
const machineSocket = "/run/lockmesh/lockmesh.sock"

// userSocket returns the socket of a user's agent; empty where users have no such place.
func userSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); strings.HasPrefix(dir, "/") {
		return dir + "/lockmesh.sock"
	}
	return ""
}

// errNoAgent means no node answers at the address.
var errNoAgent = errors.New("no node answers")

// verbosef tells the user each step, with --verbose.
func (g *globals) verbosef(format string, args ...any) {
	if g.Verbose {
		_, _ = fmt.Fprintf(g.err, "lockmesh: "+format+"\n", args...)
	}
}
