package lockmesh

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestMain(m *testing.M) {
	sampled.CollectRarely()
	goleak.VerifyTestMain(suite{m})
}

type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, end := range shared.ends {
		end()
	}
	return code
}

// shared has functions that end resources shared by tests and examples.
var shared struct {
	sync.Mutex
	ends []func()
}

// AtExit has a function called after all tests and examples, before the search for leaks.
func AtExit(end func()) {
	shared.Lock()
	defer shared.Unlock()
	shared.ends = append(shared.ends, end)
}
