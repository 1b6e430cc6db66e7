package engine

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Inspect returns the state of a key as seen by a majority of the voters.
func (eng *Engine) Inspect(ctx context.Context, op string, key vote.Key) (*quorum.QueryResult, error) {
	return eng.query(ctx, op, key, func(now vote.Now) uint64 { return eng.loop.node.Inspect(now, key) })
}

// Page returns the state of up to most keys that begin with prefix: the first by name after the
// given key.
func (eng *Engine) Page(ctx context.Context, prefix, after vote.Key, most int) (*quorum.QueryResult, error) {
	return eng.query(ctx, "list", prefix, func(now vote.Now) uint64 {
		return eng.loop.node.Page(now, prefix, after, most)
	})
}

// Revoke asks the holders of a key to release it.
func (eng *Engine) Revoke(ctx context.Context, key vote.Key, reason string) error {
	_, err := eng.query(ctx, "revoke", key, func(now vote.Now) uint64 { return eng.loop.node.Revoke(now, key, reason) })
	return err
}

// Evict asks the node of a lease to end it.
func (eng *Engine) Evict(ctx context.Context, key vote.Key, token vote.Token, reason string) error {
	_, err := eng.query(ctx, "evict", key, func(now vote.Now) uint64 {
		return eng.loop.node.Evict(now, key, token, reason)
	})
	return err
}

// query sends a query to the voters and waits for the answer.
func (eng *Engine) query(ctx context.Context, op string, key vote.Key, ask func(vote.Now) uint64) (*quorum.QueryResult, error) {
	answer := make(chan *quorum.Event, 1)
	fail := func(reason error, text string, err error) error {
		return eng.fail(errs.Failure{Op: op, Key: string(key), Reason: reason, Text: text, Err: err})
	}
	if ctx.Err() != nil {
		return nil, fail(nil, "", errs.OfContext(ctx))
	}
	var nonce uint64 // owned by the loop
	if err := eng.loop.box.putCall(func(now vote.Now) {
		nonce = ask(now)
		eng.loop.queries[nonce] = answer
	}); err != nil {
		return nil, fail(err, "", nil)
	}
	select {
	case e := <-answer:
		if e.Wait.Reason != quorum.WaitNone {
			return nil, fail(reasonOf(e.Wait.Reason), e.Wait.Text, nil)
		}
		return e.Result, nil
	case <-eng.loop.done:
		return nil, fail(errs.Closed, "", nil)
	case <-ctx.Done():
	}
	ended, unanswered := errs.OfContext(ctx), make(chan string, 1)
	if eng.loop.box.post(false, func(now vote.Now) { unanswered <- eng.loop.node.Unanswered(now, nonce) }) {
		select {
		case text := <-unanswered:
			if text == "" { // a majority has answered
				return nil, fail(nil, "", ended)
			}
			return nil, fail(errs.NoQuorum, text, ended)
		case <-eng.loop.done:
		}
	}
	return nil, fail(errs.Closed, "", ended)
}
