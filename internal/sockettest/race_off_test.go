//go:build !race

package sockettest

const raced = false
