// Package top is a live view of a mesh for a terminal: the verdict, the voters, this node, and the
// keys in use, asked from a node again and again.
//
// A [Model] decides everything, and neither reads a clock nor sends a request: requests are
// commands of Bubble Tea, made by an asker, and answers are messages that carry the time of their
// arrival. A test therefore shows any picture from the messages alone. [Run] joins a model to a
// terminal.
package top
