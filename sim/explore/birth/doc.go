// Package birth is an implementation package of lockmesh, without a compatibility promise. It
// drives the birth of a mesh by count through all possible events within small limits: processes
// that start, end, exchange reports (at any time or never), pledge, found a mesh, abandon pledges,
// and vote each other in and out.
//
// The package drives [electorate.Machine], the code of production. The state of a machine without a
// directory is its identity, its pledge, its electorate, and the newest report of each other
// process. A world stores these states only: for each event the package builds a machine from its
// state, passes the event, and stores the new state.
//
// Time doesn't pass for reports: a process may take an old report for a new report until the
// process ends. So the worlds are worse than real worlds, where a report counts for a moment only.
// An electorate changes in a single step, by a majority of the voters that know the electorate;
// package elect explores the steps of a change.
//
// The claim: while fewer processes run at a time than Expect plus the smallest majority, no two
// meshes have a majority at a time. Judge reports a violation.
package birth
