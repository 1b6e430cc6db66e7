//go:build !race

package lockmesh

const raced = false
