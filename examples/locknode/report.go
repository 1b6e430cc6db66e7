package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// event is a line of output. Fields that don't apply are left out.
//
//	listening  node, addr: the node is up
//	ready      a majority of the voters answers and counts
//	settled    this node's own votes count, and another voter may stop: wait for this before restarting the next node
//	voters     voters: this node's view of the voters has changed (only with -trace)
//	electorate version, names, joint, old, voter, text: the electorate has changed (only with -state-dir)
//	recovered  the voters are the named nodes
//	waiting    op, key: a lock was requested
//	granted    key, token, deadline
//	working    key, token, deadline: work under a lease of -lock has begun, and is in the ledger (only with -trace)
//	extended   key, token, deadline: the lease was renewed (only with -trace)
//	used       key, token, deadline: the lease was held when checked
//	lost       key, token, text: the lease ended before the unlock
//	released   key, token: the lease was unlocked
//	status     status
//	error      op, key, is, text: a call failed
//	left, closed  the node has ended
type event struct {
	At       time.Time         `json:"at"`
	Event    string            `json:"event"`
	Node     string            `json:"node,omitempty"`
	Addr     string            `json:"addr,omitempty"`
	Op       string            `json:"op,omitempty"`
	Key      string            `json:"key,omitempty"`
	Token    uint64            `json:"token,omitempty"`
	Deadline *time.Time        `json:"deadline,omitempty"`
	Is       []string          `json:"is,omitempty"`
	Text     string            `json:"text,omitempty"`
	Voters   map[string]string `json:"voters,omitempty"`
	Status   *lockmesh.Status  `json:"status,omitempty"`
	*electorate
}

// report prints each event in a single write, so lines of several goroutines don't mix.
type report struct {
	json bool
	mu   sync.Mutex
	w    io.Writer
}

func newReport(w io.Writer, json bool) *report { return &report{json: json, w: w} }

// print adds the time to an event and writes the event. A failed write is ignored, since the output
// of a node that outlives its pipe has no reader.
func (r *report) print(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Now().Round(0)
	if r.json {
		line, err := json.Marshal(e)
		if err != nil {
			line = fmt.Appendf(nil, `{"event":"error","op":"print","text":%q}`, err)
		}
		_, _ = r.w.Write(append(line, '\n'))
		return
	}
	_, _ = io.WriteString(r.w, e.String()+"\n")
}

// String returns the event in a human-readable form.
func (e event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-9s", e.At.Format("15:04:05.000"), e.Event)
	for _, s := range []string{e.Node, e.Addr, e.Op} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, " token %d", e.Token)
	}
	if e.Deadline != nil {
		fmt.Fprintf(&b, " until %s", e.Deadline.Format("15:04:05.000"))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Voters)) {
		fmt.Fprintf(&b, " %s:%s", name, e.Voters[name])
	}
	if e.electorate != nil {
		b.WriteString(" " + e.electorate.String())
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Status != nil {
		fmt.Fprintf(&b, " of %v", e.Status)
	}
	return b.String()
}

// lease prints an event of a lease.
func (r *report) lease(what string, l *lockmesh.Lease) {
	deadline := l.Deadline()
	r.print(event{Event: what, Key: l.Key(), Token: l.Token(), Deadline: &deadline})
}

// fail prints the error of a call.
func (r *report) fail(op, key string, err error) {
	r.print(event{Event: "error", Op: op, Key: key, Is: sentinelNames(err), Text: err.Error()})
}

// sentinels are the errors that a program can distinguish, by their names in events.
var sentinels = []struct {
	name string
	err  error
}{
	{"held", lockmesh.ErrHeld}, {"noquorum", lockmesh.ErrNoQuorum}, {"lost", lockmesh.ErrLost}, {"released", lockmesh.ErrReleased},
	{"closed", lockmesh.ErrClosed}, {"config", lockmesh.ErrConfig}, {"refused", lockmesh.ErrRefused}, {"key", lockmesh.ErrKey},
	{"busy", lockmesh.ErrBusy}, {"state", lockmesh.ErrStateDir}, {"notlost", lockmesh.ErrNotLost}, {"voter", lockmesh.ErrStillVoter},
}

func sentinelNames(err error) (names []string) {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	return names
}
