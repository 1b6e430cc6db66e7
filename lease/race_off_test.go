//go:build !race

package lease

const raced = false
