package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func TestTheProjectOfCompose(t *testing.T) {
	load := func(env types.Mapping) (*types.Project, error) {
		return loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir: "compose", Environment: env, ConfigFiles: []types.ConfigFile{{Filename: "compose/compose.yaml"}},
		})
	}
	project, err := load(types.Mapping{"LOCKS_SECRET": "kq3Zf8vB1xTn6WcR0aYs"})
	if err != nil {
		t.Fatal(err)
	}
	s, ok := project.Services["service"]
	if !ok || len(project.Services) != 1 {
		t.Fatalf("%v", project.ServiceNames())
	}
	env := make(map[string]string)
	for name, value := range s.Environment {
		env[name] = *value
	}
	accepts(t, env)
	if needs := graceOf(t, env); s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= needs {
		t.Errorf("the service needs %v to end, and is killed after %v", needs, s.StopGracePeriod)
	}
	if s.Build == nil {
		t.Fatal("nothing makes the image")
	}
	if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Errorf("the image: %v", err)
	}
	if test := s.HealthCheck.Test; !slices.Equal(test, []string{"CMD", "/service", "-alive"}) {
		t.Errorf("the image has no program for the health check %q", test)
	}
	if s.GetScale() != 3 {
		t.Errorf("%d containers", s.GetScale())
	}
	if _, err := load(nil); err == nil {
		t.Error("it starts without a secret")
	}
}
