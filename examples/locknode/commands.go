package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// readCommands executes commands, a command per line, until the end of the input; then the node
// leaves. Waiting for a lock doesn't delay the next command.
func (n *node) readCommands(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		word, key, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		n.command(ctx, word, strings.TrimSpace(key))
	}
	// Scan stops, for example, at an overlong line: the start of the next command is unknown.
	if err := lines.Err(); err != nil {
		n.out.print(event{Event: "error", Op: "commands", Text: fmt.Sprintf("the standard input can't be read any more, so this node leaves: %v", err)})
		n.end(errStuck)
		return
	}
	n.end(errDone)
}

func (n *node) command(ctx context.Context, word, key string) {
	switch word {
	case "":
	case "lock", "trylock":
		go n.take(ctx, key, word == "trylock") //nolint:errcheck // what comes of it is printed; it ends with the program's context at the latest
	case "unlock":
		if l := n.held(word, key); l != nil {
			go n.release(l) // an unlock never hangs
		}
	case "use":
		if l := n.held(word, key); l != nil {
			n.use(l)
		}
	case "status":
		n.printStatus()
	case "secrets":
		go n.setSecrets(strings.Split(key, "|")) // ends when gossip has passed the news on, or soon after
	case "recover":
		go n.recoverVoters(ctx, list(key)) // ends with the program's context at the latest
	case "leave":
		n.end(errDone)
	case "stop":
		n.end(errStop)
	case "close":
		n.end(errClose)
	default:
		n.out.print(event{Event: "error", Op: word, Text: fmt.Sprintf("%q is no command; there are lock, trylock, unlock, use, status, secrets, recover, leave, stop and close", word)})
	}
}

// setSecrets changes the secrets of this node; the first is sent.
func (n *node) setSecrets(texts []string) {
	var secrets []lockmesh.Secret
	for _, text := range texts {
		secrets = append(secrets, lockmesh.Secret(text))
	}
	if err := n.mesh.SetSecrets(secrets...); err != nil {
		n.out.fail("secrets", "", err)
		return
	}
	n.out.print(event{Event: "secrets"})
}

// storeLease remembers a lease, so that later commands can refer to the lease by its key.
func (n *node) storeLease(l *lockmesh.Lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leases[l.Key()] = l
}

// held returns the newest lease on a key taken by this node; the lease may have ended. If there was
// none, held reports an error.
func (n *node) held(op, key string) *lockmesh.Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.leases[key]
	if l == nil {
		n.out.print(event{Event: "error", Op: op, Key: key, Text: "no lease on this key was taken here"})
	}
	return l
}
