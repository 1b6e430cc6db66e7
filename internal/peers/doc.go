// Package peers finds the addresses of other nodes: it reads the entries of the configuration, and
// looks them up again as long as the node runs. It is part of lockmesh's implementation, without a
// compatibility promise.
package peers
