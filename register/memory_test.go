package register_test

import (
	"errors"
	"testing"

	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/registertest"
)

func TestMemory(t *testing.T) {
	registertest.Run(t, func(*testing.T) func() register.Register {
		m := new(register.Memory)
		return func() register.Register { return m }
	})
}

func TestMemoryFailsOnDemand(t *testing.T) {
	m, bad := new(register.Memory), errors.New("down")
	m.Fail(bad)
	if _, _, err := m.Load(t.Context()); err != bad {
		t.Error(err)
	}
	if err := m.Store(t.Context(), nil, "0"); err != bad {
		t.Error(err)
	}
	m.Fail(nil)
	if err := m.Store(t.Context(), nil, "0"); err != nil {
		t.Error(err)
	}
}
