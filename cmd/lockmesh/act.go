package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// answerTime is how much longer than the node this process waits for an answer.
const answerTime = 5 * time.Second

// revokeVerb asks for a key.
type revokeVerb struct {
	Key    string `arg:"" help:"The key."`
	Reason string `placeholder:"TEXT" help:"The reason that the holders see."`
}

// Help implements [kong.HelpProvider].
func (*revokeVerb) Help() string {
	return `Asks the holders to release the key; the holders decide. With --yield lockmesh run ends its command,
and otherwise tells its user. A lease of PUT /v1/locks is told with its next request, and a Redis
client can't be told: its lease ends by evict.

Example:
  lockmesh revoke jobs/1 --reason 'the disk is full'`
}

// Run runs the verb.
func (v *revokeVerb) Run(ctx context.Context, g *globals) error {
	return g.ask(ctx, func(ctx context.Context, c *admin.Client) error {
		l, err := c.Inspect(ctx, v.Key)
		if err != nil {
			return err
		}
		if err := c.Revoke(ctx, v.Key, v.Reason); err != nil {
			return err
		}
		if len(l.Holders) == 0 {
			return g.done(fmt.Sprintf("no node holds %s: no holder is asked", safe(v.Key)))
		}
		return g.done(fmt.Sprintf("the holders of %s are asked to release it", safe(v.Key)))
	})
}

// success is the JSON of a verb without a result.
type success struct {
	Done bool `json:"done"`
}

// done reports the success of an action.
func (g *globals) done(text string) error {
	return g.print(success{true}, func(w io.Writer) { _, _ = fmt.Fprintln(w, text) })
}

// evictVerb ends a lease.
type evictVerb struct {
	Key    string        `arg:"" help:"The key."`
	Node   string        `placeholder:"NAME" help:"The holder of the lease to end. Needed unless --token is given."`
	Token  uint64        `placeholder:"N" help:"The token of the lease, as lockmesh inspect shows it. Needed if the node holds the key several times."`
	Reason string        `placeholder:"TEXT" help:"The reason that the holder sees."`
	Wait   time.Duration `short:"w" default:"30s" placeholder:"TIME" help:"How long to wait for the end of the lease. (${default})"`
}

// Help implements [kong.HelpProvider].
func (*evictVerb) Help() string {
	return `The holder's own node ends the lease, and tells its user the reason; if that node doesn't answer, the lease
ends by itself when its time is over. Nothing is deleted behind a holder's back.

Example:
  lockmesh evict jobs/1 --node web-3 --reason 'stuck since noon'`
}

// Run runs the verb.
func (v *evictVerb) Run(ctx context.Context, g *globals) error {
	if v.Node == "" && v.Token == 0 {
		return usage("evict needs --node or --token; lockmesh inspect shows both")
	}
	if err := positive("--wait", v.Wait); err != nil {
		return err
	}
	return g.act(ctx, v.Wait+answerTime, func(ctx context.Context, c *admin.Client) error {
		done, err := c.Evict(ctx, v.Key, admin.EvictRequest{Token: v.Token, Node: v.Node, Reason: v.Reason}, v.Wait)
		if err != nil {
			return err
		}
		return g.print(done, func(w io.Writer) {
			if done.Node == "" {
				_, _ = fmt.Fprintf(w, "the lease with token %d had ended before\n", done.Token)
				return
			}
			_, _ = fmt.Fprintf(w, "the lease of %s with token %d has ended\n", safe(done.Node), done.Token)
		})
	})
}

// positive returns an error unless a time is positive.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usage("%s %v: give a positive time, such as 30s", flag, d)
	}
	return nil
}

// endFlags are the flags of the verbs to end a node.
type endFlags struct {
	Wait time.Duration `short:"w" default:"1m" placeholder:"TIME" help:"How long to wait. (${default})"`
}

// end calls an action of the node.
func (f *endFlags) end(ctx context.Context, g *globals, text string, call func(c *admin.Client) func(context.Context, time.Duration) error) error {
	if len(g.Join) > 0 {
		return usage("this verb is for another node; leave out --join, and name the node's socket with -a")
	}
	if err := positive("--wait", f.Wait); err != nil {
		return err
	}
	return g.act(ctx, f.Wait+answerTime, func(ctx context.Context, c *admin.Client) error {
		if err := call(c)(ctx, f.Wait); err != nil {
			return err
		}
		return g.done(text)
	})
}

// drainVerb drains the node.
type drainVerb struct{ endFlags }

// Help implements [kong.HelpProvider].
func (*drainVerb) Help() string {
	return `From the call on the node takes no locks. Exit code 75 says that it still held some when the wait was
over; call drain again, or end the node.

Example:
  lockmesh drain -w 5m && lockmesh stop`
}

// Run runs the verb.
func (v *drainVerb) Run(ctx context.Context, g *globals) error {
	return v.end(ctx, g, "the node holds no lock, and takes none", func(c *admin.Client) func(context.Context, time.Duration) error { return c.Drain })
}

// stopVerb stops the node.
type stopVerb struct{ endFlags }

// Help implements [kong.HelpProvider].
func (*stopVerb) Help() string {
	return `The node releases its locks and ends; it keeps its seat among the voters, and others learn at once
that it is gone. For a restart or an upgrade. Locks that clients have set for a time are waited for;
exit code 75 says that some were left when the wait was over, and end by themselves.

Example:
  lockmesh stop`
}

// Run runs the verb.
func (v *stopVerb) Run(ctx context.Context, g *globals) error {
	return v.end(ctx, g, "the node has stopped", func(c *admin.Client) func(context.Context, time.Duration) error { return c.Stop })
}

// leaveVerb ends the node for good.
type leaveVerb struct{ endFlags }

// Help implements [kong.HelpProvider].
func (*leaveVerb) Help() string {
	return `The node releases its locks, is voted out if it is a voter with dynamic membership, and ends.

Example:
  lockmesh leave -w 2m`
}

// Run runs the verb.
func (v *leaveVerb) Run(ctx context.Context, g *globals) error {
	return v.end(ctx, g, "the node has left the mesh", func(c *admin.Client) func(context.Context, time.Duration) error { return c.Leave })
}

// recoverVerb names new voters.
type recoverVerb struct {
	endFlags
	Voters []string `arg:"" name:"voter" help:"The names of the nodes that shall vote, the called node among them."`
	Yes    bool     `name:"lost-for-good" help:"Confirm that the missing voters are gone for good, with their directories."`
}

// Help implements [kong.HelpProvider].
func (*recoverVerb) Help() string {
	return `Read docs/electorate.md, "Lost for good", first: if a missing voter comes back later, two nodes may
hold one lock. Only the socket of the node itself takes this verb.

Example:
  lockmesh recover --lost-for-good web-2 web-4 web-5`
}

// Run runs the verb.
func (v *recoverVerb) Run(ctx context.Context, g *globals) error {
	if !v.Yes {
		return usage("recover is safe only if a majority of the voters is gone for good, with their directories; " +
			"if so, confirm with --lost-for-good")
	}
	return v.end(ctx, g, "the node uses the new voters", func(c *admin.Client) func(context.Context, time.Duration) error {
		return func(ctx context.Context, wait time.Duration) error { return c.Recover(ctx, wait, v.Voters...) }
	})
}
