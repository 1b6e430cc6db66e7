package fence

import "context"

// Resource is a resource that a lock protects, stored together with the newest token seen. C
// represents a change to the resource: a function that runs in a transaction, for example, or a new
// content.
//
// sqlfence.Resource and objectfence.Resource implement Resource. An adapter for another kind of
// resource must keep these rules, which package fencetest tests:
//
//   - Do returns the error of Validate, and changes nothing, if the token is invalid.
//   - Do returns a [StaleError] with both tokens, and changes nothing, if the resource has seen a
//     newer token.
//   - Otherwise the token becomes the newest and the change is made, in one step: no newer token
//     can be accepted between the check and the moment at which the change takes effect.
//   - An equal token is accepted. Any token is accepted if the resource has seen none.
//   - When Do returns another error, the change may or may not have been made. The change isn't
//     made later.
//   - The record of the newest token lasts at least as long as the effects of a change.
type Resource[C any] interface {
	// Do makes the change, unless a newer token has been seen. ctx bounds the call; the context of
	// the lease is a good choice, since the call then ends when the lease is lost.
	Do(ctx context.Context, token uint64, change C) error
}
