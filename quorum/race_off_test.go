//go:build !race

package quorum

const raced = false
