//go:build race

package main

// racing says that the race detector watches, under which a simulation takes some twenty times as long.
const racing = true
