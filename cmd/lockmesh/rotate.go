package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lockmesh/lockmesh/admin"
)

// rotateVerb shows how far a change of the secret has come.
type rotateVerb struct{}

// Help implements [kong.HelpProvider].
func (*rotateVerb) Help() string {
	return `A secret is changed in three steps, while locks are granted all the time. An agent's file of
LOCKMESH_SECRET_FILE has a secret in each line: the first is sent, all are accepted. Each step is
complete on all nodes before the next one begins; rotate shows whether a step is complete.

  1. append the new secret to the file of each agent, and send the agent SIGHUP
  2. move the new secret to the first line, and send SIGHUP
  3. remove the old secret, and send SIGHUP

Nodes that are down must get the file of the present step before they start. No secret is ever
printed: an id tells secrets apart.

Example, with the file new of lockmesh keygen copied to each machine:
  (echo; cat new) >> /etc/lockmesh.key && systemctl reload lockmesh && lockmesh rotate`
}

// rotation is how far a change has come.
type rotation struct {
	// Secrets are the secrets in use, by id.
	Secrets []admin.SecretUse `json:"secrets"`
	// Missing are the nodes lost by gossip, if there are secrets: rotate can't ask these nodes.
	Missing []string `json:"missing"`
	// Next is the next step.
	Next string `json:"next"`
}

// Run runs the verb.
func (*rotateVerb) Run(ctx context.Context, g *globals) error {
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		r := newRotation(s)
		return g.print(r, func(w io.Writer) {
			t := newTable(w, "SECRET", "ACCEPTED BY", "SENT BY")
			for _, u := range r.Secrets {
				t.row(u.ID, strings.Join(u.AcceptedBy, ", "), strings.Join(u.SentBy, ", "))
			}
			_ = t.end() // to memory
			for _, name := range r.Missing {
				_, _ = fmt.Fprintf(w, "%s doesn't answer: give the node the file of this step before it starts\n", safe(name))
			}
			_, _ = fmt.Fprintf(w, "next: %s\n", r.Next)
		})
	})
}

// newRotation judges by the gossip about the live nodes. A lost node that has passed with its
// command never comes back, and needs no file.
func newRotation(s *admin.Status) *rotation {
	r := &rotation{Secrets: s.Secrets, Missing: []string{}}
	alive := 0
	for _, m := range s.Members {
		switch m.State {
		case "alive":
			alive++
		case "failed":
			if len(s.Secrets) > 0 && !passing.MatchString(m.Name) {
				r.Missing = append(r.Missing, m.Name)
			}
		}
	}
	r.Next = nextStep(s.Secrets, alive)
	return r
}

func nextStep(all []admin.SecretUse, alive int) string {
	switch len(all) {
	case 0:
		return "the mesh has no secret; all nodes must be stopped to give it one"
	case 1:
		return "nothing is under way; to begin, append a new secret to the file of each agent, and send SIGHUP"
	case 2:
	default:
		return "three secrets are in use: finish one change before another begins"
	}
	accepted, sent := 0, 0 // by all
	for _, u := range all {
		if len(u.AcceptedBy) >= alive {
			accepted++
		}
		if len(u.SentBy) >= alive {
			sent++
		}
	}
	switch {
	case sent == 1 && accepted == 1:
		return "some nodes accept a second secret: complete step 1, or step 3, on the others"
	case sent == 1:
		return "all nodes accept both, and send the same: go on with step 2, or with step 3 if the new secret is the one that is sent"
	case accepted == 2:
		return "the nodes send different secrets: complete step 2 on the others"
	}
	return "a node doesn't accept what another sends: complete step 1 on all nodes, and send the old secret meanwhile"
}
