package sim

import (
	"slices"
	"testing"
)

// MutantBuilder returns the builder of a mutant, for tests outside the package.
func MutantBuilder(t *testing.T, name string) Builder {
	t.Helper()
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("no mutant is called %q", name)
	}
	return mutants[i].build
}
