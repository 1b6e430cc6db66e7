package top

import (
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// beat says that time has passed. A beat comes every beatTime.
type beat struct{ now time.Time }

// looked is the answer to a look at the node. Without an answer, status is nil and why has the
// reason.
type looked struct {
	at     time.Time
	status *admin.Status
	why    string
	seen   seen
}

// listed is the answer to a question for keys.
type listed struct {
	at     time.Time
	prefix string       // as asked
	locks  []admin.Lock // by name, at most listMost
	more   bool         // there are keys behind the last one
	why    string       // why there is no answer; empty with an answer
}

// inspected is the answer to a question for a single key.
type inspected struct {
	at   time.Time
	key  string
	lock *admin.Lock
	why  string // as in listed
}

// stopped is the wish to stop the process until the shell continues the process (Ctrl-Z).
type stopped struct{}

// requests makes the commands of a model. Each command sends one message.
type requests interface {
	beat() command
	look() command
	list(prefix string) command
	inspect(key string) command
	stop() command
}
