// Package peers finds the addresses of other nodes: the package reads the entries of the
// configuration, and looks the entries up again as long as the node runs. The package is part of
// lockmesh's implementation, without a compatibility promise.
package peers
