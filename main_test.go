package lockmesh

import (
	"testing"

	"go.uber.org/goleak"
)

// AtExit ends what examples share, before leaks are looked for.
var AtExit = func() {}

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	AtExit()
	return code
}
