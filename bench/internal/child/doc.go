// Package child runs this program again in another role, as a process that obeys commands: each
// command is a line of JSON on standard input, and each answer is a line on standard output. The
// process ends when its standard input ends, so it never outlives its parent.
package child
