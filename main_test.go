package lockmesh

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests that run in parallel wait, for voters that are quiet and for leases that end, and compute
	// next to nothing. So more of them run at once than there are processors.
	if p := flag.Lookup("test.parallel"); p.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = p.Value.Set("8") // a number is a value that it takes
	}
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

// shared are the ends of what tests and examples share.
var shared struct {
	sync.Mutex
	ends []func()
}

// AtExit has a function called after all tests and examples, before leaks are looked for.
func AtExit(end func()) {
	shared.Lock()
	defer shared.Unlock()
	shared.ends = append(shared.ends, end)
}
