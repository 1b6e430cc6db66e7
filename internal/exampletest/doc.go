// Package exampletest runs the programs in examples as processes of their own, for their tests: the
// package starts a program as a reader would, and waits for its output.
package exampletest
