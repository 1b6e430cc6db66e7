package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// evictPause is the first pause of Evict between two queries: about the time for two messages.
const evictPause = 5 * time.Millisecond

// Evict ends a lease against its holder's will. The token selects the lease: use the token shown by
// [Mesh.Inspect], so that only the inspected lease is ended. ([Mesh.List] may show the token of an
// earlier lease, see [Holder].) The holder's node ends the lease and notifies its user:
// [Lease.Done] is closed, and [Lease.Err] is ErrLost and [ErrEvicted], with the name of the calling
// node and the reason given by [WithReason], the only option accepted. Evict returns nil once no
// majority of the voters holds the key for the lease any more, also if the lease has ended before.
//
// The user of the lease may continue for a moment until notified of the end, as with every lost
// lease: the protected resource should check the token. [WithDelay] and [WithMinHold] apply as for
// any lease that ends without an Unlock.
//
// A crashed or partitioned node can't be notified. Its lease ends as without Evict: within the
// lease's TTL, which is the node's unless [WithTTL] has set another, and within MaxTTL in any case.
// Nothing ends the lease sooner, since the node may be alive and believe that it holds the key.
// Evict also waits for this end, as long as ctx allows.
//
// Errors: ErrKey; ErrOption; ErrNoQuorum if too few voters answer within a TTL; ErrClosed; ErrBusy;
// or ctx's error, with ErrHeld if the lease was still shown as held; ErrHeld, and nothing is ended,
// if the token may be of an earlier lease that was handed off within its node.
func (m *Mesh) Evict(ctx context.Context, key string, token uint64, opts ...Option) error {
	m.checkUsable("Mesh.Evict")
	ctx = guardContext(ctx, "Mesh.Evict")
	if err := checkKey("evict", key); err != nil {
		return err
	}
	why, err := m.reason("evict", key, opts)
	if err != nil {
		return err
	}
	if token == 0 || vote.Token(token) > vote.MaxToken {
		return &Error{
			Op: "evict", Key: key, Reason: ErrOption,
			Text: fmt.Sprintf("no lease has token %d; Inspect shows the token of each holder", token),
		}
	}
	var held *Holder // as last seen
	stillHeld := func() error {
		return &Error{
			Op: "evict", Key: key, Reason: ErrHeld, Err: errs.OfContext(ctx),
			Text: fmt.Sprintf("%s was asked to end the lease and hasn't yet; if the node is "+
				"dead or cut off, the lease ends by itself within the lease's TTL, %v at most",
				held.Node, m.eng.GrantLimit()),
		}
	}
	for pause := evictPause; ; pause = min(2*pause, m.cfg.TTL/20) {
		if err := m.eng.Evict(ctx, vote.Key(key), vote.Token(token), why); err != nil {
			if held != nil && ctx.Err() != nil && !errors.Is(err, ErrClosed) {
				return stillHeld()
			}
			return err
		}
		info, err := m.Inspect(ctx, key)
		switch now := holderOf(info, token); {
		case err != nil && held != nil && ctx.Err() != nil && !errors.Is(err, ErrNoQuorum):
			return stillHeld()
		case err != nil:
			return withOp(err, "evict")
		case now == nil && held != nil:
			return nil // whatever the next holder's token is
		case now == nil:
			return checkPassedOn(info, token)
		default:
			held = now
		}
		clock.Sleep(ctx, m.eng.Clocks(), pause, nil)
		if ctx.Err() != nil {
			return stillHeld()
		}
	}
}

// checkPassedOn returns an error if the token may be of the same block as a holder's: a node hands
// leases off among its callers, each with the next token of one block, and the voters count them as
// one lease.
func checkPassedOn(info Info, token uint64) error {
	for i := range info.Holders {
		if h := &info.Holders[i]; max(token, h.Token)-min(token, h.Token) < vote.BlockSize {
			return &Error{
				Op: "evict", Key: info.Key, Reason: ErrHeld,
				Text: fmt.Sprintf("nothing was ended: %s hands leases off among its callers; use the token %d to "+
					"end the present lease", h.Node, h.Token),
			}
		}
	}
	return nil
}

// holderOf returns the holder with the given token; nil if there is none.
func holderOf(info Info, token uint64) *Holder {
	for i := range info.Holders {
		if info.Holders[i].Token == token {
			return &info.Holders[i]
		}
	}
	return nil
}
