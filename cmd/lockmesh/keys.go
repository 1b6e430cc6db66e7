package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/lockmesh/lockmesh"
)

// keygenVerb prints a secret.
type keygenVerb struct{}

// Help implements [kong.HelpProvider].
func (*keygenVerb) Help() string {
	return `All nodes of a mesh have the same secret. It can be an agent's admin token, too.

Example:
  (umask 077; lockmesh keygen > lockmesh.key)   # then LOCKMESH_SECRET_FILE=lockmesh.key`
}

// newSecret is the JSON of keygen.
type newSecret struct {
	Secret string `json:"secret"`
}

// Run runs the verb.
func (*keygenVerb) Run(g *globals) error {
	secret := string(lockmesh.NewSecret())
	return g.print(newSecret{secret}, func(w io.Writer) { _, _ = fmt.Fprintln(w, secret) })
}

// versionVerb prints the version.
type versionVerb struct{}

// Help implements [kong.HelpProvider].
func (*versionVerb) Help() string {
	return `Example:
  lockmesh version`
}

// Run runs the verb.
func (*versionVerb) Run(g *globals) error {
	v := newVersion()
	return g.print(v, func(w io.Writer) { _, _ = fmt.Fprintln(w, v) })
}

// version is the version of this program.
type version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func newVersion() version {
	v := version{Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
	}
	return v
}

func (v version) String() string {
	return fmt.Sprintf("lockmesh %s, built by %s", v.Version, v.Go)
}
