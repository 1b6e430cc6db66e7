// Package birth drives the birth of a mesh by count through all possible events within small
// limits: processes that start and end, that hear of each other or never do, however late, that
// pledge, found, give their pledges up, and vote each other in and out.
//
// The package drives [electorate.Machine], the very code of production. A machine without a
// directory is what it knows: its identity, its pledge, its electorate, and the newest report of
// each other process. So a world holds no machines. For each event a machine is made anew and told
// what it knows, and after the event it is asked what it knows now.
//
// Time doesn't pass for reports: a process may take an old report for a new one for as long as it
// lives. So the worlds are worse than real ones, where a report counts for a moment only. An
// electorate changes in one step, by a majority of its voters that know it; package elect explores
// the steps of a change.
//
// The claim: while fewer processes run at a time than Expect plus the smallest majority, no two
// meshes have a majority at a time. Judge says when two have.
package birth
