package main

import (
	"crypto/rand"
	"regexp"
	"strings"
)

// A passing node lasts as long as a command: a node of --join, or doctor's. The beginnings of the
// names tell passing nodes from agents.
const (
	joined  = "cli-"
	visitor = "doctor-"

	// joinedLen and visitorLen are the lengths of the random rests. Many nodes of --join may run at
	// a time.
	joinedLen  = 12
	visitorLen = 8
)

// passing matches the names of passing nodes; an agent's name such as cli-7 doesn't match.
var passing = regexp.MustCompile(`^(cli-[a-z2-7]{12}|doctor-[a-z2-7]{8})$`)

// passingName returns a random name with a beginning, and a rest of n letters.
func passingName(beginning string, n int) string {
	return beginning + strings.ToLower(rand.Text()[:n])
}
