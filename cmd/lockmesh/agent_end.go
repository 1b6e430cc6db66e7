package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// The leases of an agent's clients can outlive the agent. A client that has set a key for a time
// can't be told of the agent's end, and counts on the key until the time is over. So an agent
// releases no such key at its end, and an agent alone, which remembers nothing, is quiet after the
// start where the agent before may have left such keys.

// end ends the node, unless the node has ended. The listeners are closed.
func (a *agent) end(ctx context.Context) error {
	switch {
	case a.left.Load(), a.alone && a.follows && !a.granted.Load():
		a.mark()
	case !a.waitForClients(ctx):
		return a.mesh.Close()
	case a.hasResting(ctx):
		a.mark()
	case a.tells:
		defer a.tellEnd()
	}
	end := a.mesh.Stop
	if a.leaves {
		end = a.mesh.Leave
	}
	err := end(ctx)
	switch {
	case errors.Is(err, lockmesh.ErrStillVoter), errors.Is(err, lockmesh.ErrClosed):
		return nil // the others need this voter until its replacement; or the node had ended before
	case errors.Is(err, context.DeadlineExceeded):
		a.log.Warn("the end wasn't confirmed in time", "error", err)
		return nil
	}
	return err
}

// drain waits until no client has a key any more, before a request ends the node.
func (a *agent) drain(ctx context.Context) error {
	err := a.mesh.Drain(ctx)
	switch {
	case err == nil && a.hasResting(ctx):
		a.left.Store(true)
		return nil
	case !errors.Is(err, lockmesh.ErrHeld):
		return err
	case len(a.mesh.Status().Held) == 0: // ctx had ended before
		a.left.Store(a.alone) // keys may rest
		return nil
	}
	a.left.Store(true)
	return err
}

// hasResting reports whether this agent is alone, and keys may rest after their leases: for the
// rest of a minimum hold, or for a lock-delay. The agent doesn't wait for the end of it, which may
// be hours away; the next agent is quiet for the part of it that voters keep. Where the agent can't
// tell, it assumes such keys: the next agent may be quiet without need, which is safe.
func (a *agent) hasResting(ctx context.Context) bool {
	if !a.alone || !a.granted.Load() {
		return false
	}
	for key, err := range a.mesh.List(ctx, "") {
		if err != nil || key.Delayed > 0 {
			return !errors.Is(err, lockmesh.ErrClosed) // a request has ended the node: see drain
		}
	}
	return false
}

// waitForClients waits until no client has a key any more. A client that has set a key for a time
// can't be told of the agent's end: the key mustn't be released before.
func (a *agent) waitForClients(ctx context.Context) bool {
	if len(a.mesh.Status().Held) == 0 { // the listeners are closed: there will be no more
		return true
	}
	a.log.Info("clients hold keys for a length of time: the agent waits until the last of these times is over, or for another signal", "at_most", a.grace)
	unmark := a.mark()
	ctx, heard := untilSignal(ctx, a.signals)
	defer heard()
	if !errors.Is(a.mesh.Drain(ctx), lockmesh.ErrHeld) {
		unmark()
		return true
	}
	a.log.Warn("the agent ends before the times of its clients' keys, and leaves the keys locked", "grace", a.grace)
	return false
}

// mark leaves an abandoned socket for the next agent, until unmark is called: only this process
// knows of the leases in a mesh of one node, and may be killed before the leases end.
func (a *agent) mark() (unmark func()) {
	if !a.alone || a.socket == noSocket {
		return func() {}
	}
	s, err := admin.Listen(a.socket)
	if err == nil {
		err = s.Abandon()
	}
	if err != nil {
		a.log.Warn("the next agent won't know of this agent's leases", "error", err)
		return func() {}
	}
	return func() {
		if err := os.Remove(a.socket); err != nil {
			a.log.Warn("the socket is left", "error", err)
		}
	}
}

// noSocket in place of a path has the agent make no socket.
const noSocket = "none"

// mayFollow reports whether an agent may have ended here shortly before, and left leases to its
// clients. An agent that ends in good order leaves no leases, or else its socket; but systemd
// removes a directory with the socket, and so does a reboot. So where clients may outlive what the
// agent leaves, only the file of a good end counts. Without a socket nothing is known.
func (d *doors) mayFollow() bool {
	if d.socket == noSocket {
		return true
	}
	ended := takeEndFile(d.socket) // at each start: the file tells of the agent before alone
	for _, l := range d.http {
		if s, is := l.(*admin.Socket); is && s.Replaced() {
			return true
		}
	}
	return !ended && d.outlived()
}

// outlived reports whether clients may count on keys while the files beside the socket are gone:
// clients of other machines, or clients of a service with a directory made by systemd.
func (d *doors) outlived() bool {
	if d.socket == noSocket {
		return false // no file can tell
	}
	return len(d.http) > 1 || len(d.resp) > 0 || os.Getenv("RUNTIME_DIRECTORY") != ""
}

// endFile returns the path of a file. By this file an agent alone reports to the next agent: no
// client counts on a key.
func endFile(socket string) string { return socket + ".ended" }

// takeEndFile removes the file, and reports whether an agent of this user has left the file.
func takeEndFile(socket string) bool {
	path := endFile(socket)
	file, err := os.Lstat(path)
	if err != nil || os.Remove(path) != nil {
		return false
	}
	// Without a sync the file could be back after a loss of power.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer dir.Close()
	return dir.Sync() == nil && file.Mode().IsRegular() && isOwn(file)
}

// tellEnd leaves the file.
func (a *agent) tellEnd() {
	f, err := os.OpenFile(endFile(a.socket), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		a.log.Info("the next agent will grant nothing for max-ttl: the file that tells it of an end in good order can't be written", "error", err)
	}
}

// quietAlone returns a configuration like the configuration of a mesh of a single process, but
// without a grant until MaxTTL after the start. A mesh with Expect: 1 grants at once, since the
// leases of the process before have ended with this process; but the clients of an agent can
// outlive the agent.
func quietAlone(cfg lockmesh.Config) lockmesh.Config {
	if cfg.Name == "" {
		cfg.Name = "agent"
	}
	cfg.Expect, cfg.MinVoters, cfg.MaxVoters, cfg.Voters = 0, 0, 0, []string{cfg.Name}
	return cfg
}
