// Package systemd tells the service manager how a service of Type=notify fares, over the datagram
// socket in NOTIFY_SOCKET. See sd_notify(3).
package systemd

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier tells the service manager. A Notifier without a manager does nothing.
type Notifier struct {
	conn  net.Conn // nil without a manager
	log   *slog.Logger
	every time.Duration // between signs of life; zero if none are wanted
}

// Node is the node that has to be alive for the watchdog.
type Node interface {
	// Alive returns nil unless the node is stuck.
	Alive(ctx context.Context) error
}

// Open returns a notifier for the manager named by the environment. An error is logged: a service
// is there for its users first.
func Open(log *slog.Logger) *Notifier {
	n := &Notifier{log: log}
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return n
	}
	if rest, ok := strings.CutPrefix(path, "@"); ok { // an abstract socket; Go uses the same name
		path = "@" + rest
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		log.Warn("can't tell systemd that the service is ready", "error", err)
		return n
	}
	n.conn = conn
	// The manager expects a sign of life within WATCHDOG_USEC, if the manager watches this process.
	if us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
		if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
			n.every = time.Duration(us) * time.Microsecond / 2
		}
	}
	return n
}

// tell sends a message.
func (n *Notifier) tell(text string) {
	if n.conn == nil {
		return
	}
	if _, err := n.conn.Write([]byte(text)); err != nil {
		n.log.Warn("can't send systemd a message", "message", text, "error", err)
	}
}

// Ready reports the service as up.
func (n *Notifier) Ready() { n.tell("READY=1") }

// Stopping reports the end of the service.
func (n *Notifier) Stopping() { n.tell("STOPPING=1") }

// Watchdog sends signs of life until ctx ends, as long as the node is alive. The channel is closed
// when the last one was sent.
func (n *Notifier) Watchdog(ctx context.Context, node Node) <-chan struct{} {
	done := make(chan struct{})
	if n.conn == nil || n.every == 0 {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		beat := time.NewTicker(n.every)
		defer beat.Stop()
		for {
			limit, cancel := context.WithTimeout(ctx, n.every)
			err := node.Alive(limit)
			cancel()
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				n.tell("WATCHDOG=1")
			default:
				n.log.Error("the node doesn't answer", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
		}
	}()
	return done
}
