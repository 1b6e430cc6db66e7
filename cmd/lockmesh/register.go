package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/record"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/registerflag"
)

// registerToken is the variable with the bearer token for requests to a register.
const registerToken = "LOCKMESH_REGISTER_TOKEN"

// register returns the register named by the flags; nil without such flags. Nothing is sent yet.
func (f *meshFlags) register() (register.Register, error) {
	if f.Register == "" {
		return nil, nil
	}
	var token func() (string, error)
	if os.Getenv(registerToken) != "" || os.Getenv(registerToken+"_FILE") != "" {
		if strings.HasPrefix(f.Register, "configmap:") {
			return nil, misconfigured("%s is for a register with a URL; with configmap:NAME the pod's service account has the token", registerToken)
		}
		// A file may be replaced while the agent runs, so each request reads the file.
		token = func() (string, error) { return fromEnvironment(registerToken) }
		if _, err := token(); err != nil {
			return nil, err
		}
	}
	r, err := registerflag.Parse(f.Register, token)
	if err != nil {
		return nil, misconfigured("--register: %w", err)
	}
	return r, nil
}

// uncalled stands for the register of a mesh on a node without a vote: such a node makes no calls.
type uncalled struct{}

var errUncalled = errors.New("a node that never votes has no use for the register")

func (uncalled) Load(context.Context) ([]byte, string, error) { return nil, "", errUncalled }
func (uncalled) Store(context.Context, []byte, string) error  { return errUncalled }

// register reads the register, and compares its record with the settings.
func (x *examination) register() {
	if x.cfg.Register == nil || x.failed("settings") {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, dialTime)
	defer cancel()
	data, _, err := x.cfg.Register.Load(ctx)
	switch {
	case x.ctx.Err() != nil:
		return
	case err != nil:
		x.add("register", fail, "do as the text says, or have the firewalls between let HTTP through", "the register can't be read: %v", err)
		return
	}
	r, err := record.Decode(data)
	mesh := cmp.Or(x.cfg.Mesh, lockmesh.DefaultMesh)
	switch bad, is := errors.AsType[*record.Error](err); {
	case is:
		x.add("register", fail, bad.Advice, "%s", bad.Reason)
	case r.IsZero():
		x.add("register", ok, "", "the register can be read, and has no record yet")
	case !r.IsOf(mesh):
		x.add("register", fail, "give each mesh a register of its own", "the register is in use by the mesh %q, and this one is %q", r.Mesh, mesh)
	default:
		x.add("register", ok, "", "the register can be read, and has a record of this mesh")
	}
}
