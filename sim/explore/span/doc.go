// Package span is an implementation package of lockmesh, without a compatibility promise. It
// explores the effect of one change of an electorate on one lock: two clients, and voters learning
// of each version in turn.
//
// The package is a model, not the code of production, except for the majority rule
// (quorum.Electorate): nodes with sessions, streams and ballots beside an election would have too
// many states. A voter keeps its vote for an acknowledged client for two ticks. Like
// quorum.Requester, a client counts an acknowledgement under the voter's version, if the voter's
// version is the newest known to the client or the version before. The client holds the lock while
// backed by a majority under either version. The drain is two ticks, too.
//
// Decisions about electorates are the subject of package elect. Here the joint version is decided
// at any time, and the final version at any time after the drain; or, with Options.Back, the old
// voters are restored at any time.
package span
