// Package span explores what one change of an electorate does to one lock: two clients, and voters that hear of each version one after the other.
//
// It is a model, not the code of production, but for who decides (quorum.Elected): nodes with sessions, streams and ballots beside an election would be too many states.
// A voter stands by its vote for whom it has acknowledged, for two ticks. A client counts an acknowledgement under the version that the voter goes by: under the newest that the
// client knows or under the one before, as quorum.Requester does, and holds while a majority under one of them covers it. The drain is two ticks, too.
//
// What an electorate decides about electorates is package elect's business. Here the joint version is decided at any time, and the final one at any time
// after the drain; or, with Options.Back, the old voters go back at any time.
package span
