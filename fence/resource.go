package fence

import "context"

// Resource is something that a lock protects and that keeps the newest token it has seen together with what it protects. C is how a
// change to it is told: a function that runs in a transaction, for one, or a new content.
//
// sqlfence.Resource and objectfence.Resource are such. An adapter for something else is one when it keeps these rules, which package
// fencetest tests:
//
//   - Do returns an error for which Validate is the reason, and does nothing, if the token can't be one.
//   - It returns a [StaleError] with both tokens, and changes nothing, if the resource has seen a newer token.
//   - Otherwise the token becomes the newest and the change is made, in one step: no newer token can be accepted between the check
//     and the moment at which the change takes effect.
//   - An equal token is accepted. So is any, if the resource has seen none.
//   - When Do returns another error, the change may have been made or not. It isn't made later.
//   - What the resource has seen outlives whatever the change itself outlives.
type Resource[C any] interface {
	// Do makes the change, unless a newer token has been seen. ctx bounds the call; the context of the lease is a good one, since it
	// ends the call when the lease is lost.
	Do(ctx context.Context, token uint64, change C) error
}
