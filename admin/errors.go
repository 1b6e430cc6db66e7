package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// The errors of this package, for [errors.Is], beside the errors of package lockmesh.
var (
	// ErrRequest means the request is malformed: its path, method, a parameter or the body is
	// unusable. The text says how to change the request. Nothing was done.
	ErrRequest = errors.New("admin: the request can't be used")

	// ErrUnauthorized means the token is missing or wrong.
	ErrUnauthorized = errors.New("admin: the token is missing or wrong")

	// ErrForbidden means the handler's options don't allow the request, or a browser has sent the
	// request from a page of another site. The text names the reason.
	ErrForbidden = errors.New("admin: the request isn't allowed")

	// ErrUnknownLease means no lease has the id: the lease ended long ago, or the granting process
	// has restarted. Stop the protected work.
	ErrUnknownLease = errors.New("admin: no lease has this id")

	// ErrLimit means the handler's limit of open leases, held connections, streams or answers is
	// reached. Try again when some have ended.
	ErrLimit = errors.New("admin: a limit is reached")

	// ErrStopping means the server is ending.
	ErrStopping = errors.New("admin: the server stops")

	// ErrNoAnswer means that a [Client] has no answer, or only a part: the node wasn't reached, its
	// process ended, the connection broke off, or the context of the call ended first. The call may
	// have had its effect. No server answers this error.
	ErrNoAnswer = errors.New("admin: no answer from the node")
)

// Error is an error as the server answers it, and as [Client] returns it.
//
// The codes, with their statuses:
//
//	400 request       404 for an unknown path, 405 for the method, 413 for the length: see ErrRequest
//	401 unauthorized  the token is missing or wrong
//	403 forbidden     the options of the handler don't allow the request
//	404 unknown_lease no lease has the id
//	404 no_leader     lockmesh.ErrNoLeader
//	400 key           lockmesh.ErrKey
//	400 option        lockmesh.ErrOption
//	400 config        lockmesh.ErrConfig
//	409 held          lockmesh.ErrHeld; Lock has the holders
//	409 permits       lockmesh.ErrPermits
//	409 clash         lockmesh.ErrClash
//	409 not_lost      lockmesh.ErrNotLost
//	409 voter         lockmesh.ErrStillVoter
//	410 lost          lockmesh.ErrLost
//	410 evicted       lockmesh.ErrEvicted
//	410 released      lockmesh.ErrReleased
//	429 limit         ErrLimit
//	429 busy          lockmesh.ErrBusy
//	500 state         lockmesh.ErrStateDir
//	500 internal      an error of none of these kinds
//	503 no_quorum     lockmesh.ErrNoQuorum
//	503 refused       lockmesh.ErrRefused
//	503 closed        lockmesh.ErrClosed
//	503 stopping      ErrStopping
//	503 canceled      context.Canceled
//	504 timeout       context.DeadlineExceeded
//
// errors.Is finds the errors of all codes in Reasons.
type Error struct {
	// Code is the code of the error.
	Code string `json:"error"`
	// Message describes the failure, with the numbers.
	Message string `json:"message"`
	// Advice is the next step to take.
	Advice string `json:"advice"`
	// Reasons are all codes of the error, Code first: a lock not granted in time is "held" and
	// "timeout".
	Reasons []string `json:"reasons"`
	// Lock is the state of the key if Code is "held" and the request was for a lock, as far as the
	// voters have answered within a second. Lock has the first 16 holders, with values of 4 KiB
	// together, and the first 16 waiters, without values: Inspect has all.
	Lock *Lock `json:"lock,omitempty"`
	// Status is the status of the HTTP answer. In a stream Status is the status of an answer with
	// the same error.
	Status int `json:"-"`
}

// Error returns the message, and the advice.
func (e *Error) Error() string { return e.Message + " (" + e.Advice + ")" }

// Is reports whether one of the reasons stands for target.
func (e *Error) Is(target error) bool {
	return slices.ContainsFunc(codes, func(c code) bool { return c.err == target && slices.Contains(e.Reasons, c.name) })
}

// UnmarshalJSON reads the error's JSON, and sets Status by the code.
func (e *Error) UnmarshalJSON(data []byte) error {
	type plain Error
	if err := json.Unmarshal(data, (*plain)(e)); err != nil {
		return err
	}
	e.Status = http.StatusInternalServerError
	for _, c := range codes {
		if c.name == e.Code {
			e.Status = c.status
		}
	}
	return nil
}

// code is a kind of error.
type code struct {
	name   string
	err    error
	status int
	advice string
}

// codes are all codes but internal. If several codes apply, the first is the error's.
var codes = []code{
	{"stopping", ErrStopping, http.StatusServiceUnavailable, "connect again when the server is back"},
	{"request", ErrRequest, http.StatusBadRequest, "change the request as the message says; GET /v1/openapi.json describes all requests"},
	{"unauthorized", ErrUnauthorized, http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN"},
	{"forbidden", ErrForbidden, http.StatusForbidden, "use the socket of the node's user (a recovery needs it), or the token, or have the application allow the request"},
	{"unknown_lease", ErrUnknownLease, http.StatusNotFound, "stop the protected work, and take the lock again"},
	{"limit", ErrLimit, http.StatusTooManyRequests, "try again when others have ended"},
	{"evicted", lockmesh.ErrEvicted, http.StatusGone, "stop the protected work at once"},
	{"lost", lockmesh.ErrLost, http.StatusGone, "stop the protected work at once, and take the lock again if there is more to do"},
	{"released", lockmesh.ErrReleased, http.StatusGone, "the lease is over; stop the protected work if it goes on"},
	{"not_lost", lockmesh.ErrNotLost, http.StatusConflict, "there is no electorate to recover"},
	{"voter", lockmesh.ErrStillVoter, http.StatusConflict, "bring the node back, or have the other voters vote the node out"},
	{"closed", lockmesh.ErrClosed, http.StatusServiceUnavailable, "start the node's process again"},
	{"held", lockmesh.ErrHeld, http.StatusConflict, "wait longer, with wait=30s for example; GET /v1/locks/{key} shows the holders"},
	{"refused", lockmesh.ErrRefused, http.StatusServiceUnavailable, "correct the value that the message names; trying again doesn't help before"},
	{"no_quorum", lockmesh.ErrNoQuorum, http.StatusServiceUnavailable, "bring back the voters that the message names, and try again"},
	{"key", lockmesh.ErrKey, http.StatusBadRequest, "change the key"},
	{"permits", lockmesh.ErrPermits, http.StatusConflict, "agree with the other users of the key on a number of permits"},
	{"clash", lockmesh.ErrClash, http.StatusConflict, "unlock, then lock again"},
	{"option", lockmesh.ErrOption, http.StatusBadRequest, "correct the parameter that the message names"},
	{"config", lockmesh.ErrConfig, http.StatusBadRequest, "correct what the message names"},
	{"state", lockmesh.ErrStateDir, http.StatusInternalServerError, "do as the message says"},
	{"no_leader", lockmesh.ErrNoLeader, http.StatusNotFound, "wait for a leader, or campaign"},
	{"busy", lockmesh.ErrBusy, http.StatusTooManyRequests, "slow down, then try again"},
	{"timeout", context.DeadlineExceeded, http.StatusGatewayTimeout, "wait longer, with wait=30s for example"},
	{"canceled", context.Canceled, http.StatusServiceUnavailable, "try again"},
}

// unanswered is an [ErrNoAnswer] with a text and a cause.
type unanswered struct {
	text  string
	cause error
}

func (u *unanswered) Error() string   { return u.text + ": " + u.cause.Error() }
func (u *unanswered) Unwrap() []error { return []error{ErrNoAnswer, u.cause} }

// failed is an error with a text, and a status other than usual.
type failed struct {
	kind   error
	text   string
	status int // zero for that of the kind
}

func (f *failed) Error() string { return f.text }
func (f *failed) Unwrap() error { return f.kind }

// failure returns an error of a kind.
func failure(kind error, format string, args ...any) *failed {
	return &failed{kind: kind, text: fmt.Sprintf(format, args...)}
}

// withStatus gives an error a status of its own.
func withStatus(status int, f *failed) *failed {
	f.status = status
	return f
}

// errorOf returns the answer for an error.
func errorOf(err error) *Error {
	e := &Error{Message: shorten(strings.ReplaceAll(err.Error(), "\n", ", "))}
	for _, c := range codes {
		if !errors.Is(err, c.err) {
			continue
		}
		if e.Code == "" {
			e.Code, e.Status, e.Advice = c.name, c.status, c.advice
		}
		e.Reasons = append(e.Reasons, c.name)
	}
	if e.Code == "" {
		e.Code, e.Reasons, e.Status, e.Advice = "internal", []string{"internal"}, http.StatusInternalServerError, "look into the log of the node"
	}
	var f *failed
	if errors.As(err, &f) && f.status != 0 {
		e.Status = f.status
	}
	var h *heldBy
	if errors.As(err, &h) {
		e.Lock = h.lock
	}
	return e
}

// shorten bounds a message, and cuts no character in two.
func shorten(text string) string { return cut(text, maxMessage) }

// cut shortens a text to about so many bytes, and cuts no character in two.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// heldBy is the error of a refused lock, with the state of the key.
type heldBy struct {
	error
	lock *Lock
}

func (h *heldBy) Unwrap() error { return h.error }
